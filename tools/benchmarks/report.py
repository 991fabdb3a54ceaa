"""From seconds to figures and tables: added time, spread, ratios. No TensorFlow here."""

import math
import statistics

from tools.benchmarks import plan, workloads

_CLOCK_MS = 1e-4  # about what reading the clock takes

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


def figures(records):
    """Merge the records of each candidate, and add the figures derived from them.

    Args:
      records: dicts as from `plan.record_of`, of all jobs of a run.

    Returns:
      A list of dicts, one for each candidate in each setting, in the order of the
      records, with these keys where they were measured:

      - `ms`: median time of a step;
      - `added_ms`: median over the rounds of the time above that of the bare optimizer
        in the same round; `added_quartiles` are the first and third quartile, and
        `added_iqr_ms` lies between them;
      - `ratio_to_peer`, `ratio_to_best_peer`, `ratio_to_floor`: `added_ms` over that of
        the family's own, of the cheapest peer of all families, and of the floor; None
        where that cannot be told from nothing;
      - `operations_per_gradient`: graph operations above those of bare;
      - `collectives`, `traces`, `host_operations`: see one_process.py;
      - `added_peak_mb`: peak memory above that of bare.
    """
    merged = {}
    for record in records:
        fields = {k: v for k, v in record.items() if k != "what" and v is not None}
        # Time comes before memory, so a reason not to time it is kept.
        key = (*_setting(record), record["family"], record["candidate"])
        merged.setdefault(key, {}).update(fields)
    for (*where, name), record in merged.items():
        _compare_with_bare(name, record, merged[(*where, plan.BARE)])
    best = {}
    for (*setting, _, name), record in merged.items():
        if name == plan.PEER and "added_ms" in record:
            others = best.setdefault(tuple(setting), [])
            others.append((record["added_ms"], len(others), record))
    for (*where, _), record in merged.items():
        if "added_ms" in record:
            cheapest = min(best.get(tuple(where[:-1]), [(None,)]))[-1]
            for key, other in (
                ("ratio_to_peer", merged.get((*where, plan.PEER))),
                ("ratio_to_best_peer", cheapest),
                ("ratio_to_floor", merged.get((*where, plan.FLOOR))),
            ):
                record[key] = _ratio(record, other)
    return list(merged.values())


def added(seconds, bare):
    """The quartiles of the milliseconds above bare, round by round.

    Args:
      seconds: list of float, one a round.
      bare: the same of the bare optimizer.

    Returns:
      First quartile, median, third quartile.
    """
    differences = [1e3 * (s - b) for s, b in zip(seconds, bare, strict=True)]
    if len(differences) == 1:
        return differences * 3
    return statistics.quantiles(differences, n=4, method="inclusive")


def _setting(record):
    return record["mode"], record["strategy"], record["workload"]


def _compare_with_bare(name, record, bare):
    if "seconds" in record:
        record["ms"] = 1e3 * statistics.median(record["seconds"])
        if "seconds" in bare and name != plan.BARE:
            low, record["added_ms"], high = added(record["seconds"], bare["seconds"])
            record |= {"added_quartiles": [low, high], "added_iqr_ms": high - low}
    if "operations" in record and "operations" in bare:
        tensors = len(workloads.get(record["workload"]).shapes)
        more = record["operations"] - bare["operations"]
        record["operations_per_gradient"] = more / tensors
    if "peak_bytes" in record and "peak_bytes" in bare:
        record["added_peak_mb"] = (record["peak_bytes"] - bare["peak_bytes"]) / 1e6


def _ratio(record, other):
    """How much `record` adds for each that `other` adds.

    None where `other` is missing, or adds less than twice what its median may be off by
    chance: a ratio to that is noise.
    """
    if other is None or "added_ms" not in other:
        return None
    chance = other["added_iqr_ms"] / math.sqrt(len(other["seconds"]))
    least = max(2 * chance, _CLOCK_MS)
    return record["added_ms"] / other["added_ms"] if other["added_ms"] > least else None


def text(result, markdown=False):
    """All that is printed of a run: what it was measured on, and its tables.

    Args:
      result: what stands in benchmark.json.
      markdown: whether for a page; otherwise for a terminal.
    """
    parts = [", ".join(f"{k} {v}" for k, v in result["environment"].items())]
    parts += tables(result["figures"], markdown)
    parts += [f"{what}: {1e3 * s:.0f} ms" for what, s in result["imports"].items()]
    return "\n\n".join(parts)


def tables(records, markdown=False):
    """A table for each mode, strategy and workload, and what is to be said of them.

    Args:
      records: as from `figures`.
      markdown: as of `text`.
    """
    # A column that has nothing in this run is left out.
    columns = [c for c in _COLUMNS if any(r.get(c[1]) is not None for r in records)]
    groups, reasons, floors = {}, {}, {}
    for r in records:
        if "skipped" in r:
            where = ", ".join((*_setting(r), r["family"]))
            reasons.setdefault((r["skipped"], where), []).append(r["candidate"])
            continue
        groups.setdefault(_setting(r), []).append(r)
        if r.get("note"):
            floors.setdefault(r["mode"], set()).add(r["note"])
    parts = []
    for (mode, strategy, name), group in groups.items():
        workload = workloads.get(name)
        size = f"{len(workload.shapes)} tensors, {workload.values:,} values"
        rows = [["family", "candidate", *(heading for heading, _, _ in columns)]]
        for r in group:
            values = [(r.get(key), form) for _, key, form in columns]
            cells = ["" if v is None else form.format(v) for v, form in values]
            rows.append([r["family"], r["candidate"], *cells])
        title = f"{workload.title} ({size}) · {mode} · {strategy}"
        parts.append(_drawn(title, rows, markdown))
    for (reason, where), names in reasons.items():
        parts.append(f"not measured: {', '.join(names)} ({where}): {reason}")
    for mode, notes in floors.items():
        parts.append(f"The floor checks in {mode} by {', '.join(sorted(notes))}.")
    return parts


def _drawn(title, rows, markdown):
    if markdown:
        rows = [rows[0], ["---", "---", *["--:"] * (len(rows[0]) - 2)], *rows[1:]]
        return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(r)} |" for r in rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([title, *lines])
