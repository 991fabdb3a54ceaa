"""From seconds to figures: added time, spread, ratios. No TensorFlow here."""

import math
import statistics

from tools.benchmarks import choices, workloads

# What has to be equal for two records to be compared.
_SETTING = ("workload", "mode", "strategy")
_CLOCK_MS = 1e-4  # about what reading the clock takes


def complete(records):
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
      - `collectives`, `traces`, `host_operations`: see counting.py;
      - `added_peak_mb`: peak memory above that of bare.
    """
    merged = _merged(records)
    groups = {}
    for record in merged:
        groups.setdefault(_key(record), []).append(record)
    for group in groups.values():
        bare = next(r for r in group if r["candidate"] == choices.BARE)
        for record in group:
            _compare_with_bare(record, bare)
    best = _best_peers(merged)
    for group in groups.values():
        by_name = {record["candidate"]: record for record in group}
        for record in group:
            if "added_ms" not in record:
                continue
            others = {
                "ratio_to_peer": by_name.get(choices.PEER),
                "ratio_to_best_peer": best.get(_key(record)[:-1]),
                "ratio_to_floor": by_name.get(choices.FLOOR),
            }
            for key, other in others.items():
                record[key] = ratio(record, other)
    return merged


def ratio(record, other):
    """How much `record` adds for each that `other` adds.

    None where `other` is missing, or adds less than twice what its median may be off by
    chance: a ratio to that is noise.
    """
    if other is None or "added_ms" not in other:
        return None
    chance = other["added_iqr_ms"] / math.sqrt(len(other["seconds"]))
    least = max(2 * chance, _CLOCK_MS)
    return record["added_ms"] / other["added_ms"] if other["added_ms"] > least else None


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


def _key(record):
    return (*(record[name] for name in _SETTING), record["family"])


def _merged(records):
    """One record for each candidate, of its time and its memory."""
    merged = {}
    for record in records:
        fields = {k: v for k, v in record.items() if k != "what" and v is not None}
        # Time comes before memory, so a reason not to time it is kept.
        merged.setdefault((*_key(record), record["candidate"]), {}).update(fields)
    return list(merged.values())


def _compare_with_bare(record, bare):
    if "seconds" in record:
        record["ms"] = 1e3 * statistics.median(record["seconds"])
    if "seconds" in record and "seconds" in bare and record is not bare:
        low, middle, high = added(record["seconds"], bare["seconds"])
        record |= {
            "added_ms": middle,
            "added_quartiles": [low, high],
            "added_iqr_ms": high - low,
        }
    if "operations" in record and "operations" in bare:
        tensors = len(workloads.get(record["workload"]).gradients)
        more = record["operations"] - bare["operations"]
        record["operations_per_gradient"] = more / tensors
    if "peak_bytes" in record and "peak_bytes" in bare:
        record["added_peak_mb"] = (record["peak_bytes"] - bare["peak_bytes"]) / 1e6


def _best_peers(records):
    """The peer of any family that adds least, by setting."""
    best = {}
    for record in records:
        if record["candidate"] == choices.PEER and "added_ms" in record:
            key = _key(record)[:-1]
            best[key] = min(
                best.get(key, record), record, key=lambda peer: peer["added_ms"]
            )
    return best
