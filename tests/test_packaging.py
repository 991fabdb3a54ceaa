"""The metadata and the tools, as far as files can tell."""

import configparser
import os
import re
import subprocess
from pathlib import Path

import pytest

from tools.matrices.pairs import PAIRS

_ROOT = Path(__file__).parents[1]
_TOOLS = ("tools/run", "tools/test", "tools/benchmark", "tools/matrix", ".ci/run")


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    with (_ROOT / "setup.cfg").open(encoding="utf-8") as stream:
        parser.read_file(stream)
    return parser


def _names(requirements: str) -> set[str]:
    """The distributions that lines such as `keras>=3.0` name."""
    lines = [line.strip() for line in requirements.splitlines()]
    return {
        re.split(r"[^A-Za-z0-9._-]", line)[0]
        for line in lines
        if line and not line.startswith("#")
    }


def test_metadata(config):
    metadata = config["metadata"]
    assert metadata["name"] == "tf-lso"
    assert metadata["license"] == "Apache-2.0"
    assert re.fullmatch(r"\d+\.\d+\.\d+", metadata["version"])
    assert config["options"]["python_requires"] == ">=3.10"


def test_the_version_stands_in_one_place_with_the_package(config):
    init = (_ROOT / "tf_lso" / "__init__.py").read_text(encoding="utf-8")
    in_code = re.search(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    # The package may also read it from its metadata, which cannot disagree.
    assert in_code is None or in_code[1] == config["metadata"]["version"]


def test_neither_tensorflow_nor_its_keras_is_required(config):
    """To require Keras 3 would put it over the Keras 2 of TensorFlow 2.15 and older."""
    required = _names(config["options"]["install_requires"])
    assert required == {"h5py", "numpy"}


@pytest.mark.parametrize(
    ("extra", "distributions"),
    [
        ("tensorflow", {"tensorflow"}),
        ("tensorflow-cpu", {"tensorflow-cpu"}),
        ("tf-keras", {"tf-keras"}),
        ("benchmark", {"matplotlib", "tf-keras", "tqdm"}),
        ("demo", {"matplotlib", "scikit-learn", "tensorboard", "tqdm"}),
        ("migrate", {"libcst", "tqdm"}),
        ("test", {"hypothesis", "libcst", "mypy", "pytest", "ruff"}),
    ],
)
def test_extras(config, extra, distributions):
    assert distributions <= _names(config["options.extras_require"][extra])


def test_the_bounds_of_the_framework_extras_are_those_of_the_matrix(config):
    extras = config["options.extras_require"]

    def bounds(name):
        return extras[name].strip().removeprefix(name)

    def from_to(versions):
        minors = [int(v.removeprefix("2.")) for v in versions if v]
        return f">=2.{min(minors)},<2.{max(minors) + 1}"

    tensorflow = from_to(pair.tensorflow for pair in PAIRS)
    assert bounds("tensorflow") == bounds("tensorflow-cpu") == tensorflow
    assert bounds("tf-keras") == from_to(pair.tf_keras for pair in PAIRS)


def test_only_the_package_is_shipped(config):
    from setuptools import find_packages

    include = config["options.packages.find"]["include"].split()
    found = find_packages(str(_ROOT), include=include)
    assert {"tf_lso", "tf_lso.examples"} <= set(found)
    assert all(name.split(".")[0] == "tf_lso" for name in found)


def test_every_folder_of_the_package_is_a_package():
    # find: leaves out a folder without __init__.py, and nobody notices before release.
    folders = {path.parent for path in (_ROOT / "tf_lso").rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


def test_licence():
    text = (_ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("tool", _TOOLS)
def test_tools_are_executable_and_parse(tool):
    path = _ROOT / tool
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize(
    "tool", ["tools/run", "tools/test", "tools/benchmark", "tools/matrix"]
)
def test_help_needs_no_environment(tool, tmp_path):
    # With a Python that does not exist, any attempt to make one would fail.
    shown = subprocess.run(
        [_ROOT / tool, "--help"],
        env={**os.environ, "PYTHON": "no-such-python"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.lower().startswith(f"usage: {tool}")


def test_an_unsuitable_python_is_refused_by_name():
    refused = subprocess.run(
        [_ROOT / "tools" / "run", "anything.py"],
        env={**os.environ, "PYTHON": "no-such-python"},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "PYTHON=no-such-python" in refused.stderr
    assert "3.10 to 3.13" in refused.stderr
