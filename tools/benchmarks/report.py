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
    ("/ framework", "ratio_to_peer", "{:.2f}"),
    ("/ best framework", "ratio_to_best_peer", "{:.2f}"),
    ("/ check and divide", "ratio_to_floor", "{:.2f}"),
    ("ops / gradient", "operations_per_gradient", "{:.1f}"),
    ("collectives", "collectives", "{}"),
    ("traces", "traces", "{}"),
    ("peak MB", "added_peak_mb", "{:+.1f}"),
)


def figures(records):
    """Merge `plan.record_of`s of each candidate, and add the figures of the table.

    compat_docs/explanation/performance-record.md says what each is. A ratio is None where
    it cannot be told from noise.
    """
    merged = {}
    for record in records:
        fields = {k: v for k, v in record.items() if k != "what" and v is not None}
        # Time comes before memory, so a reason not to time it is kept.
        key = (*_setting(record), record["family"], record["candidate"])
        merged.setdefault(key, {}).update(fields)
    for (*where, name), record in merged.items():
        _compare_with_bare(name, record, merged[(*where, plan.BARE)])
    timed = [record for record in merged.values() if "added_ms" in record]
    for record in timed:
        alike = [r for r in timed if _setting(r) == _setting(record)]
        peers = [r for r in alike if r["candidate"] == plan.PEER]
        best = min(peers, key=lambda r: r["added_ms"], default={})
        own = {r["candidate"]: r for r in alike if r["family"] == record["family"]}
        record["ratio_to_best_peer"] = _ratio(record, best)
        for name in (plan.PEER, plan.FLOOR):
            record[f"ratio_to_{name}"] = _ratio(record, own.get(name, {}))
    return list(merged.values())


def added(seconds, bare):
    """The quartiles of the milliseconds above bare, round by round."""
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

    None where that is missing, or less than twice what its median may be off by chance.
    """
    if "added_ms" not in other:
        return None
    chance = other["added_iqr_ms"] / math.sqrt(len(other["seconds"]))
    least = max(2 * chance, _CLOCK_MS)
    return record["added_ms"] / other["added_ms"] if other["added_ms"] > least else None


def text(result):
    """All that is printed of what stands in benchmark.json, in Markdown."""
    parts = [", ".join(f"{k} {v}" for k, v in result["environment"].items())]
    parts += tables(result["figures"])
    parts += [f"- {what}: {1e3 * s:.0f} ms" for what, s in result["imports"].items()]
    return "\n\n".join(parts)


def tables(records):
    """A table for each mode, strategy and workload, and what could not be measured."""
    # A column that has nothing in this run is left out.
    columns = [c for c in _COLUMNS if any(r.get(c[1]) is not None for r in records)]
    groups, left_out = {}, {}
    for r in records:
        name = plan.title(r["candidate"], r["family"])
        if "skipped" in r:
            where = ", ".join((*_setting(r), r["family"]))
            reason = f"- Not measured ({where}: {r['skipped']})"
            left_out.setdefault(reason, []).append(name)
            continue
        told = [(form, r.get(key)) for _, key, form in columns]
        cells = ["" if value is None else form.format(value) for form, value in told]
        groups.setdefault(_setting(r), []).append([r["family"], name, *cells])
    heading = ["family", "candidate", *(heading for heading, _, _ in columns)]
    parts = []
    for (mode, strategy, name), rows in groups.items():
        workload = workloads.get(name)
        size = f"{len(workload.shapes)} tensors, {workload.values:,} values"
        title = f"**{workload.title} ({size}) · {mode} · {strategy}**"
        parts.append(f"{title}\n\n{_drawn([heading, *rows])}")
    return parts + [f"{why}: {', '.join(names)}" for why, names in left_out.items()]


def _drawn(rows):
    """A table of Markdown with columns of one width, to be read in a terminal too."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, ["-" * (w - (i > 1)) + ":" * (i > 1) for i, w in enumerate(widths)])
    return "\n".join(
        f"| {' | '.join(cell.rjust(w) for cell, w in zip(row, widths))} |"
        for row in rows
    )
