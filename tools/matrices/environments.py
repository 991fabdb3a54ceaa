"""Makes the virtual environment of a pair, or uses the one that is there."""

import configparser
import glob
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from tools.matrices.pairs import Pair

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Environment variables: where environments stand, and what provides TensorFlow.
FOLDER = "TF_LSO_VENVS"
DISTRIBUTION = "TF_LSO_TENSORFLOW"

_STAMP = "tf-lso-stamp"
# Of the extra `test`, what does not run tests.
_LINTERS = ("mypy", "ruff")
_VERSIONS = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for key, name in zip(sys.argv[1::2], sys.argv[2::2]):
    found[key] = importlib.metadata.version(name)
print(json.dumps(found))
"""


class Failed(Exception):
    """The environment cannot be made; the message says why."""


def default_folder() -> pathlib.Path:
    """Return where environments stand if the command line does not say."""
    return pathlib.Path(os.environ.get(FOLDER) or ROOT / ".venvs")


def find_python(minor: str) -> str:
    """Return a Python of that minor version.

    Args:
      minor: such as "3.11".

    Raises:
      Failed: if none is found.
    """
    named = os.environ.get("PYTHON")
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    candidates = [
        *([named] if named else []),
        # A shim of pyenv stands on the PATH, and may refuse to run.
        *filter(None, [shutil.which(f"python{minor}")]),
        *sorted(glob.glob(f"{pyenv}/versions/{minor}.*/bin/python{minor}")),
        sys.executable,
    ]
    for python in candidates:
        if _minor(python) == minor:
            return python
    raise Failed(f"found no Python {minor}; put python{minor} on the PATH")


def _minor(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def steps(pair: Pair, folder: pathlib.Path) -> list[list[str]]:
    """Return the commands that make a pair's environment, none if it is ready.

    The checkout itself is not installed: tests import it from where it stands.
    """
    home = folder / pair.name
    if _read(home / _STAMP) == _fingerprint(pair):
        return []
    install = _installer(str(python_of(pair, folder)))
    distribution = _distribution()
    return [
        [find_python(pair.python), "-m", "venv", "--clear", str(home)],
        [*install, *pair.requirements(distribution), *_test_requirements()],
        # tf_keras requires the distribution `tensorflow`, whichever one is there.
        *(
            [[*install, "--no-deps", f"tf-keras=={pair.tf_keras}.*"]]
            if pair.tf_keras
            else []
        ),
    ]


def _installer(python: str) -> list[str]:
    """Return the command that installs: uv's, where it is, which is soonest."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", python]
    return [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]


def python_of(pair: Pair, folder: pathlib.Path) -> pathlib.Path:
    """Return the path of the environment's Python."""
    return folder / pair.name / "bin" / "python"


def finish(pair: Pair, folder: pathlib.Path) -> None:
    """Note that an environment is complete, so that the next call uses it."""
    (folder / pair.name / _STAMP).write_text(_fingerprint(pair), encoding="utf-8")


def versions(pair: Pair, folder: pathlib.Path) -> dict[str, str]:
    """Return the versions that the environment has: framework -> version."""
    names = ["tensorflow", _distribution(), "keras", "keras"]
    names += ["tf_keras", "tf-keras"] if pair.tf_keras else []
    command = [str(python_of(pair, folder)), "-c", _VERSIONS, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def would_install(python: str) -> list[str]:
    """Return what `pip install tf-lso` would install or replace beside tf-lso itself."""
    command = [python, "-m", "pip", "install", "--quiet"]
    done = subprocess.run(
        [*command, "--dry-run", "--report", "-", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(done.stderr.strip()[-500:])
    found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    return [f"{m['name']} {m['version']}" for m in found if m["name"] != "tf-lso"]


def _distribution() -> str:
    """Return what provides TensorFlow: the smaller one, since the tests use no GPU."""
    return os.environ.get(DISTRIBUTION) or "tensorflow-cpu"


def _test_requirements() -> list[str]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = config["options.extras_require"]["test"].split()
    return [name for name in listed if name not in _LINTERS]


def _fingerprint(pair: Pair) -> str:
    made_of = [pair, _distribution(), _test_requirements()]
    return hashlib.sha256(repr(made_of).encode()).hexdigest()


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
