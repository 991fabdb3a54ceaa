"""Bars of added time, a panel for each workload, as PNG."""

import matplotlib

matplotlib.use("Agg")  # no window, no display

from matplotlib import patches, pyplot

from tools.benchmarks import plan, workloads

_COLORS = {
    "Keras 3": "tab:red",
    "tf_keras": "tab:orange",
    plan.CANDIDATES[plan.OURS]: "tab:blue",
    plan.CANDIDATES[plan.LEGACY_PROTOCOL]: "tab:cyan",
    plan.CANDIDATES[plan.FIXED]: "tab:green",
    plan.CANDIDATES[plan.FLOOR]: "silver",
}
_TICKS = {"keras3": "Keras 3", "legacy": "tf_keras\nlegacy", "new": "tf_keras\nnewer"}
_COLUMNS = 3


def draw(figures, folder):
    """Draw a plot for each strategy and mode of `report.figures`; return their paths."""
    paths = {}
    for record in figures:
        if "added_ms" in record:
            where = record["strategy"], record["mode"]
            paths.setdefault(folder / f"added-{'-'.join(where)}.png", []).append(record)
    for path, own in paths.items():
        _draw(own, path)
    return list(paths)


def _draw(figures, path):
    names = list(dict.fromkeys(r["workload"] for r in figures))
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    size = (0.8 + 3.6 * columns, 1.4 + 2.7 * rows)
    figure = pyplot.figure(figsize=size, layout="constrained")
    for number, name in enumerate(names, start=1):
        panel = figure.add_subplot(rows, columns, number)
        panel.set_title(workloads.get(name).title, fontsize="medium")
        _draw_bars(panel, [r for r in figures if r["workload"] == name], figures)
    shown = {plan.title(r["candidate"], r["family"]) for r in figures}
    boxes = [patches.Patch(color=c, label=n) for n, c in _COLORS.items() if n in shown]
    figure.legend(handles=boxes, loc="outside upper center", ncols=len(boxes))
    mode = plan.MODES[figures[0]["mode"]]
    _, strategy = plan.STRATEGIES[figures[0]["strategy"]]
    figure.supxlabel(f"whose optimizer is wrapped ({mode}, {strategy})")
    figure.supylabel("ms a step, above the step without loss scaling")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_bars(panel, own, figures):
    """Draw the bars of one workload, at the places that they have in all panels."""
    families = [f for f in plan.FAMILIES if any(r["family"] == f for r in figures)]
    taking = [c for c in plan.CANDIDATES if any(r["candidate"] == c for r in figures)]
    width = 0.9 / len(taking)
    for r in own:
        beside = taking.index(r["candidate"]) - (len(taking) - 1) / 2
        place, value = families.index(r["family"]) + beside * width, r["added_ms"]
        color = _COLORS[plan.title(r["candidate"], r["family"])]
        panel.bar(place, value, width, color=color)
        low, high = r["added_quartiles"]
        panel.vlines(place, low, high, color="black", lw=1)
        # The number, so that a bar of almost nothing is seen too.
        number = f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"
        top = max(value, high, 0)
        panel.text(place, top, number, ha="center", va="bottom", fontsize=6.5)
    panel.set_xticks(range(len(families)), [_TICKS[family] for family in families])
    panel.set_xlim(-0.5, len(families) - 0.5)
    panel.margins(y=0.12)
    panel.axhline(0, color="black", lw=0.8)
    panel.grid(True, axis="y", alpha=0.25)
