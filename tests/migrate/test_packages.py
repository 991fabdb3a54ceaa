"""In a program of several files, each file is checked and migrated by itself."""

import json
import pathlib

import pytest

from tests.migrate.programs import run, write

TF = "import tensorflow as tf\n"
USE = "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
GUARD = f"{TF}if hasattr(opt, 'get_scaled_loss'):\n    x = opt.get_scaled_loss(x)\n"
INSTALL = "import tf_lso.installed  # noqa: F401\n"


@pytest.fixture(autouse=True)
def package(folder):
    write("pkg/__init__.py", "")


def finding_in(path):
    """Return the only finding in a file."""
    (finding,) = json.loads(run("check", "--format", "json", path)[1])["findings"]
    return finding


def test_a_relative_import_of_a_distinctive_old_name_is_listed():
    """`LossScaleOptimizer` is distinctive, but a program may have a `Policy` of its own."""
    path = write("pkg/model.py", "from .optim import LossScaleOptimizer, Policy\n")
    finding = finding_in(path)
    assert finding["rule"] == "LSO108"
    assert finding["name"] == "LossScaleOptimizer"
    assert "another module" in finding["why_not"]


def migrated_texts():
    """Migrate the current folder. Return a dict from paths to texts, and the report."""
    _, printed = run("migrate", "--write", ".")
    files = {str(path): path.read_text() for path in pathlib.Path().rglob("*.py")}
    return files, printed


def test_a_script_that_needs_install_gets_it():
    write("train.py", GUARD)
    files, printed = migrated_texts()
    assert files["train.py"] == INSTALL + GUARD
    assert "./train.py: import tf_lso.installed is added, for:\n" in printed
    assert "a guard that tests for `get_scaled_loss`" in printed
    assert migrated_texts()[0] == files


@pytest.mark.parametrize(
    ("program", "entry"),
    [
        ("pkg/__main__.py", "pkg/__main__.py"),
        ("main.py", "./main.py"),
        ("pkg/other.py", "the program that imports pkg"),
    ],
)
def test_for_a_module_of_a_package_the_report_names_where_to_install(program, entry):
    write(program, "import pkg.inner.step\n")
    write("pkg/inner/__init__.py", "")
    write("pkg/inner/step.py", GUARD)
    files, printed = migrated_texts()
    assert files["pkg/inner/step.py"] == GUARD
    assert f"./pkg/inner/step.py: needs tf_lso.install() in {entry}, for:" in printed


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ('"""Trains."""\n\n', ""),
        ("#!/usr/bin/env python\n", ""),
        ('import os\n\nos.environ["A"] = "1"\n\n', "# about TensorFlow\n"),
        ("from __future__ import annotations\n\n", ""),
    ],
)
def test_the_line_that_installs_stands_among_the_imports(above, below):
    write("train.py", f"{above}{below}{GUARD}")
    assert migrated_texts()[0]["train.py"] == f"{above}{INSTALL}{below}{GUARD}"


def test_with_like_install_is_called_before_all_imports():
    write("train.py", f"from __future__ import annotations\n{TF}{USE}\n")
    run("migrate", "--write", "--like", "2.4", "train.py")
    text = pathlib.Path("train.py").read_text()
    head = 'from __future__ import annotations\n\nimport tf_lso\n\ntf_lso.install(like="2.4")'
    assert text.startswith(head)
