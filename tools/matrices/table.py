"""The table of what was run: JSON for programs, and a page for people."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from tools.matrices import runs
from tools.matrices.pairs import PAIRS, Pair

# Pair -> what came out: `date`, `machine`, `versions`, `installs`, whether it was a
# `quick` run, and the columns of `runs.TESTS`.
Results = dict[str, dict[str, Any]]

JSON, PAGE = "support.json", "support.md"
NOT_RUN = "not run"
_PART = " (a part)"

_HEAD = """\
# Supported versions

<!-- Written by tools/matrix, as is support.json beside it. -->

Each row is an environment of its own, with the tests that ran in it. *Core* is what
`tools/test --core` runs. *Programs* are the programs of 2019 to 2023 of
`tests/old_programs`, as they are, and migrated once for all versions. Each has to print
what it printed under the TensorFlow that it was written for; *a part* is without those
that take long. A *limit* is a test that fails because of what that Keras itself cannot do,
as a program without `tf_lso` shows. *Installs* is what
the installation of `tf_lso` installs beside itself. The row of a pair that nobody has run
says *not run*.

"""
_COLUMNS = """\
| Pair | Python | TensorFlow | Keras | tf_keras | Core | Programs | Installs | Date |
|---|---|---|---|---|---|---|---|---|
"""
_FOOT = """\

To run a pair, or all of them, and to bring this page up to date:

```sh
tools/matrix 2.15 2.21
tools/matrix
```

All of it ran on CPUs ({machines}).
"""


def read(folder: pathlib.Path) -> Results:
    """Return the results that a folder has, those of known pairs."""
    path = folder / JSON
    if not path.exists():
        return {}
    known = {pair.name for pair in PAIRS}
    found: Results = json.loads(path.read_text(encoding="utf-8"))
    return {name: result for name, result in found.items() if name in known}


def write(results: Results, folder: pathlib.Path) -> None:
    """Write the results as JSON and as a page."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = {p.name: results[p.name] for p in PAIRS if p.name in results}
    text = json.dumps(ordered, indent=1) + "\n"
    (folder / JSON).write_text(text, encoding="utf-8")
    (folder / PAGE).write_text(page(results), encoding="utf-8")


def page(results: Results) -> str:
    """Return the text of the page."""
    machines = sorted({result["machine"] for result in results.values()})
    foot = _FOOT.format(machines=", ".join(machines) or NOT_RUN)
    listed = reasons(results, "failed", "What failed")
    listed += reasons(results, "limits", "Limits")
    return _HEAD + table(results, PAIRS) + listed + foot


def table(results: Results, pairs: Sequence[Pair]) -> str:
    """Return the table, with a row for each pair."""
    return _COLUMNS + "".join(_row(pair, results.get(pair.name)) for pair in pairs)


def reasons(results: Results, kind: str, heading: str) -> str:
    """Return a list of the tests that are "failed" or "limits", and why; "" if none is."""
    lines: dict[str, list[str]] = {}
    for pair in PAIRS:
        for column in runs.TESTS:
            counted = results.get(pair.name, {}).get(column) or {kind: {}}
            for name, why in counted[kind].items():
                test = name.partition("[")[0]
                line = f"`{test}`: {why}"
                lines.setdefault(f"{pair.name}, {column}, {line}", []).append(name)
    if not lines:
        return ""
    listed = (
        f"- {line}" + (f" ({len(names)} cases)" if len(names) > 1 else "") + "\n"
        for line, names in lines.items()
    )
    return f"\n## {heading}\n\n" + "".join(listed)


def _row(pair: Pair, result: dict[str, Any] | None) -> str:
    if result is None:
        found = {"python": pair.python, "tensorflow": pair.tensorflow}
        found |= {"keras": pair.keras, "tf_keras": pair.tf_keras}
        told = [NOT_RUN] * 4
    else:
        found = result["versions"]
        told = [
            outcome(result["core"]),
            outcome(result["programs"]) + (_PART if result["quick"] else ""),
            ", ".join(result["installs"]) or "nothing",
            result["date"],
        ]
    frameworks = ("python", "tensorflow", "keras", "tf_keras")
    cells = [pair.name, *(found.get(name) or "-" for name in frameworks), *told]
    return f"| {' | '.join(cells)} |\n"


def outcome(counted: dict[str, Any] | None) -> str:
    """Say what came out of the tests of one column.

    Example:
    >>> outcome({"passed": 7, "skipped": 0, "failed": {"a::b": "no"}, "limits": {}})
    '**1 failed**, 7 passed'
    """
    if counted is None:
        return NOT_RUN
    failed = [f"**{len(counted['failed'])} failed**"] if counted["failed"] else []
    skipped = [f"{counted['skipped']} skipped"] if counted["skipped"] else []
    number = len(counted["limits"])
    limits = [f"{number} limit{'s' * (number > 1)}"] if number else []
    return ", ".join([*failed, f"{counted['passed']} passed", *skipped, *limits])


def is_good(result: dict[str, Any]) -> bool:
    """Whether all that was run in an environment went well."""
    columns = [result["core"], result["programs"]]
    failed = any(counted["failed"] for counted in columns if counted is not None)
    return not result["installs"] and not failed
