"""What a training run did step by step, and how it is shown: plot, table, TensorBoard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class History:
    """What every step did.

    Attributes:
      losses: The mean loss of each step's batch.
      scales: The loss scale after each step.
      skipped: Whether each step overflowed, so that it changed no weight.
    """

    losses: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    skipped: list[bool] = field(default_factory=list)

    def add(self, loss: float, scale: float, *, skipped: bool) -> None:
        """Add a step."""
        self.losses.append(loss)
        self.scales.append(scale)
        self.skipped.append(skipped)


def plot(history: History, path: Path) -> None:
    """Write three panels over the steps to `path`: loss, loss scale, skipped steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), constrained_layout=True)
    FigureCanvasAgg(figure)
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
        # The last line stands for all of them.
        label = "skipped step: a gradient overflowed, no weight changed"
        loss.legend(loss.lines[-1:], [label], loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")


def write_loss_scale(optimizer: Any) -> None:
    """Write the loss scale and the skipped steps, which TensorFlow of 2020 did not count."""
    from tf_lso import summary

    summary.loss_scale(optimizer)


def power_of_two(scale: float) -> str:
    """Return "2^15" for 32768, and a scale that is no power of two as it is."""
    exponent = math.log2(scale)
    return f"2^{exponent:.0f}" if exponent.is_integer() else f"{scale:g}"


def print_table(rows: Mapping[str, object]) -> None:
    """Print a line with name and value for each of `rows`."""
    width = max(map(len, rows))
    print()
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
