"""`tools/matrix`: its pairs, its command line, and the table that it writes."""

import doctest
import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests.processes import HANGS_AFTER, ROOT
from tf_lso import environment
from tools.matrices import __main__ as matrix
from tools.matrices import environments, runs, table
from tools.matrices.pairs import BY_NAME, PAIRS, Pair

REFERENCE = ROOT / "compat_docs" / "reference"


def result(**changes):
    """What came out of an environment in which all went well."""
    good = {"passed": 3, "skipped": 1, "failed": {}, "limits": {}}
    versions = {"python": "3.11.7", "tensorflow": "2.15.1", "keras": "2.15.0"}
    return {
        "date": "2026-01-02",
        "machine": "Linux",
        "versions": versions,
        "installs": [],
        "quick": False,
        "core": good,
        "programs": good,
        **changes,
    }


_WHY = {"tests/a.py::b[1]": "ValueError: no"}
FAILED = {"passed": 1, "skipped": 0, "failed": _WHY, "limits": {}}


class TestThePairs:
    def test_each_has_a_name_of_its_own(self):
        assert len(BY_NAME) == len(PAIRS)

    def test_they_cover_what_is_supported(self):
        assert {pair.keras for pair in PAIRS if pair.keras[0] == "3"} == {
            "3.0",
            "3.6",
            "3.10",
            "3.12",
            "3.15",
        }
        assert {p.python for p in PAIRS} == {"3.10", "3.11", "3.12", "3.13"}
        for minor in {pair.tensorflow for pair in PAIRS}:
            assert BY_NAME[minor].tensorflow == minor

    @pytest.mark.skipif(
        not hasattr(environment, "PAIRS"), reason="the table of pairs is not here yet"
    )
    def test_they_are_those_that_the_package_takes(self):
        taken = environment.PAIRS
        assert {f"{a}.{b}" for a, b in taken} == {p.tensorflow for p in PAIRS}
        for pair in PAIRS:
            supported = taken[_numbers(pair.tensorflow)]
            for package, version in (
                ("keras", pair.keras),
                ("tf_keras", pair.tf_keras),
            ):
                if version:
                    oldest, beyond = supported[package]
                    assert oldest <= _numbers(version) < beyond, pair


def _numbers(version):
    return tuple(map(int, version.split(".")))


class TestTheCommandLine:
    def test_an_unknown_pair_is_refused_with_those_that_are_known(self, capsys):
        assert matrix.main(["2.15", "2.11"]) == 2
        said = capsys.readouterr().err
        assert "no pair 2.11" in said
        assert all(name in said for name in BY_NAME)

    def test_the_list_runs_nothing(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv(environments.FOLDER, str(tmp_path / "none"))
        assert matrix.main(["--list"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == len(PAIRS)
        assert not (tmp_path / "none").exists()

    @pytest.mark.parametrize("code", [0, 1])
    def test_prepare_makes_environments_and_runs_nothing(
        self, code, capsys, monkeypatch, tmp_path
    ):
        def install(title, command, log):
            installed.append((title, command))
            return code

        installed = []
        monkeypatch.setenv(environments.FOLDER, str(tmp_path))
        monkeypatch.setattr(environments, "steps", lambda pair, folder: [[pair.name]])
        monkeypatch.setattr(environments, "finish", lambda pair, folder: None)
        monkeypatch.setattr(runs, "run", install)
        assert matrix.main(["--prepare", "2.12", "2.15"]) == code
        made = [("2.12 installs", ["2.12"]), ("2.15 installs", ["2.15"])]
        assert installed == made[: 1 if code else 2]
        assert ("installation failed" in capsys.readouterr().err) == bool(code)

    @pytest.fixture
    def run(self, monkeypatch, tmp_path):
        """Runs the command with results in place of environments."""

        def run(*arguments, **results):
            def one(pair, folder, how_much, migrated):
                found = results[f"v{pair.name}".replace(".", "_")]
                if isinstance(found, BaseException):
                    raise found
                return found

            monkeypatch.setattr(matrix, "one", one)
            code = matrix.main([*arguments, "--output", str(tmp_path)])
            return code, table.read(tmp_path)

        return run

    def test_a_failure_does_not_stop_the_others(self, run, capsys):
        error = environments.Failed("no such Python")
        code, written = run("2.14", "2.15", v2_14=error, v2_15=result())
        assert code == 1
        assert list(written) == ["2.15"]
        told = capsys.readouterr()
        assert "2.14  no such Python" in told.err
        assert "| 2.14 | 3.10 | 2.14 | 2.14 | - | not run |" in told.out

    def test_the_rows_of_others_stay(self, run):
        assert run("2.14", v2_14=result())[0] == 0
        code, written = run("2.15", v2_15=result(core=FAILED))
        assert code == 1
        assert list(written) == ["2.14", "2.15"]

    def test_a_pair_that_no_longer_runs_loses_its_row(self, run):
        run("2.14", v2_14=result())
        assert run("2.14", v2_14=environments.Failed("gone")) == (1, {})

    def test_what_would_be_installed_is_a_failure(self, run):
        assert run("2.15", v2_15=result(installs=["keras 3.15.1"]))[0] == 1

    def test_a_quick_run_says_so(self, run, capsys):
        assert run("2.14", "--quick", v2_14=result(quick=True))[0] == 0
        assert "3 passed, 1 skipped (a part) |" in capsys.readouterr().out

    def test_what_was_not_run_is_no_failure(self, run, capsys):
        assert run("2.14", "--core", v2_14=result(programs=None))[0] == 0
        assert "| 3 passed, 1 skipped | not run |" in capsys.readouterr().out

    def test_an_interruption_is_one_line(self, run, capsys):
        code, written = run("2.14", "2.15", v2_14=result(), v2_15=KeyboardInterrupt())
        assert code == 130
        assert list(written) == ["2.14"]
        assert capsys.readouterr().err.strip() == "tools/matrix: interrupted"


class TestEnvironments:
    PAIR = Pair("mine", "2.15", "2.15", "2.15", "3.11")

    @pytest.fixture(autouse=True)
    def python(self, monkeypatch):
        monkeypatch.setattr(environments, "find_python", lambda minor: minor)

    def test_one_that_exists_is_used_again(self, tmp_path):
        commands = environments.steps(self.PAIR, tmp_path)
        assert commands[0][:3] == ["3.11", "-m", "venv"]
        wanted = [word for command in commands for word in command]
        assert {"keras==2.15.*", "tf-keras==2.15.*", "pytest>=8"} <= set(wanted)
        assert not {"mypy", "ruff"} & set(wanted)
        (tmp_path / "mine").mkdir()
        environments.finish(self.PAIR, tmp_path)
        assert environments.steps(self.PAIR, tmp_path) == []

    @pytest.mark.parametrize("uv", [None, "/bin/uv"])
    def test_uv_installs_where_it_is(self, uv, tmp_path, monkeypatch):
        monkeypatch.setattr(environments.shutil, "which", {"uv": uv}.get)
        _, *installations = environments.steps(self.PAIR, tmp_path)
        python = str(environments.python_of(self.PAIR, tmp_path))
        for command in installations:
            assert command[0] == (uv or python)
            assert python in command

    def test_one_of_other_requirements_is_made_again(self, tmp_path, monkeypatch):
        (tmp_path / "mine").mkdir()
        environments.finish(self.PAIR, tmp_path)
        monkeypatch.setenv(environments.DISTRIBUTION, "tensorflow")
        commands = environments.steps(self.PAIR, tmp_path)
        assert "tensorflow==2.15.*" in commands[1]


def test_a_python_that_does_not_run_is_passed_over(monkeypatch, tmp_path):
    minor = ".".join(map(str, sys.version_info[:2]))
    shim = tmp_path / f"python{minor}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("PYTHON", str(shim))
    assert environments.find_python(minor) == sys.executable
    with pytest.raises(environments.Failed, match=r"no Python 2\.1;"):
        environments.find_python("2.1")


@pytest.mark.slow
def test_pip_installs_nothing_beside_the_package():
    """Of this environment; tools/matrix asks the same in each of its own."""
    assert environments.would_install(sys.executable) == []


INTERRUPTED = """
import _thread, pathlib, signal, sys, threading, time
from tools.matrices import runs

signal.signal(signal.SIGINT, signal.default_int_handler)  # ours may be ignored
log = pathlib.Path(sys.argv[1])

def interrupt_when_the_child_sleeps():
    while not (log.exists() and "sleeps" in log.read_text()):
        time.sleep(0.05)
    _thread.interrupt_main()

threading.Thread(target=interrupt_when_the_child_sleeps, daemon=True).start()
child = "import time; print('sleeps', flush=True); time.sleep(10_000)"
try:
    runs.run("x", [sys.executable, "-c", child], log)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interruption_ends_the_command_that_runs(tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", INTERRUPTED, str(log)]
    done = subprocess.run(command, cwd=ROOT, timeout=HANGS_AFTER, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in log.read_text()


EXPECTED_TO_FAIL = """
import pytest

@pytest.mark.xfail(reason="a limit", strict=True)
@pytest.mark.parametrize("fails", [True, False])
def test_it(fails):
    assert not fails
"""


def test_what_is_expected_to_fail_is_a_limit_and_a_failure_if_it_passes(tmp_path):
    file, report = tmp_path / "test_it.py", tmp_path / "report.xml"
    file.write_text(EXPECTED_TO_FAIL)
    command = [sys.executable, "-m", "pytest", str(file), f"--junitxml={report}"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    counted = runs.count(report.read_text(encoding="utf-8"))
    assert counted["limits"] == {"test_it::test_it[True]": "a limit"}
    assert list(counted["failed"]) == ["test_it::test_it[False]"]
    assert counted["passed"] == counted["skipped"] == 0


@pytest.mark.parametrize("module", [runs, table])
def test_the_examples_in_docstrings(module):
    assert doctest.testmod(module) != (0, 0)
    assert doctest.testmod(module).failed == 0


class TestTheTable:
    def test_each_pair_has_a_row(self):
        page = table.page({"2.15": result()})
        rows = [line for line in page.splitlines() if line.startswith("| 2.")]
        assert len(rows) == len(PAIRS)
        told = "| 2.15 | 3.11.7 | 2.15.1 | 2.15.0 | - | 3 passed, 1 skipped |"
        assert [row for row in rows if "not run" not in row] == [
            f"{told} 3 passed, 1 skipped | nothing | 2026-01-02 |"
        ]

    def test_failures_are_told_once_with_their_reason(self):
        failed = {f"tests/a.py::b[{n}]": "ValueError: no" for n in range(2)}
        columns = {**FAILED, "failed": failed}
        page = table.page({"2.15": result(core=columns)})
        assert "| **2 failed**, 1 passed |" in page
        assert "- 2.15, core, `tests/a.py::b`: ValueError: no (2 cases)\n" in page
        assert "What failed" not in table.page({"2.15": result()})

    def test_limits_are_no_failures_and_told_with_their_reason(self):
        columns = {**result()["core"], "limits": {"tests/a.py::b[0]": "no such thing"}}
        found = {"2.15": result(core=columns)}
        page = table.page(found)
        assert "| 3 passed, 1 skipped, 1 limit |" in page
        assert "## Limits\n\n- 2.15, core, `tests/a.py::b`: no such thing\n" in page
        assert table.is_good(found["2.15"])
        assert "## Limits" not in table.page({"2.15": result()})

    def test_the_page_is_what_the_results_say(self):
        results = table.read(REFERENCE)
        page = (REFERENCE / table.PAGE).read_text(encoding="utf-8")
        assert page == table.page(results)

    def test_the_results_are_of_the_pairs(self):
        written = json.loads((REFERENCE / table.JSON).read_text(encoding="utf-8"))
        assert set(written) <= set(BY_NAME)
        for name, found in written.items():
            for framework in ("python", "tensorflow", "keras", "tf_keras"):
                wanted = getattr(BY_NAME[name], framework)
                got = found["versions"].get(framework, "")
                assert _numbers(wanted or "0") == _numbers(got or "0")[:2] or not wanted
                assert bool(wanted) == bool(got)


class TestTheReadme:
    """Its table says of each version what the results have."""

    README = (ROOT / "README.md").read_text(encoding="utf-8")

    @pytest.fixture
    def versions(self):
        """The versions of each pair that was run and in which nothing failed."""
        results = table.read(REFERENCE).values()
        return [found["versions"] for found in results if table.is_good(found)]

    @pytest.mark.parametrize(
        ("told", "package", "version"),
        [
            (r"([\d.]+).([\d.]+) with their Keras 2,", "keras", "2."),
            (r"([\d.]+).([\d.]+) with Keras 3;", "keras", "3."),
            (r"tf_keras beside ([\d.]+).([\d.]+)\.", "tf_keras", "2."),
        ],
    )
    def test_its_tensorflows_were_run(self, told, package, version, versions):
        (ends,) = re.findall(told, self.README)
        oldest, newest = map(_numbers, ends)
        ran = {
            _numbers(found["tensorflow"])[:2]
            for found in versions
            if found.get(package, "").startswith(version)
        }
        assert sorted(ran) == [(2, n) for n in range(oldest[1], newest[1] + 1)]

    def test_its_pythons_were_run(self, versions):
        (told,) = re.findall(r"^\| Python \| (.*) \|$", self.README, re.MULTILINE)
        ran = {_numbers(found["python"])[:2] for found in versions}
        assert sorted(ran) == [_numbers(minor) for minor in told.split(", ")]

    def test_it_leads_to_the_page(self):
        assert "](compat_docs/reference/support.md)" in self.README


def test_no_file_of_the_matrix_needs_tensorflow():
    program = (
        "import sys; import tools.matrices.__main__; print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert pathlib.Path(runs.ROOT) == ROOT
