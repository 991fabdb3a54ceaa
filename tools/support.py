"""The supported pairs of TensorFlow and Keras, and the table of their test results.

noxfile.py runs the tests of a pair. compat_docs/reference/support.json contains the results,
and the page support.md in the same folder shows the results. This module needs only the
standard library.
"""

import collections
import json
import re
from pathlib import Path
from xml.etree import ElementTree

REFERENCE = Path(__file__).resolve().parents[1] / "compat_docs" / "reference"
COLUMNS = ("core", "programs")
FRAMEWORKS = ("python", "tensorflow", "keras", "tf_keras")
_NAMES = dict(zip(FRAMEWORKS, ("Python", "TensorFlow", "Keras", "tf_keras")))
# A pair describes an environment: its name and the minor versions of its frameworks and of
# Python. `keras` is the version of `tf.keras`. `tf_keras` is the version of the package
# tf_keras, or "" if that package is not installed.
Pair = collections.namedtuple("Pair", "name tensorflow keras tf_keras python")

# TensorFlow 2.16 is the first version with Keras 3. The Keras 2 of TensorFlow 2.12-2.15 has the
# same version number as TensorFlow. The Python versions are spread over the pairs, but the
# pairs that .ci/run names use the same Python.
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

# Nightly builds of the next releases. The page shows the tests that fail with these builds, but
# CI does not fail because of such tests. To test newer builds, change these requirements and
# the versions of `NEXT`.
NIGHTLY_BUILDS = {
    "tensorflow": "tf-nightly-cpu==2.22.0.dev20260905",
    "keras": "keras-nightly==3.16.0.dev2026102704",
    "tf_keras": "tf_keras-nightly==2.22.0.dev2026101709",
}
NEXT = Pair("next", "2.22", "3.16", "2.22", "3.12")
ROWS = (*PAIRS, NEXT)

_WRITTEN = r"(<!-- noxfile.py writes from here -->\n).*(<!-- to here -->\n)"
_HEAD = """
| Pair | Versions | Core | Programs | Date |
|---|---|---|---|---|
"""


def requirements(pair, tensorflow="tensorflow-cpu"):
    """Return {framework: its requirement for pip}.

    Args:
      pair: Pair, one of `ROWS`.
      tensorflow: str, the distribution that provides a released TensorFlow.
    """
    if pair == NEXT:
        return NIGHTLY_BUILDS
    found = {
        "tensorflow": f"{tensorflow}=={pair.tensorflow}.*",
        "keras": f"keras=={pair.keras}.*",
    }
    if pair.tf_keras:
        found["tf_keras"] = f"tf-keras=={pair.tf_keras}.*"
    return found


def read(folder=REFERENCE):
    """Return {name of a pair: result}, as noxfile.py has written it into a folder."""
    return json.loads((folder / "support.json").read_text(encoding="utf-8"))


def write(results, folder=REFERENCE):
    """Write the results into `support.json` and into the page."""
    ordered = {p.name: results[p.name] for p in ROWS if p.name in results}
    text = json.dumps(ordered, indent=1) + "\n"
    (folder / "support.json").write_text(text, encoding="utf-8")
    path = folder / "support.md"
    above, begin, end, below = re.split(_WRITTEN, path.read_text("utf-8"), flags=re.S)
    page = "".join([above, begin, shown(ordered), end, below])
    path.write_text(page, encoding="utf-8")


def shown(results):
    """Return the part of the page that shows the results.

    Equal lines become one line with their number. The line of a failure names the test. The
    line of a limit names no test, because the reason says what does not work. `support.json`
    names the tests of the limits.
    """
    lines = [_HEAD, *(row(pair, results.get(pair.name)) for pair in ROWS)]
    for kind, heading in (("failed", "What failed"), ("limits", "Limits")):
        cases = collections.Counter(
            f"- {name}, {column}{named(test) if kind == 'failed' else ''}: {why}"
            for name, result in results.items()
            for column in COLUMNS
            for test, why in result[column][kind].items()
        )
        if kind == "failed":
            cases.update(
                f"- {name}: installing tf_lso also installed {', '.join(result['installs'])}"
                for name, result in results.items()
                if result["installs"]
            )
        lines += [f"\n## {heading}\n\n"] * bool(cases)
        lines += [f"{c} ({n} cases)\n" if n > 1 else f"{c}\n" for c, n in cases.items()]
    return "".join([*lines, "\n"])


def named(test):
    """Return the name of a test without its parameters, as text for a line of the page."""
    return f", `{test.partition('[')[0]}`"


def row(pair, result):
    """Return the line of the table for a pair. `result` is None if no test was run."""
    versions, results = pair._asdict(), ["not run"] * 3
    if result is not None:
        versions, results = result["versions"], [_outcome(result[c]) for c in COLUMNS]
        results[1] += " (a part)" * result["quick"]
        results.append(result["date"])
    # One cell has all versions, so that the columns with the results need no scrolling.
    named = [
        f"{_NAMES[name]} {versions[name]}" for name in FRAMEWORKS if versions.get(name)
    ]
    cells = [pair.name, ", ".join(named), *results]
    return f"| {' | '.join(cells)} |\n"


def _outcome(counted):
    failed, limits = len(counted["failed"]), len(counted["limits"])
    parts = [f"**{failed} failed**"] * bool(failed) + [f"{counted['passed']} passed"]
    parts += [f"{counted['skipped']} skipped"] * bool(counted["skipped"])
    return ", ".join(parts + [f"{limits} limit{'s' * (limits > 1)}"] * bool(limits))


def is_good(result):
    """Return whether nothing failed in an environment."""
    return not (result["installs"] or any(result[c]["failed"] for c in COLUMNS))


def count(report):
    """Count the tests in a JUnit report that pytest wrote in the format xunit1."""
    kinds = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found = {kind: {} for kind in ("passed", "skipped", "failed", "limits")}
    for case in ElementTree.fromstring(report).iter("testcase"):
        part = next((part for part in case if part.tag in kinds), case)
        is_limit = part.get("type") == "pytest.xfail"
        kind = "limits" if is_limit else kinds.get(part.tag, "passed")
        why = next(iter(part.get("message", "").splitlines()), "no message")[:200]
        found[kind][f"{case.get('file')}::{case.get('name')}"] = why
    # pytest reports an error in the teardown of a test as a second case.
    passed = found["passed"].keys() - found["failed"].keys()
    return found | {"passed": len(passed), "skipped": len(found["skipped"])}
