"""The supported pairs of TensorFlow and Keras, and the table of what ran on each.

noxfile.py runs the tests of a pair. What came out is `support.json`, and for people
`support.md`, in compat_docs/reference. Standard library only.
"""

import json
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

REFERENCE = Path(__file__).resolve().parents[1] / "compat_docs" / "reference"
COLUMNS = ("core", "programs")


class Pair(NamedTuple):
    """One environment: minor versions of its frameworks, and of its Python."""

    name: str
    tensorflow: str
    keras: str  # the package `keras`, which `tf.keras` is
    tf_keras: str  # beside it, or ""
    python: str


# TensorFlow 2.16 is the first with Keras 3; the Keras 2 of 2.12-2.15 has TensorFlow's
# number. The Pythons are spread over the pairs; those that .ci/run names share one.
PAIRS = (
    Pair("2.12", "2.12", "2.12", "", "3.11"),
    Pair("2.13", "2.13", "2.13", "", "3.10"),
    Pair("2.14", "2.14", "2.14", "", "3.10"),
    Pair("2.15", "2.15", "2.15", "", "3.11"),
    Pair("2.15-tf_keras", "2.15", "2.15", "2.15", "3.10"),
    Pair("2.16", "2.16", "3.0", "2.16", "3.11"),
    Pair("2.17", "2.17", "3.6", "2.17", "3.12"),
    Pair("2.18", "2.18", "3.10", "2.18", "3.12"),
    Pair("2.19", "2.19", "3.12", "2.19", "3.10"),
    Pair("2.20", "2.20", "3.15", "2.20", "3.13"),
    Pair("2.21", "2.21", "3.15", "2.21", "3.11"),
    Pair("2.21-python3.13", "2.21", "3.15", "2.21", "3.13"),
)

_BEGIN, _END = "<!-- noxfile.py writes from here -->\n", "<!-- to here -->\n"
_HEAD = """
| Pair | Python | TensorFlow | Keras | tf_keras | Core | Programs | Installs | Date |
|---|---|---|---|---|---|---|---|---|
"""


def read(folder=REFERENCE):
    """The results in a folder, {pair: what came out}.

    That is `date`, `machine`, `versions`, `installs`, whether the run was `quick`, and
    for each of COLUMNS what `count` returns.
    """
    path = folder / "support.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(results, folder=REFERENCE):
    """Write the results as JSON, and into the page."""
    ordered = {p.name: results[p.name] for p in PAIRS if p.name in results}
    text = json.dumps(ordered, indent=1) + "\n"
    (folder / "support.json").write_text(text, encoding="utf-8")
    path = folder / "support.md"
    above, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    below = rest.partition(_END)[2]
    page = "".join([above, _BEGIN, shown(ordered), _END, below])
    path.write_text(page, encoding="utf-8")


def shown(results):
    """The part of the page that the results make."""
    machines = ", ".join(sorted({result["machine"] for result in results.values()}))
    return "".join(
        [
            _HEAD,
            *(row(pair, results.get(pair.name)) for pair in PAIRS),
            _reasons(results, "failed", "What failed"),
            _reasons(results, "limits", "Limits"),
            f"\nAll of it ran on CPUs ({machines}).\n\n",
        ]
    )


def row(pair, result):
    """The line of the table for a pair; `result` is None if it was not run."""
    versions, told = pair._asdict(), ["not run"] * 4
    if result is not None:
        versions = result["versions"]
        core, programs = (_outcome(result[column]) for column in COLUMNS)
        programs += " (a part)" * result["quick"]
        told = [core, programs, ", ".join(result["installs"]) or "nothing"]
        told.append(result["date"])
    frameworks = ("python", "tensorflow", "keras", "tf_keras")
    cells = [pair.name, *(versions.get(name) or "-" for name in frameworks), *told]
    return f"| {' | '.join(cells)} |\n"


def _outcome(counted):
    failed, limits = len(counted["failed"]), len(counted["limits"])
    parts = [f"**{failed} failed**"] * bool(failed) + [f"{counted['passed']} passed"]
    parts += [f"{counted['skipped']} skipped"] * bool(counted["skipped"])
    return ", ".join(parts + [f"{limits} limit{'s' * (limits > 1)}"] * bool(limits))


def _reasons(results, kind, heading):
    """The section of the tests that are `failed` or `limits`, each reason once."""
    cases = {}  # line -> how many
    for name, result in results.items():
        for column in COLUMNS:
            for test, why in result[column][kind].items():
                line = f"- {name}, {column}, `{test.partition('[')[0]}`: {why}"
                cases[line] = cases.get(line, 0) + 1
    lines = [f"{s} ({n} cases)\n" if n > 1 else f"{s}\n" for s, n in cases.items()]
    return f"\n## {heading}\n\n{''.join(lines)}" if lines else ""


def is_good(result):
    """Whether all that was run in an environment went well."""
    return not (result["installs"] or any(result[c]["failed"] for c in COLUMNS))


def count(report):
    """How many tests passed and were skipped; which failed, or are limits, and why.

    Args:
      report: str, what pytest writes with `--junitxml` and `junit_family=xunit1`.
    """
    cases = {}  # test -> what came out, and why; an error at its end is a case of its own
    for case in ElementTree.fromstring(report).iter("testcase"):
        test = f"{case.get('file')}::{case.get('name')}"
        cases.setdefault(test, ("passed", ""))
        for part in case:
            why = next(iter(part.get("message", "").splitlines()), "no message")[:200]
            if part.tag in ("failure", "error"):
                cases[test] = "failed", why
            elif part.tag == "skipped":
                limited = part.get("type") == "pytest.xfail"
                cases[test] = "limits" if limited else "skipped", why
    found = {kind: {} for kind in ("passed", "skipped", "failed", "limits")}
    for test, (kind, why) in cases.items():
        found[kind][test] = why
    return found | {kind: len(found[kind]) for kind in ("passed", "skipped")}
