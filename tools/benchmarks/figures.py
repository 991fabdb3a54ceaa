"""Compute figures from the measured seconds, and make tables and plots of the figures."""

import math
import statistics

from tools.benchmarks.workloads import (
    BARE,
    FAMILIES,
    MODES,
    OURS,
    OWN,
    STRATEGIES,
    WORKLOADS,
)

_CLOCK_MS = 1e-4  # about the time for one reading of the clock
_COLUMNS = {  # maps the key of a column to its heading and format
    "ms": ("ms", "{:.2f}"),
    "added_ms": ("added ms", "{:.3f}"),
    "added_iqr_ms": ("IQR", "{:.3f}"),
    "ratio_to_own": ("/ own", "{:.2f}"),
}


def figures(setting, measured):
    """Return a dict for each candidate with its measurements and the computed figures.

    compat_docs/explanation/performance-record.md explains each figure.
    """
    rows = [setting._asdict() | {"candidate": n} | measured[n] for n in measured]
    by_candidate = {row["candidate"]: row for row in rows}
    bare, own = by_candidate[BARE], by_candidate[OWN]
    for row in rows:
        pairs = zip(row["seconds"], bare["seconds"], strict=True)
        added = [1e3 * (seconds - without) for seconds, without in pairs]
        added *= 2 if len(added) == 1 else 1  # quartiles need two values
        low, median, high = statistics.quantiles(added, n=4, method="inclusive")
        row["ms"] = 1e3 * statistics.median(row["seconds"])
        row["added_ms"] = median
        row |= {"added_quartiles": [low, high], "added_iqr_ms": high - low}
    # A ratio means nothing unless the time that the framework's own wrapper adds is at least
    # twice the random error of the median of this time.
    error = own["added_iqr_ms"] / math.sqrt(len(own["seconds"]))
    if own["added_ms"] > max(2 * error, _CLOCK_MS):
        for row in rows:
            row["ratio_to_own"] = row["added_ms"] / own["added_ms"]
    return rows


def table(rows):
    """Return a table of the rows of a setting, for terminals and for Markdown."""
    # Columns without values are left out.
    keys = [key for key in _COLUMNS if any(key in row for row in rows)]
    lines = [["candidate", *(_COLUMNS[key][0] for key in keys)]]
    for row in rows:
        cells = [
            _COLUMNS[key][1].format(row[key]) if key in row else "" for key in keys
        ]
        lines.append([row["candidate"], *cells])
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * (width - 1) + ":" for width in widths])
    text = [" | ".join(c.rjust(w) for c, w in zip(line, widths)) for line in lines]
    row = rows[0]
    where = " · ".join((row["mode"], row["strategy"], row["family"]))
    title = f"**{WORKLOADS[row['workload']].title} · {where}**\n"
    return "\n".join([title, *(f"| {line} |" for line in text)])


def draw(rows, folder):
    """Draw one PNG for each mode and strategy, with bars that show the added time."""
    from matplotlib import patches
    from matplotlib.figure import Figure

    plots = {}
    for row in rows:
        if row["candidate"] in (OWN, OURS):
            panels = plots.setdefault((row["strategy"], row["mode"]), {})
            panels.setdefault(row["workload"], []).append(row)
    for (strategy, mode), panels in plots.items():
        # With more than two columns, the labels would be too small on a page.
        columns = min(2, len(panels))
        lines = -(-len(panels) // columns)
        size = (0.8 + 3.6 * columns, 1.4 + 2.9 * lines)
        figure = Figure(figsize=size, layout="constrained")
        for number, (name, rows_of_panel) in enumerate(panels.items(), start=1):
            panel = figure.add_subplot(lines, columns, number)
            panel.set_title(WORKLOADS[name].title, fontsize="medium")
            _draw_bars(panel, rows_of_panel)
        boxes = [
            patches.Patch(color="tab:red", label="the framework's own"),
            patches.Patch(color="tab:blue", label="tf_lso"),
        ]
        figure.legend(handles=boxes, loc="outside upper center", ncols=len(boxes))
        where = f"{MODES[mode]}, {STRATEGIES[strategy]}"
        figure.supxlabel(f"whose optimizer is wrapped ({where})")
        figure.supylabel("ms a step, above the step without loss scaling")
        figure.savefig(folder / f"added-{strategy}-{mode}.png", dpi=120)


def _draw_bars(panel, rows):
    """Draw two bars for each family on one workload, with their quartiles and values."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    for row in rows:
        is_ours, value = row["candidate"] == OURS, row["added_ms"]
        position = families.index(row["family"]) + (0.2 if is_ours else -0.2)
        # If all rounds are equal, rounding can make a difference negative. So take `abs`.
        spread = [[abs(value - quartile)] for quartile in row["added_quartiles"]]
        color = "tab:blue" if is_ours else "tab:red"
        bar = panel.bar(position, value, 0.4, yerr=spread, color=color)
        digits = 3 if abs(value) >= 1 else 2
        panel.bar_label(bar, fmt=f"%.{digits}g", fontsize=8.5, padding=1)
    panel.set_xticks(range(len(families)), [FAMILIES[family] for family in families])
    panel.margins(y=0.15)
    panel.axhline(0, color="black", lw=0.8)
    panel.grid(True, axis="y", alpha=0.25)
