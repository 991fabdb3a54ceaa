"""The tests on each supported pair of TensorFlow and Keras, by nox.

    nox --list                               the pairs
    nox -s "matrix(2.15)"                    one of them, which writes its row of the table
    nox -s "matrix(2.15)" -- --quick         without the slow programs
    nox -s "matrix(2.15)" -- --core          the core alone, which writes no row
    nox -s "matrix(2.15)" -- --all           the whole suite, which writes no row
    nox -s "matrix(2.15)" --install-only     make its environment, run nothing
    nox -s "matrix(next)" -- --quick         the nightly builds that tools/support.py names
    nox -s packages                          trains four published packages, see tests/packages

`nox` alone runs all pairs, which takes hours. TF_LSO_TENSORFLOW=tensorflow installs that
distribution in place of tensorflow-cpu; TF_LSO_TEST_MINUTES=120 is another bound.
"""

import configparser
import datetime
import glob
import json
import os
import pathlib
import sys
import tempfile

import nox

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tools import support

nox.options.default_venv_backend = "uv|venv"
nox.options.error_on_missing_interpreters = True

# Otherwise the shims of pyenv are found, which refuse to run most of its Pythons.
_PYENV = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
_PYTHONS = [os.path.dirname(os.environ.get("PYTHON", "")), os.environ["PATH"]]
_PYTHONS[1:1] = sorted(glob.glob(f"{_PYENV}/versions/*/bin"))
os.environ["PATH"] = os.pathsep.join(filter(None, _PYTHONS))

# What provides TensorFlow: the smaller one, since the tests use no GPU.
_DISTRIBUTION = os.environ.get("TF_LSO_TENSORFLOW") or "tensorflow-cpu"
# The programs are migrated once for all environments.
_MIGRATED = tempfile.TemporaryDirectory()
# Of the extra `test`, what the core and the programs need.
_NEEDED = [
    *("hypothesis", "libcst", "pytest>=8", "pytest-timeout", "pytest-xdist"),
    *("tensorboard", "tqdm"),
]
# Column of the table -> minutes at most, and arguments of pytest. The programs run twice,
# as they are and migrated; they start as many processes as there are cores.
_TESTS = {
    "core": "30 -m core -n auto --maxprocesses 4 --dist loadfile",
    "all": "200 -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder",
    "programs": "60 tests/old_programs tests/migrate/test_goes_on.py "
    "tests/migrate/test_programs.py",
}
# Program in tests/packages -> `--like` for it, and what it needs. The packages are installed
# without their own requirements, which would replace TensorFlow and NumPy.
_PACKAGES = {
    "transformers_bert": (
        "2.12",
        *("transformers==4.30.2", "tokenizers==0.13.3", "huggingface_hub<0.20"),
        *("filelock", "fsspec", "packaging", "pyyaml", "regex", "requests", "tqdm"),
    ),
    "addons_optimizers": ("2.12", "tensorflow_addons==0.23.0", "typeguard==2.13.3"),
    "opennmt_trainer": (
        "2.10",
        *("OpenNMT-tf==2.31.0", "pyonmttok<2", "ctranslate2<4", "rouge", "sacrebleu<3"),
        *("portalocker", "tabulate", "colorama", "lxml", "six"),
    ),
    "gradient_accumulator_fit": ("2.10", "gradient_accumulator==0.5.0"),
}
_ROWS = [nox.param(pair.python, pair, id=pair.name) for pair in support.ROWS]
_VERSIONS = """
import importlib.metadata, json, platform
installed = importlib.metadata.distributions()
found = {one.name.replace("-", "_"): one.version for one in installed}
print(json.dumps({"python": platform.python_version(), **found}))
"""


@nox.session(reuse_venv=True)
@nox.parametrize("python,pair", _ROWS)
def matrix(session, pair):
    """Run the tests on one pair, and write its row of the table."""
    if not {"--core", "--quick", "--all"}.issuperset(session.posargs):
        session.error(f"{session.posargs}: after -- only --core, --quick or --all")
    # Nightly builds may fail for reasons of their own.
    report_failure = session.warn if pair == support.NEXT else session.error
    wanted = support.requirements(pair, _DISTRIBUTION)
    needed = list(_NEEDED)
    if "--all" in session.posargs:
        needed += [*_extras("test", "demo", "matrix"), "setuptools"]
    # One installation, so that pip chooses a NumPy that fits TensorFlow.
    session.install("pip", wanted["tensorflow"], wanted["keras"], *needed)
    if pair.tf_keras:
        # It requires the distribution `tensorflow`, whichever one is there.
        session.install("--no-deps", wanted["tf_keras"])
    versions = session.run("python", "-c", _VERSIONS, silent=True)
    if versions is None:  # of a run with --install-only
        return
    column = "all" if "--all" in session.posargs else "core"
    tested = _tested(session, column)
    if not {"--core", "--all"}.isdisjoint(session.posargs):
        if tested["failed"]:
            report_failure(f"{column}: {len(tested['failed'])} tests failed")
        return
    versions = json.loads(versions)
    for framework, requirement in wanted.items():
        distribution = requirement.partition("==")[0]
        versions[framework] = versions[distribution.replace("-", "_")]
    result = _row(session, pair, versions, core=tested)
    support.write({**support.read(), pair.name: result})
    session.log(support.row(pair, result))
    if not support.is_good(result):
        report_failure(json.dumps(result, indent=1))


# The packages have no files for later versions of Python.
@nox.session(python="3.11", reuse_venv=True, default=False)
def packages(session):
    """Train four published packages for some steps, on the newest released TensorFlow."""
    wanted = support.requirements(support.PAIRS[-1], _DISTRIBUTION)
    session.install("pip", wanted["tensorflow"], wanted["keras"])
    needed = {one for _, *names in _PACKAGES.values() for one in names}
    session.install("--no-deps", wanted["tf_keras"], "tensorboard", *sorted(needed))
    for program, (like, *_) in _PACKAGES.items():
        path = f"tests/packages/{program}.py"
        session.run("python", "-m", "tf_lso", "run", "--like", like, path)


def _row(session, pair, versions, core):
    """Run the programs, and return a row of the table."""
    quick = "--quick" in session.posargs
    # What `pip install tf-lso` would install or replace.
    pip = "python -m pip install --dry-run --quiet --report - .".split()
    would = json.loads(session.run(*pip, silent=True, stderr=None))["install"]
    would = [(one["metadata"]["name"], one["metadata"]["version"]) for one in would]
    return {
        "date": datetime.date.today().isoformat(),
        "versions": {n: versions[n] for n in support.FRAMEWORKS if getattr(pair, n)},
        "installs": [
            f"{name} {version}" for name, version in would if name != "tf-lso"
        ],
        "quick": quick,
        "core": core,
        "programs": _tested(session, "programs", *["-m", "not slow"] * quick),
    }


def _extras(*names):
    """Return the requirements of the extras of setup.cfg, without those of tf_lso itself."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"]
    return [line for name in names for line in extras[name].split()]


def _tested(session, column, *more):
    """What came out of the tests of a column, as `support.count` returns it."""
    minutes, *arguments = _TESTS[column].split()
    minutes = os.environ.get("TF_LSO_TEST_MINUTES") or minutes
    report = pathlib.Path(session.cache_dir, "report.xml")
    session.run(
        *("python", "tools/bounded.py", minutes, "python", "-m", "pytest"),
        *("-q", "-p", "no:cacheprovider", *arguments, *more),
        *("-o", "junit_family=xunit1", f"--junitxml={report}"),
        env={"PYTHONPATH": None, "TF_LSO_MIGRATED": _MIGRATED.name},
        success_codes=[0, 1],  # 1: the report has the tests that failed
        interrupt_timeout=60,  # bounded.py needs its time to end the tests
    )
    return support.count(report.read_text(encoding="utf-8"))
