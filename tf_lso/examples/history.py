"""Record the steps of a training run, and show them in a plot."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np


class History(NamedTuple):
    """The results of a training run. Each list has one element per step.

    `scales` contains the loss scale after each step. `skipped` contains True for each step
    that was skipped.
    """

    losses: list[float]
    scales: list[float]
    skipped: list[bool]


def plot(history: History, path: Path) -> None:
    """Plot the loss, the scale and the skipped steps, and write the plot to `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), constrained_layout=True)
    loss, scale, skipped = figure.subplots(3, 1, sharex=True)
    steps = np.arange(1, len(history.losses) + 1)
    at = steps[np.array(history.skipped)]

    loss.plot(steps, history.losses, linewidth=1)
    loss.set(ylabel="loss", title="Digits in mixed_float16 with a dynamic loss scale")

    scale.step(steps, history.scales, where="post")
    scale.set_yscale("log", base=2)
    scale.set(ylabel="loss scale")

    skipped.step(steps, np.cumsum(history.skipped), where="post", color="tab:red")
    skipped.plot(at, np.cumsum(history.skipped)[at - 1], "x", color="tab:red")
    skipped.set(xlabel="step", ylabel="skipped steps so far")
    skipped.yaxis.get_major_locator().set_params(integer=True)

    for axes in (loss, scale, skipped):
        axes.grid(alpha=0.3)
        for step in at:
            axes.axvline(step, color="tab:red", alpha=0.3, linewidth=1)
    if at.size:
        # All vertical lines look alike, so one entry in the legend is enough.
        label = "skipped step: a gradient overflowed, no weight changed"
        loss.legend(loss.lines[-1:], [label], loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")


def power_of_two(scale: float) -> str:
    """Return a text such as "2^15" for a power of two, or a decimal number otherwise."""
    exponent = math.log2(scale)
    return f"2^{exponent:.0f}" if exponent.is_integer() else f"{scale:g}"
