"""Added time against the number of tensors and against bytes, as PNG."""

import matplotlib

matplotlib.use("Agg")  # no window, no display

import numpy as np
from matplotlib import pyplot

from tools.benchmarks import plan, workloads

_STYLES = {
    plan.PEER: {"color": "tab:red", "marker": "s"},
    plan.OURS: {"color": "tab:blue", "marker": "o"},
    plan.LEGACY_PROTOCOL: {"color": "tab:cyan", "marker": "v"},
    plan.FIXED: {"color": "tab:green", "marker": "^"},
    plan.FLOOR: {"color": "black", "marker": "x", "linestyle": "--"},
}
_AXES = {"tensors": "gradient tensors", "bytes": "bytes of gradients"}


def draw(result, folder):
    """Draw the plots of a run; return their paths.

    Args:
      result: what stands in benchmark.json.
      folder: where to write to.
    """
    figures = [r for r in result["figures"] if r.get("added_ms", 0) > 0]
    paths = []
    for strategy in dict.fromkeys(r["strategy"] for r in figures):
        for axis in _AXES:
            own = _along([r for r in figures if r["strategy"] == strategy], axis)
            sizes = {name: w[axis] for name, w in result["workloads"].items()}
            paths.append(folder / f"added-by-{axis}-{strategy}.png")
            _draw(own, sizes, f"{_AXES[axis]} (strategy: {strategy})", paths[-1])
    return paths


def _along(figures, axis):
    """The figures to draw: where a sweep is there, the part that varies this alone."""
    swept = [r for r in figures if r["workload"] in workloads.SWEEP_ALONG[axis]]
    # Whole steps are of another kind: what they add depends on the batch, too.
    named = [r for r in figures if r["workload"] not in workloads.SWEEP]
    return swept or [r for r in named if not workloads.get(r["workload"]).trains]


def _draw(figures, sizes, label, path):
    modes = [m for m in plan.MODES if any(r["mode"] == m for r in figures)] or [""]
    families = [f for f in plan.FAMILIES if any(r["family"] == f for r in figures)]
    rows, columns = max(len(families), 1), len(modes)
    figure, panels = pyplot.subplots(
        *(rows, columns),
        figsize=(4.2 * columns, 3.2 * rows),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    handles = {}
    for (row, column), panel in np.ndenumerate(panels):
        panel.set(xscale="log", yscale="log")
        panel.grid(True, which="both", alpha=0.25)
        if not families:
            continue
        key = families[row], modes[column]
        panel.set_title(f"{plan.FAMILIES[key[0]]}, {key[1]}", fontsize=9)
        panel.set_ylabel("" if column else "added ms a step")
        own = [r for r in figures if (r["family"], r["mode"]) == key]
        for candidate, style in _STYLES.items():
            points = sorted(
                (sizes[r["workload"]], r["added_ms"], *r["added_quartiles"])
                for r in own
                if r["candidate"] == candidate
            )
            if not points:
                continue
            x, y, low, high = np.transpose(points)
            (handles[candidate],) = panel.plot(x, y, ms=4, lw=1.2, **style)
            # A quartile at or below zero has no place on a log axis.
            low = np.maximum(low, y / 10)
            panel.fill_between(x, low, high, color=style["color"], alpha=0.12)
    if handles:
        figure.legend(
            *(handles.values(), handles),
            loc="outside upper center",
            ncols=5 if columns > 1 else 2,
        )
    figure.supxlabel(label, fontsize=10)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
