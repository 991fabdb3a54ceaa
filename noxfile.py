"""The tests on each supported pair of TensorFlow and Keras, by nox.

    nox --list                               the pairs
    nox -s "matrix(2.15)"                    the core and the old programs on one of them
    nox -s "matrix(2.15)" -- --quick         without the slow programs
    nox -s "matrix(2.15)" -- --core          the core alone, which changes no table
    nox -s "matrix(2.15)" --install-only     make its environment, run nothing

`nox` alone runs all pairs, which takes hours. Each pair has an environment below .nox,
which is used again, and writes its row of compat_docs/reference/support.md. A pair that
fails does not stop the others. TF_LSO_TENSORFLOW=tensorflow installs that distribution in
place of tensorflow-cpu, and TF_LSO_TEST_MINUTES=120 is another bound for the tests.
"""

import configparser
import datetime
import glob
import json
import os
import pathlib
import platform
import sys
import tempfile

import nox

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tools import support

nox.options.default_venv_backend = "uv|venv"
nox.options.error_on_missing_interpreters = True

# Otherwise the shims of pyenv are found, which refuse to run most of its Pythons.
_PYENV = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
_PYTHONS = [os.path.dirname(os.environ.get("PYTHON", ""))]
_PYTHONS += sorted(glob.glob(f"{_PYENV}/versions/*/bin"))
os.environ["PATH"] = os.pathsep.join([*filter(None, _PYTHONS), os.environ["PATH"]])

# What provides TensorFlow: the smaller one, since the tests use no GPU.
_DISTRIBUTION = os.environ.get("TF_LSO_TENSORFLOW") or "tensorflow-cpu"
# The programs are migrated once for all environments.
_MIGRATED = tempfile.TemporaryDirectory()
_NOT_FOR_TESTS = ("import-linter", "mypy", "ruff")  # of the extra `test`
# Column of the table -> arguments of pytest, and minutes at most. The programs run twice,
# as they are and migrated; they start as many processes as there are cores.
_TESTS = {
    "core": ("-m core -n auto --maxprocesses 4 --dist loadfile", 30),
    "programs": (
        "tests/old_programs tests/migrate/test_goes_on.py tests/migrate/test_programs.py",
        60,
    ),
}


@nox.session(reuse_venv=True)
@nox.parametrize(
    "python,pair",
    [nox.param(pair.python, pair, id=pair.name) for pair in support.PAIRS],
)
def matrix(session, pair):
    """Run the tests on one pair, and write its row of the table."""
    core_alone, quick = (o in session.posargs for o in ("--core", "--quick"))
    if len(session.posargs) != core_alone + quick:
        session.error(f"{session.posargs}: after -- there may be --core or --quick")
    _install(session, pair)
    versions = _versions(session, pair)
    if versions is None:  # of a run with --install-only
        return
    if core_alone:
        if _tested(session, "core", "")["failed"]:
            session.error("the core failed")
        return
    results = support.read()
    results.pop(pair.name, None)
    support.write(results)
    results[pair.name] = result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": versions,
        "installs": _would_install(session),
        "quick": quick,
        "core": _tested(session, "core", ""),
        "programs": _tested(session, "programs", "not slow" if quick else ""),
    }
    support.write(results)
    session.log(support.row(pair, result))
    if not support.is_good(result):
        session.error(json.dumps(result, indent=1))


def _install(session, pair):
    """Install a pair and what its tests need; they import tf_lso from the checkout."""
    config = configparser.ConfigParser(interpolation=None)
    config.read("setup.cfg", encoding="utf-8")
    needed = config["options.extras_require"]["test"].split()
    needed = [name for name in needed if not name.startswith(_NOT_FOR_TESTS)]
    frameworks = [f"{_DISTRIBUTION}=={pair.tensorflow}.*", f"keras=={pair.keras}.*"]
    session.install("pip", *frameworks, *needed)
    if pair.tf_keras:
        # It requires the distribution `tensorflow`, whichever one is there.
        session.install("--no-deps", f"tf-keras=={pair.tf_keras}.*")


def _pip(session, *arguments):
    """What pip of the environment tells as JSON; None where nothing is run."""
    pip = ["python", "-m", "pip", *arguments]
    told = session.run(*pip, silent=True, stderr=None)
    return told and json.loads(told)


def _versions(session, pair):
    """The versions that the environment has; None where nothing is run."""
    found = _pip(session, "inspect", "--local")
    if found is None:
        return None
    installed = [one["metadata"] for one in found["installed"]]
    of = {one["name"].replace("_", "-"): one["version"] for one in installed}
    versions = {"python": found["environment"]["python_full_version"]}
    versions |= {"tensorflow": of[_DISTRIBUTION], "keras": of["keras"]}
    return versions | ({"tf_keras": of["tf-keras"]} if pair.tf_keras else {})


def _would_install(session):
    """What `pip install tf-lso` would install or replace beside tf-lso itself."""
    plan = _pip(session, *"install --dry-run --quiet --report - .".split())
    found = [item["metadata"] for item in plan["install"]]
    return [f"{m['name']} {m['version']}" for m in found if m["name"] != "tf-lso"]


def _tested(session, column, marks):
    """What came out of the tests of a column, as `support.count` returns it."""
    arguments, minutes = _TESTS[column]
    minutes = os.environ.get("TF_LSO_TEST_MINUTES") or str(minutes)
    report = pathlib.Path(session.cache_dir, "report.xml")
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments.split()]
    pytest += ["-m", marks] if marks else []
    environment = {
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": None,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_LSO_MIGRATED": _MIGRATED.name,
    }
    session.run(
        *("python", "tools/bounded.py", minutes, "python", *pytest),
        *("-o", "junit_family=xunit1", f"--junitxml={report}"),
        env=environment,
        success_codes=[0, 1],  # 1: the report has the tests that failed
        interrupt_timeout=60,  # bounded.py needs its time to end the tests
    )
    return support.count(report.read_text(encoding="utf-8"))
