"""Run the tests by nox on each supported pair of TensorFlow and Keras.

    nox --list                               the pairs
    nox -s "matrix(2.15)"                    one of them: the core and the programs
    nox -s "matrix(2.15)" -- --core          the core alone
    nox -s "matrix(2.15)" -- --all           the whole suite
    nox -s "matrix(2.15)" --install-only     make its environment, run nothing
    nox -s packages                          train four published packages, see tests/packages

`nox` alone runs all pairs, which takes hours. TF_LSO_TENSORFLOW=tensorflow installs that
distribution in place of tensorflow-cpu.
"""

import configparser
import datetime
import glob
import json
import os
import signal

import nox

# A pair is an environment: the versions of Python and of the packages. `keras` is the version
# of `tf.keras`, and `tf_keras` is None if that package is not installed. TensorFlow 2.16 is the
# first version with Keras 3. Together the pairs use all supported versions of Python. The pairs
# that .ci/run names use the same one.
PAIRS = {
    "2.12": {"python": "3.11", "tensorflow": "2.12", "keras": "2.12", "tf_keras": None},
    "2.13": {"python": "3.10", "tensorflow": "2.13", "keras": "2.13", "tf_keras": None},
    "2.14": {"python": "3.10", "tensorflow": "2.14", "keras": "2.14", "tf_keras": None},
    "2.15": {"python": "3.11", "tensorflow": "2.15", "keras": "2.15", "tf_keras": None},
    "2.15-tf_keras": {
        "python": "3.10",
        "tensorflow": "2.15",
        "keras": "2.15",
        "tf_keras": "2.15",
    },
    "2.16": {
        "python": "3.11",
        "tensorflow": "2.16",
        "keras": "3.0",
        "tf_keras": "2.16",
    },
    "2.17": {
        "python": "3.12",
        "tensorflow": "2.17",
        "keras": "3.6",
        "tf_keras": "2.17",
    },
    "2.18": {
        "python": "3.12",
        "tensorflow": "2.18",
        "keras": "3.10",
        "tf_keras": "2.18",
    },
    "2.19": {
        "python": "3.10",
        "tensorflow": "2.19",
        "keras": "3.12",
        "tf_keras": "2.19",
    },
    "2.20": {
        "python": "3.13",
        "tensorflow": "2.20",
        "keras": "3.15",
        "tf_keras": "2.20",
    },
    "2.21": {
        "python": "3.11",
        "tensorflow": "2.21",
        "keras": "3.15",
        "tf_keras": "2.21",
    },
    "2.21-python3.13": {
        "python": "3.13",
        "tensorflow": "2.21",
        "keras": "3.15",
        "tf_keras": "2.21",
    },
}
# Nightly builds of the next releases. CI does not fail because of them.
NEXT = "next"
NIGHTLY_BUILDS = [
    "tf-nightly-cpu==2.22.0.dev20260905",
    "keras-nightly==3.16.0.dev2026102704",
    "tf_keras-nightly==2.22.0.dev2026101709",
]
PYTHON_OF_NEXT = "3.12"

# The core and the programs need these packages of the extra `test`.
NEEDED = [
    "hypothesis",
    "libcst",
    "pytest>=8",
    "pytest-timeout",
    "pytest-xdist",
    "tensorboard",
]
PYTEST = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
IN_PROCESSES = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
PROGRAMS = ["tests/old_programs", "tests/migrate/test_programs.py"]

nox.options.default_venv_backend = "uv|venv"
nox.options.error_on_missing_interpreters = True

# At SIGTERM, nox ends the running tests as it does at Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Put the Pythons of pyenv on the PATH before its shims, which refuse to run most of them.
pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
pythons = [os.path.dirname(os.environ.get("PYTHON", "")), os.environ["PATH"]]
pythons[1:1] = sorted(glob.glob(f"{pyenv}/versions/*/bin"))
os.environ["PATH"] = os.pathsep.join(filter(None, pythons))


@nox.session(reuse_venv=True)
@nox.parametrize(
    "python,pair",
    [
        *(
            nox.param(versions["python"], name, id=name)
            for name, versions in PAIRS.items()
        ),
        nox.param(PYTHON_OF_NEXT, NEXT, id=NEXT),
    ],
)
def matrix(session, pair):
    """Run the tests on one pair."""
    if not {"--core", "--all"}.issuperset(session.posargs):
        session.error(f"{session.posargs}: after -- only --core or --all")
    packages, without_dependencies = requirements(pair)
    if "--all" in session.posargs:
        packages += [*extras("test", "demo", "matrix"), "setuptools"]
    # Install everything at once, so that pip chooses a NumPy that fits TensorFlow.
    session.install("pip", *packages, *NEEDED)
    if without_dependencies:
        session.install("--no-deps", *without_dependencies)
    if "--all" in session.posargs:
        test(session, *IN_PROCESSES, "--no-loadscope-reorder")
        return
    test(session, *IN_PROCESSES, "-m", "core and not slow")
    if "--core" in session.posargs:
        return
    test(session, *IN_PROCESSES, *PROGRAMS)
    show(session, pair)


def requirements(pair):
    """Return two lists: what to install, and what to install without its dependencies."""
    if pair == NEXT:
        return list(NIGHTLY_BUILDS[:2]), NIGHTLY_BUILDS[2:]
    versions = PAIRS[pair]
    # The tests use no GPU, so the smaller distribution is enough.
    tensorflow = os.environ.get("TF_LSO_TENSORFLOW") or "tensorflow-cpu"
    packages = [
        f"{tensorflow}=={versions['tensorflow']}.*",
        f"keras=={versions['keras']}.*",
    ]
    # The dependencies of tf_keras would add the distribution `tensorflow` to tensorflow-cpu.
    more = [f"tf-keras=={versions['tf_keras']}.*"] if versions["tf_keras"] else []
    return packages, more


def extras(*names):
    """Return the requirements of the extras of setup.cfg, without those of tf_lso itself."""
    setup = configparser.ConfigParser()
    setup.read("setup.cfg", encoding="utf-8")
    return [
        line for name in names for line in setup["options.extras_require"][name].split()
    ]


def test(session, *arguments):
    """Run pytest."""
    session.run(
        *PYTEST,
        *arguments,
        env={"PYTHONPATH": None},
        interrupt_timeout=60,  # the tests end their own processes first
    )


def show(session, pair):
    """Check that installing tf_lso installs nothing else. Print the row of the support page."""
    pip = [
        "python",
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--report",
        "-",
        ".",
    ]
    report = json.loads(session.run(*pip, silent=True, stderr=None))
    would_install = [one["metadata"]["name"] for one in report["install"]]
    if would_install != ["tf-lso"]:
        session.error(f"installing tf_lso would also install {would_install}")
    versions = "import tensorflow, keras, platform\n" + (
        "print('Python', platform.python_version(), end=', ')\n"
        "print('TensorFlow', tensorflow.__version__, end=', ')\n"
        "print('Keras', keras.__version__)"
    )
    shown = session.run("python", "-c", versions, silent=True, stderr=None).strip()
    session.log(f"| {pair} | {shown} | {datetime.date.today().isoformat()} |")


# Maps a program in tests/packages to the version for `--like` and the packages that it needs.
# These are installed without their dependencies, which would replace TensorFlow and NumPy.
PACKAGES = {
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


# The packages have no files for later versions of Python.
@nox.session(python="3.11", reuse_venv=True, default=False)
def packages(session):
    """Train four published packages for some steps, on the newest released TensorFlow."""
    frameworks, tf_keras = requirements("2.21")
    session.install("pip", *frameworks)
    needed = {requirement for _, *names in PACKAGES.values() for requirement in names}
    session.install("--no-deps", *tf_keras, "tensorboard", *sorted(needed))
    for program, (like, *_) in PACKAGES.items():
        path = f"tests/packages/{program}.py"
        session.run("python", "-m", "tf_lso", "run", "--like", like, path)
