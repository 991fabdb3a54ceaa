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
_SIZES = {
    "tensors": lambda workload: len(workload.shapes),
    "bytes": lambda workload: 4 * workload.values,
}


def draw(figures, folder):
    """Draw the plots of a run, as from `report.figures`; return their paths."""
    figures = [r for r in figures if r.get("added_ms", 0) > 0]
    paths = []
    for strategy in dict.fromkeys(r["strategy"] for r in figures):
        for axis in _SIZES:
            own = _along([r for r in figures if r["strategy"] == strategy], axis)
            if own:
                paths.append(folder / f"added-by-{axis}-{strategy}.png")
                _draw(own, axis, paths[-1])
    return paths


def _along(figures, axis):
    """The figures to draw: where a sweep is there, the part that varies this alone."""
    swept = [r for r in figures if r["workload"] in workloads.SWEEP_ALONG[axis]]
    # Whole steps are of another kind: what they add depends on the batch, too.
    named = [r for r in figures if r["workload"] not in workloads.SWEEP]
    return swept or [r for r in named if not workloads.get(r["workload"]).trains]


def _draw(figures, axis, path):
    modes = [m for m in plan.MODES if any(r["mode"] == m for r in figures)]
    families = [f for f in plan.FAMILIES if any(r["family"] == f for r in figures)]
    figure, panels = pyplot.subplots(
        *(len(families), len(modes)),
        figsize=(4.2 * len(modes), 3.2 * len(families)),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    names = {r["workload"] for r in figures}
    sizes = {name: _SIZES[axis](workloads.get(name)) for name in names}
    handles = {}
    for (row, column), panel in np.ndenumerate(panels):
        key = families[row], modes[column]
        panel.set(xscale="log", yscale="log", title=", ".join(key))
        panel.grid(True, which="both", alpha=0.25)
        own = [r for r in figures if (r["family"], r["mode"]) == key]
        for candidate, style in _STYLES.items():
            points = sorted(
                (sizes[r["workload"]], r["added_ms"], *r["added_quartiles"])
                for r in own
                if r["candidate"] == candidate
            )
            if points:
                x, y, low, high = np.transpose(points)
                (handles[candidate],) = panel.plot(x, y, ms=4, lw=1.2, **style)
                # A quartile at or below zero has no place on a log axis.
                low = np.maximum(low, y / 10)
                panel.fill_between(x, low, high, color=style["color"], alpha=0.12)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=2)
    figure.supxlabel(f"{axis} of gradients (strategy: {figures[0]['strategy']})")
    figure.supylabel("added ms a step")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
