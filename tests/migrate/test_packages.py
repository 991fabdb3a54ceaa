"""In a program of several files, each file is checked and migrated by itself."""

import json
import pathlib

import pytest

from tests.migrate.programs import run, write

pytestmark = pytest.mark.core

TF = "import tensorflow as tf\n"
USE = "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
GUARD = f"{TF}if hasattr(opt, 'get_scaled_loss'):\n    x = opt.get_scaled_loss(x)\n"
INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"


@pytest.fixture(autouse=True)
def package(folder):
    write("pkg/__init__.py", "")


def found_in(path):
    """Return the findings in a file."""
    return json.loads(run("check", "--format", "json", path)[1])["findings"]


@pytest.mark.parametrize(
    "imports",
    ["from .utils import tf\n", "from ..pkg.utils import tf\n", "from . import tf\n"],
)
def test_a_name_of_another_file_is_listed_and_stays(imports):
    write("pkg/utils.py", TF)
    path = write("pkg/model.py", imports + USE)
    (found,) = found_in(path)
    assert (found["line"], found["rule"], found["status"]) == (2, "LSO108", "unsure")
    assert "tf_lso.keras.mixed_precision.LossScaleOptimizer" in found["why_not"]
    assert run("migrate", "--write", "pkg")[0] == 0
    assert path.read_text() == imports + USE


def test_a_distinctive_name_of_a_relative_import_is_listed():
    path = write("pkg/model.py", "from .optim import LossScaleOptimizer, Policy\n")
    (found,) = found_in(path)
    assert (found["rule"], found["name"]) == ("LSO108", "LossScaleOptimizer")
    assert "another module" in found["why_not"]


def migrated_texts():
    """Migrate the current folder. Return a dict from paths to texts, and the report."""
    _, printed = run("migrate", "--write", ".")
    files = {str(path): path.read_text() for path in pathlib.Path().rglob("*.py")}
    return files, printed


def test_a_script_that_needs_install_gets_it():
    write("train.py", GUARD)
    files, printed = migrated_texts()
    assert files["train.py"] == INSTALL + GUARD
    assert "./train.py: tf_lso.install() is added, for:\n" in printed
    assert "a guard that tests for `get_scaled_loss`" in printed
    assert migrated_texts()[0] == files


@pytest.mark.parametrize("has_main", [True, False])
def test_a_module_of_a_package_names_the_entry_and_stays(has_main):
    if has_main:
        write("pkg/__main__.py", "import pkg.inner.step\n")
    write("pkg/inner/__init__.py", "")
    write("pkg/inner/step.py", GUARD)
    files, printed = migrated_texts()
    assert files["pkg/inner/step.py"] == GUARD
    entry = "pkg/__main__.py" if has_main else "the program that imports pkg"
    assert f"./pkg/inner/step.py: needs tf_lso.install() in {entry}, for:" in printed


MAIN = "if __name__ == '__main__':\n    train()\n"


def test_install_stands_at_the_top_of_the_main_guard_where_that_is_early_enough():
    step = "".join(f"    {line}\n" for line in GUARD.splitlines()[1:])
    write("train.py", f"{TF}\n\ndef train():\n{step}\n\n{MAIN}")
    files, _ = migrated_texts()
    call = "if __name__ == '__main__':\n    tf_lso.install()\n    train()\n"
    assert files["train.py"].endswith(call)
    assert files["train.py"].startswith(f"{TF}import tf_lso\n")


def test_install_stands_before_the_first_statement_where_the_module_itself_needs_it():
    write("train.py", f'"""Trains."""\n{GUARD}{MAIN}')
    files, _ = migrated_texts()
    assert files["train.py"].startswith('"""Trains."""\n\nimport tf_lso\n\ntf_lso.ins')


def test_with_like_it_stands_before_all_imports():
    write("train.py", f"from __future__ import annotations\n{TF}{USE}\n{MAIN}")
    run("migrate", "--write", "--like", "2.4", "train.py")
    text = pathlib.Path("train.py").read_text()
    head = 'from __future__ import annotations\n\nimport tf_lso\n\ntf_lso.install(like="2.4")'
    assert text.startswith(head)
