"""Added time against the number of tensors and against bytes, as PNG."""

import matplotlib

matplotlib.use("Agg")  # no window, no display

from matplotlib import pyplot

from tools.benchmarks import choices, workloads

_STYLES = {
    choices.PEER: {"color": "tab:red", "marker": "s"},
    choices.OURS: {"color": "tab:blue", "marker": "o"},
    choices.LEGACY_PROTOCOL: {"color": "tab:cyan", "marker": "v"},
    choices.FIXED: {"color": "tab:green", "marker": "^"},
    choices.FLOOR: {"color": "black", "marker": "x", "linestyle": "--"},
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
        of_strategy = [r for r in figures if r["strategy"] == strategy]
        for axis, label in _AXES.items():
            path = folder / f"added-by-{axis}-{strategy}.png"
            sizes = {name: w[axis] for name, w in result["workloads"].items()}
            _draw(_along(of_strategy, axis), sizes, label, strategy, path)
            paths.append(path)
    return paths


def _along(figures, axis):
    """The figures to draw: where a sweep is there, the part that varies this alone."""
    swept = [r for r in figures if r["workload"] in workloads.SWEEP_ALONG[axis]]
    # Whole steps are of another kind: what they add depends on the batch, too.
    named = [r for r in figures if r["workload"] not in workloads.SWEEP]
    return swept or [r for r in named if not workloads.get(r["workload"]).trains]


def _draw(figures, sizes, label, strategy, path):
    modes = [m for m in choices.MODES if any(r["mode"] == m for r in figures)]
    families = [f for f in choices.FAMILIES if any(r["family"] == f for r in figures)]
    shape = {"nrows": max(len(families), 1), "ncols": max(len(modes), 1)}
    figure, panels = pyplot.subplots(
        **shape,
        figsize=(4.2 * shape["ncols"], 3.2 * shape["nrows"]),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for row, family in enumerate(families):
        for column, mode in enumerate(modes):
            panel = panels[row][column]
            own = [r for r in figures if (r["family"], r["mode"]) == (family, mode)]
            _draw_panel(panel, own, sizes)
            panel.set_title(f"{choices.FAMILIES[family]}, {mode}", fontsize=9)
            panel.set_ylabel("added ms a step" if column == 0 else "")
    handles = {}
    for panel in panels.flat:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    if handles:
        columns = 5 if len(modes) > 1 else 2
        figure.legend(
            handles.values(), handles, loc="outside upper center", ncols=columns
        )
    figure.supxlabel(f"{label} (strategy: {strategy})", fontsize=10)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _draw_panel(panel, figures, sizes):
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(True, which="both", alpha=0.25)
    for candidate, style in _STYLES.items():
        points = sorted(
            (sizes[r["workload"]], r["added_ms"], *r["added_quartiles"])
            for r in figures
            if r["candidate"] == candidate
        )
        if not points:
            continue
        x, y, low, high = zip(*points)
        panel.plot(x, y, label=candidate, markersize=4, linewidth=1.2, **style)
        # A quartile at or below zero has no place on a log axis.
        low = [max(value, middle / 10) for value, middle in zip(low, y)]
        panel.fill_between(x, low, high, color=style["color"], alpha=0.12)
