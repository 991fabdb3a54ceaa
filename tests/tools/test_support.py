"""Test the supported pairs of versions, and the table of the test results for each pair."""

import json
import re
import shutil

import pytest

from tests.processes import ROOT, start
from tf_lso.frameworks import environment
from tools import support
from tools.support import NEXT, PAIRS, REFERENCE, ROWS

BY_NAME = {pair.name: pair for pair in ROWS}
GOOD = {"passed": 3, "skipped": 1, "failed": {}, "limits": {}}
# The result of an environment in which all tests passed.
VERSIONS = {"python": "3.11.7", "tensorflow": "2.15.1", "keras": "2.15.0"}
RESULT = {"date": "2026-01-02", "versions": VERSIONS, "installs": [], "quick": False}
RESULT |= {"core": GOOD, "programs": GOOD}


def _numbers(version):
    return tuple(map(int, version.split(".")))


def test_the_pairs_are_those_that_the_package_supports():
    assert len(BY_NAME) == len(ROWS)
    supported_pairs = environment.PAIRS
    versions = {f"{major}.{minor}" for major, minor in supported_pairs}
    assert versions == {pair.tensorflow for pair in PAIRS}
    assert {p.tensorflow for p in PAIRS} <= BY_NAME.keys()
    for pair in PAIRS:
        assert pair.name.startswith(pair.tensorflow)
        for package in ("keras", "tf_keras"):
            if version := getattr(pair, package):
                supported = supported_pairs[_numbers(pair.tensorflow)][package]
                assert supported.oldest <= _numbers(version) <= supported.newest, pair
    keras3 = {pair.keras for pair in PAIRS if pair.keras[0] == "3"}
    assert keras3 == {"3.0", "3.6", "3.10", "3.12", "3.15"}
    newest = supported_pairs[max(supported_pairs)]["keras"].newest
    assert newest == max(map(_numbers, keras3))


_NIGHTLY = r"[a-z_]+-nightly(?:-cpu)?==(\d+\.\d+)\.\d+\.dev20\d+"


def test_the_next_versions_are_nightly_builds_that_are_newer():
    wanted = support.requirements(NEXT)
    assert wanted.keys() == {"tensorflow", "keras", "tf_keras"}
    for framework, requirement in wanted.items():
        found = re.fullmatch(_NIGHTLY, requirement)
        assert found[1] == getattr(NEXT, framework)
    assert _numbers(NEXT.tensorflow) > max(environment.PAIRS)


def test_the_requirements_of_a_pair_are_its_minor_versions():
    with_tf_keras, without = BY_NAME["2.16"], BY_NAME["2.14"]
    assert list(support.requirements(with_tf_keras, "tensorflow").values()) == [
        *("tensorflow==2.16.*", "keras==3.0.*", "tf-keras==2.16.*"),
    ]
    assert list(support.requirements(without).values()) == [
        *("tensorflow-cpu==2.14.*", "keras==2.14.*"),
    ]


def test_ci_runs_every_pair():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    names = [pair.name for pair in PAIRS]
    assert re.findall(r'^ {10}- "(.*)"$', text, re.MULTILINE) == names
    assert "    continue-on-error: true\n" in text.split("\n  next:\n")[1]
    named = re.findall(r"matrix\((\d[^)]*)\)", (ROOT / ".ci" / "run").read_text())
    assert named and set(named) <= set(BY_NAME)


TESTS = """
import pytest

@pytest.mark.xfail(reason="a limit", strict=True)
@pytest.mark.parametrize("fails", [True, False])
def test_it(fails): assert not fails

def test_raises(): raise ValueError("no")

@pytest.fixture
def broken():
    yield
    raise OSError("at its end")

def test_ends_in_an_error(broken): pass
def test_passes(): pass
"""


def test_an_expected_failure_is_a_limit_and_a_failure_if_it_passes(tmp_path):
    file, report = tmp_path / "test_it.py", tmp_path / "report.xml"
    file.write_text(TESTS)
    options = ["-o", "junit_family=xunit1", f"--junitxml={report}"]
    start(["-m", "pytest", *options, file], tmp_path)
    counted = support.count(report.read_text(encoding="utf-8"))
    assert counted["limits"] == {"test_it.py::test_it[True]": "a limit"}
    failed = counted["failed"]
    assert failed["test_it.py::test_raises"] == "ValueError: no"
    assert "at its end" in failed["test_it.py::test_ends_in_an_error"]
    assert "test_it.py::test_it[False]" in failed and len(failed) == 3
    assert (counted["passed"], counted["skipped"]) == (1, 0)


def test_each_pair_has_a_row():
    shown = support.shown({"2.15": RESULT | {"quick": True}})
    rows = [line for line in shown.splitlines() if line.startswith(("| 2.", "| next"))]
    assert len(rows) == len(ROWS)
    assert rows[0].startswith(
        "| 2.12 | Python 3.11, TensorFlow 2.12, Keras 2.12 | not run |"
    )
    (ran,) = (row for row in rows if "not run" not in row)
    assert ran == (
        "| 2.15 | Python 3.11.7, TensorFlow 2.15.1, Keras 2.15.0 | 3 passed, 1 skipped |"
        " 3 passed, 1 skipped (a part) | 2026-01-02 |"
    )


@pytest.mark.parametrize(
    ("kind", "count", "heading", "where"),
    [
        (
            "failed",
            "**2 failed**, 3 passed",
            "What failed",
            "2.15, core, `tests/a.py::b`",
        ),
        ("limits", "3 passed, 1 skipped, 2 limits", "Limits", "2.15, core"),
    ],
)
def test_failures_and_limits_are_listed_once_with_their_reason(
    kind, count, heading, where
):
    why = {f"tests/a.py::b[{n}]": "ValueError: no" for n in range(2)}
    found = RESULT | {"core": GOOD | {kind: why}}
    shown = support.shown({"2.15": found})
    assert f"| {count}" in shown
    line = f"- {where}: ValueError: no (2 cases)\n"
    assert f"## {heading}\n\n{line}" in shown
    assert heading not in support.shown({"2.15": RESULT})
    assert support.is_good(found) == (kind == "limits")


def test_a_package_that_would_also_be_installed_is_a_failure():
    assert support.is_good(RESULT)
    found = RESULT | {"installs": ["keras 3.15.1"]}
    assert not support.is_good(found)
    line = "- 2.15: installing tf_lso also installed keras 3.15.1\n"
    assert f"## What failed\n\n{line}" in support.shown({"2.15": found})


def test_the_page_shows_the_recorded_results(tmp_path):
    shutil.copy(REFERENCE / "support.md", tmp_path)
    support.write(support.read(), tmp_path)
    for name in ("support.md", "support.json"):
        assert (tmp_path / name).read_text() == (REFERENCE / name).read_text()
    for name, found in support.read(tmp_path).items():
        for framework in support.FRAMEWORKS:
            wanted = getattr(BY_NAME[name], framework)
            version = found["versions"].get(framework, "")
            assert version.startswith(f"{wanted}." if wanted else "")
            assert bool(wanted) == bool(version)


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def passed():
    """The versions of the releases with which all tests passed."""
    results = support.read()
    results.pop(NEXT.name, None)  # this is not a release
    return [r["versions"] for r in results.values() if support.is_good(r)]


def test_the_readme_links_to_the_page(readme):
    assert "](compat_docs/reference/support.md)" in readme


@pytest.mark.parametrize(
    ("words", "package", "version"),
    [
        (r"([\d.]+).([\d.]+) with their Keras 2,", "keras", "2."),
        (r"([\d.]+).([\d.]+) with Keras 3;", "keras", "3."),
        (r"tf_keras with ([\d.]+).([\d.]+)\.", "tf_keras", "2."),
    ],
)
def test_the_readme_names_the_tensorflows_that_passed(
    readme, passed, words, package, version
):
    """The README names the oldest and the newest TensorFlow that passed with a Keras."""
    ((oldest, newest),) = re.findall(words, readme)
    tensorflows = {
        _numbers(versions["tensorflow"])[:2]
        for versions in passed
        if versions.get(package, "").startswith(version)
    }
    minors = range(_numbers(oldest)[1], _numbers(newest)[1] + 1)
    assert sorted(tensorflows) == [(2, minor) for minor in minors]


def test_the_readme_names_the_pythons_that_passed(readme, passed):
    (cell,) = re.findall(r"^\| Python \| (.*) \|$", readme, re.MULTILINE)
    pythons = {_numbers(versions["python"])[:2] for versions in passed}
    assert sorted(pythons) == [_numbers(minor) for minor in cell.split(", ")]


@pytest.mark.slow
def test_pip_installs_no_other_package():
    """This test uses the present environment. noxfile.py checks each of its environments."""
    pip = "-m pip install --dry-run --quiet --report - .".split()
    done = start(pip, ROOT)
    planned = [item["metadata"]["name"] for item in json.loads(done.stdout)["install"]]
    assert set(planned) <= {"tf-lso"}
