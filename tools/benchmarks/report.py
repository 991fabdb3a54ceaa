"""The figures as a table, for a terminal or in Markdown."""

from tools.benchmarks import choices, workloads

_COLUMNS = (
    # Heading, key, format.
    ("ms", "ms", "{:.2f}"),
    ("added ms", "added_ms", "{:.3f}"),
    ("IQR", "added_iqr_ms", "{:.3f}"),
    ("/ peer", "ratio_to_peer", "{:.2f}"),
    ("/ best peer", "ratio_to_best_peer", "{:.2f}"),
    ("/ floor", "ratio_to_floor", "{:.2f}"),
    ("ops / gradient", "operations_per_gradient", "{:.1f}"),
    ("collectives", "collectives", "{}"),
    ("traces", "traces", "{}"),
    ("peak MB", "added_peak_mb", "{:+.1f}"),
)


def text(result, markdown=False):
    """All that is printed of a run.

    Args:
      result: what stands in benchmark.json.
      markdown: whether for a page; otherwise for a terminal.
    """
    parts = [
        machine(result["environment"]),
        table(result["figures"], markdown),
        imports(result["imports"], markdown),
    ]
    return "\n\n".join(part for part in parts if part)


def table(figures, markdown=False):
    """The text of one table for each mode, strategy and workload.

    Args:
      figures: as from `figures.complete`.
      markdown: whether for a page; otherwise for a terminal.
    """
    # A column that has nothing in this run is left out.
    columns = [c for c in _COLUMNS if any(r.get(c[1]) is not None for r in figures)]
    parts, reasons = [], []
    for (mode, strategy, workload), group in _groups(figures).items():
        shown = [r for r in group if "skipped" not in r]
        reasons += [r for r in group if "skipped" in r]
        if not shown:
            continue
        head = ["family", "candidate", *(heading for heading, _, _ in columns)]
        rows = [
            [r["family"], r["candidate"], *(_cell(r, c) for c in columns)]
            for r in shown
        ]
        title = f"{_title(workload)} · {mode} · {strategy}"
        parts.append(_drawn(title, head, rows, markdown))
    return "\n\n".join([*parts, *_skipped(reasons, markdown), *_floors(figures)])


def machine(environment):
    """One line that says what a run was measured on."""
    e = environment
    return (
        f"TensorFlow {e['tensorflow']}, Keras {e['keras']}, tf_keras {e['tf_keras']}, "
        f"Python {e['python']}, {e['cores']} cores ({e['processor']})"
    )


def imports(seconds, markdown=False):
    """A line for each import time."""
    mark = "- " if markdown else ""
    lines = [f"{mark}{what}: {1e3 * s:.0f} ms" for what, s in (seconds or {}).items()]
    return "\n".join(lines)


def _groups(figures):
    groups = {}
    for record in figures:
        key = (record["mode"], record["strategy"], record["workload"])
        groups.setdefault(key, []).append(record)
    return groups


def _title(name):
    workload = workloads.get(name)
    tensors = len(workload.gradients)
    noun = "tensor" if tensors == 1 else "tensors"
    return f"{workload.title} ({tensors} {noun}, {_short(workload.values)} values)"


def _short(number):
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return str(number)


def _cell(record, column):
    value = record.get(column[1])
    return "" if value is None else column[2].format(value)


def _drawn(title, head, rows, markdown):
    if markdown:
        lines = [head, ["---", "---", *["--:"] * (len(head) - 2)], *rows]
        return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(r)} |" for r in lines)
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
    return "\n".join([title, *lines])


def _skipped(records, markdown):
    """One line for each reason, with what it holds for."""
    by_reason = {}
    for r in records:
        where = (r["mode"], r["strategy"], r["family"], r["workload"])
        by_reason.setdefault((where, r["skipped"]), []).append(r["candidate"])
    merged = {}
    for (where, reason), names in by_reason.items():
        full = names == choices.candidates_of(where[2])
        who = "all candidates" if full else ", ".join(names)
        merged.setdefault((reason, who), []).append(", ".join(where))
    mark = "- " if markdown else ""
    lines = [
        f"{mark}not measured: {who} ({'; '.join(places)}): {reason}"
        for (reason, who), places in merged.items()
    ]
    return ["\n".join(lines)] if lines else []


def _floors(figures):
    """A line that says which operations the floor took, by mode; in a list."""
    modes = {}
    for record in figures:
        if record.get("note") and record["candidate"] == choices.FLOOR:
            modes.setdefault(record["mode"], set()).add(record["note"])
    said = [f"in {mode} {', '.join(sorted(notes))}" for mode, notes in modes.items()]
    return [f"The floor checks by the cheapest of several: {'; '.join(said)}."] * bool(
        said
    )
