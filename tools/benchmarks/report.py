"""From seconds to figures, tables and plots: added time, spread, ratios."""

import math
import statistics

from tools.benchmarks import plan

_CLOCK_MS = 1e-4  # about what reading the clock takes
_COLUMNS = {  # key -> heading, format
    "ms": ("ms", "{:.2f}"),
    "added_ms": ("added ms", "{:.3f}"),
    "added_iqr_ms": ("IQR", "{:.3f}"),
    "ratio_to_peer": ("/ framework", "{:.2f}"),
    "ratio_to_best_peer": ("/ best framework", "{:.2f}"),
    "ratio_to_floor": ("/ check and divide", "{:.2f}"),
    "operations_per_gradient": ("ops / gradient", "{:.1f}"),
    "collectives": ("collectives", "{}"),
    "traces": ("traces", "{}"),
    "added_peak_mb": ("peak MB", "{:+.1f}"),
}
# Bars of the plots: title -> color.
_COLORS = {
    "Keras 3": "tab:red",
    "tf_keras": "tab:orange",
    plan.CANDIDATES[plan.OURS]: "tab:blue",
    plan.CANDIDATES[plan.LEGACY_PROTOCOL]: "tab:cyan",
    plan.CANDIDATES[plan.FIXED]: "tab:green",
    plan.CANDIDATES[plan.FLOOR]: "silver",
}
_TICKS = {"keras3": "Keras 3", "legacy": "tf_keras\nlegacy", "new": "tf_keras\nnewer"}


def figures(records):
    """Merge the records of each candidate, and add the figures of the table.

    compat_docs/explanation/performance-record.md says what each is. A ratio is None where
    it cannot be told from noise.
    """
    merged = {}
    for record in records:
        key = (*_setting(record), record["family"], record["candidate"])
        merged.setdefault(key, {}).update(record)
    for (*where, name), record in merged.items():
        _compare_with_bare(record, merged[(*where, plan.BARE)], name != plan.BARE)
    timed = [record for record in merged.values() if "added_ms" in record]
    for record in timed:
        alike = [r for r in timed if _setting(r) == _setting(record)]
        peers = [r for r in alike if r["candidate"] == plan.PEER]
        best = min(peers, key=lambda r: r["added_ms"], default=None)
        own = {r["candidate"]: r for r in alike if r["family"] == record["family"]}
        record["ratio_to_best_peer"] = _ratio(record, best)
        for name in (plan.PEER, plan.FLOOR):
            record[f"ratio_to_{name}"] = _ratio(record, own.get(name))
    return list(merged.values())


def _setting(record):
    return record["mode"], record["strategy"], record["workload"]


def _compare_with_bare(record, bare, is_other):
    if "seconds" in record:
        record["ms"] = 1e3 * statistics.median(record["seconds"])
        if "seconds" in bare and is_other:
            low, record["added_ms"], high = added(record["seconds"], bare["seconds"])
            record |= {"added_quartiles": [low, high], "added_iqr_ms": high - low}
    if "operations" in record and "operations" in bare:
        more = record["operations"] - bare["operations"]
        tensors = len(plan.workload(record["workload"]).shapes)
        record["operations_per_gradient"] = more / tensors
    if record.get("peak_bytes") and bare.get("peak_bytes"):  # not all systems tell it
        record["added_peak_mb"] = (record["peak_bytes"] - bare["peak_bytes"]) / 1e6


def added(seconds, bare):
    """The quartiles of the milliseconds above bare, round by round."""
    differences = [1e3 * (s - b) for s, b in zip(seconds, bare, strict=True)]
    differences *= 2 if len(differences) == 1 else 1
    return statistics.quantiles(differences, n=4, method="inclusive")


def _ratio(record, other):
    """How much `record` adds for each that `other` adds.

    None where that is missing, or less than twice what its median may be off by chance.
    """
    if other is None:
        return None
    chance = other["added_iqr_ms"] / math.sqrt(len(other["seconds"]))
    least = max(2 * chance, _CLOCK_MS)
    return record["added_ms"] / other["added_ms"] if other["added_ms"] > least else None


def tables(records):
    """A table for each mode, strategy and workload, and what could not be measured."""
    # A column that has nothing in this run is left out.
    shown = [k for k in _COLUMNS if any(r.get(k) is not None for r in records)]
    heading = ["family", "candidate", *(_COLUMNS[key][0] for key in shown)]
    groups, left_out = {}, []
    for r in records:
        name = plan.title(r["candidate"], r["family"])
        if "skipped" in r:
            where = ", ".join((*_setting(r), r["family"], name))
            left_out.append(f"- Not measured ({where}): {r['skipped']}")
            continue
        told = [(_COLUMNS[key][1], r.get(key)) for key in shown]
        cells = ["" if value is None else form.format(value) for form, value in told]
        groups.setdefault(_setting(r), [heading]).append([r["family"], name, *cells])
    parts = []
    for (mode, strategy, name), rows in groups.items():
        workload = plan.workload(name)
        size = f"{len(workload.shapes)} tensors, {workload.values:,} values"
        title = f"**{workload.title} ({size}) · {mode} · {strategy}**"
        parts.append(f"{title}\n\n{_aligned(rows)}")
    return parts + left_out


def _aligned(rows):
    """A table of Markdown with columns of one width, to be read in a terminal too."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    rule = ["-" * (w - (i > 1)) + ":" * (i > 1) for i, w in enumerate(widths)]
    lines = [
        " | ".join(cell.rjust(w) for cell, w in zip(row, widths))
        for row in [rows[0], rule, *rows[1:]]
    ]
    return "\n".join(f"| {line} |" for line in lines)


def draw(records, folder):
    """Draw bars of added time for each mode and strategy, each a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # no window, no display
    from matplotlib import patches, pyplot

    plots = {}
    for r in records:
        if "added_ms" in r:
            workloads = plots.setdefault((r["strategy"], r["mode"]), {})
            workloads.setdefault(r["workload"], []).append(r)
    for (strategy, mode), workloads in plots.items():
        columns = min(3, len(workloads))
        rows = -(-len(workloads) // columns)
        size = (0.8 + 3.6 * columns, 1.4 + 2.7 * rows)
        figure = pyplot.figure(figsize=size, layout="constrained")
        drawn = set()
        for number, (name, own) in enumerate(workloads.items(), start=1):
            panel = figure.add_subplot(rows, columns, number)
            panel.set_title(plan.workload(name).title, fontsize="medium")
            drawn |= _draw_bars(panel, own)
        boxes = [
            patches.Patch(color=_COLORS[t], label=t) for t in _COLORS if t in drawn
        ]
        figure.legend(handles=boxes, loc="outside upper center", ncols=len(boxes))
        where = f"{plan.MODES[mode]}, {plan.STRATEGIES[strategy][1]}"
        figure.supxlabel(f"whose optimizer is wrapped ({where})")
        figure.supylabel("ms a step, above the step without loss scaling")
        figure.savefig(folder / f"added-{strategy}-{mode}.png", dpi=120)
        pyplot.close(figure)


def _draw_bars(panel, own):
    """Draw the bars of one workload, a group for each family; return their titles."""
    families = [f for f in plan.FAMILIES if any(r["family"] == f for r in own)]
    names = [c for c in plan.CANDIDATES if any(r["candidate"] == c for r in own)]
    width, titles = 0.9 / len(names), set()
    for r in own:
        beside = (names.index(r["candidate"]) - (len(names) - 1) / 2) * width
        place, value = families.index(r["family"]) + beside, r["added_ms"]
        titles.add(title := plan.title(r["candidate"], r["family"]))
        panel.bar(place, value, width, color=_COLORS[title])
        panel.vlines(place, *r["added_quartiles"], color="black", lw=1)
        # The number, so that a bar of almost nothing is seen too.
        number = f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"
        top = max(value, r["added_quartiles"][1], 0)
        panel.text(place, top, number, ha="center", va="bottom", fontsize=6.5)
    panel.set_xticks(range(len(families)), [_TICKS[family] for family in families])
    panel.margins(y=0.12)
    panel.axhline(0, color="black", lw=0.8)
    panel.grid(True, axis="y", alpha=0.25)
    return titles
