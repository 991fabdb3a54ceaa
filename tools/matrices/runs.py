"""Runs commands and tests in an environment, shows how far they are, counts results."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from tools.matrices.environments import ROOT, Failed

# What runs in each environment: column -> arguments of pytest, and minutes at most.
# The programs run twice: as they are, and migrated.
_PROGRAMS = [
    "tests/old_programs",
    "tests/migrate/test_goes_on.py",
    "tests/migrate/test_programs.py",
]
TESTS = {"core": (["-m", "core"], 30), "programs": (_PROGRAMS, 60)}
QUICK = ["-m", "not slow"]
MINUTES = (
    "TF_LSO_TEST_MINUTES"  # environment variable: another bound, as for tools/test
)
# The folder with the programs, migrated once for all environments.
MIGRATED = "TF_LSO_MIGRATED"

# Of an exception in pytest's account of a failure, also in that of another process.
_RAISED = re.compile(r"^E +(\w+(?:Error|Exception): .*)$", re.MULTILINE)
_FOLDERS = re.compile(r"(?<!\w)(?:/[\w.-]+)+/")  # those of this machine
_PERCENT = re.compile(rb"\[ *(\d+)%\]")
_LINES = 15  # of the output of a command that fails
_LONGEST = 200  # characters of a reason


def run(title: str, command: Sequence[str], log: pathlib.Path, **variables: str) -> int:
    """Run a command to its end and show how far it is; return its exit code.

    Args:
      title: what is running, for people.
      command: the command.
      log: file that its output is appended to.
      **variables: environment variables to set.
    """
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    began = time.monotonic()
    with log.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**inherited, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    _show(title, time.monotonic() - began, log, start)
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()  # bounded.py needs its time to end the tests
            raise
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return code


def _show(title: str, seconds: float, log: pathlib.Path, start: int) -> None:
    """Rewrite the terminal's last line."""
    if not sys.stderr.isatty():
        return
    with log.open("rb") as output:
        output.seek(start)
        percents = _PERCENT.findall(output.read())
    done = f"{percents[-1].decode()}%, " if percents else ""
    minutes, rest = divmod(int(seconds), 60)
    shown = f"\r\033[K{title}: {done}{minutes}:{rest:02}"
    print(shown, end="", file=sys.stderr, flush=True)


def tail(log: pathlib.Path) -> str:
    """Return the last lines of a log, indented."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    return "\n".join(f"    {line}" for line in lines)


def tests(
    title: str, column: str, python: str, log: pathlib.Path, quick: bool, migrated: str
) -> dict[str, Any]:
    """Run the tests of a column; return what `count` returns.

    Args:
      title: what is running, for people.
      column: key of `TESTS`.
      python: the environment's Python.
      log: file that the output is appended to.
      quick: whether to leave the slow cases out.
      migrated: folder with the migrated programs.

    Raises:
      Failed: if they did not come to an end.
    """
    arguments, minutes = TESTS[column]
    bound = os.environ.get(MINUTES) or str(minutes)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.xml")
        bounded = [python, str(ROOT / "tools" / "bounded.py"), bound, python]
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        spread = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
        if column != "core":
            spread = []  # they start as many processes as there are cores
            pytest += QUICK if quick else []
        code = run(
            title,
            [*bounded, *pytest, *spread, f"--junitxml={report}"],
            log,
            TF_CPP_MIN_LOG_LEVEL="3",
            CUDA_VISIBLE_DEVICES="-1",
            **{MIGRATED: migrated},
        )
        if not report.exists():
            raise Failed(f"it ended with exit code {code}, and no report")
        counted = count(report.read_text(encoding="utf-8"))
    if code not in (0, 1):
        raise Failed(f"it ended with exit code {code}")
    return counted


def count(report: str) -> dict[str, Any]:
    """Return what a report of pytest, in JUnit's XML, says of all tests.

    That is how many passed and were skipped, why which failed, and by which limit of
    that Keras which was expected to.

    Example:
    >>> count('<t><testcase classname="tests.test_core" name="test_a[b]">'
    ...       '<failure message="assert 1">E  ValueError: no</failure></testcase>'
    ...       '<testcase/></t>')["failed"]
    {'tests/test_core.py::test_a[b]': 'ValueError: no'}
    """
    cases: dict[str, tuple[str, str]] = {}  # test -> what came out, and why
    for number, case in enumerate(ElementTree.fromstring(report).iter("testcase")):
        name = _name(case.get("classname", ""), case.get("name", f"{number}"))
        cases.setdefault(name, ("passed", ""))
        for part in case:
            message = part.get("message", "")
            if part.tag in ("failure", "error"):
                cases[name] = "failed", _reason(message, part.text or "")
            elif part.tag == "skipped":
                limited = part.get("type") == "pytest.xfail"
                cases[name] = "limits" if limited else "skipped", message
    outcomes = [outcome for outcome, _ in cases.values()]
    return {
        **{kind: outcomes.count(kind) for kind in ("passed", "skipped")},
        **{
            kind: {n: why for n, (outcome, why) in cases.items() if outcome == kind}
            for kind in ("failed", "limits")
        },
    }


def _name(module: str, test: str) -> str:
    """Return the name by which pytest runs a test."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end]) + ".py"
        if (ROOT / path).exists():
            return "::".join([path, *parts[end:], test])
    return f"{module}::{test}"


def _reason(message: str, told: str) -> str:
    """Return the last exception that a failure tells of, else its message's first line."""
    named = _RAISED.findall(told)
    lines = [*named[-1:], *message.splitlines(), "no message"]
    return _FOLDERS.sub("", lines[0].strip())[:_LONGEST]
