"""In a program of several files, each file is checked and migrated by itself."""

import json
import pathlib
import textwrap

import pytest

from tests.migrate.programs import run, write

TF = "import tensorflow as tf\n"
USE = "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
GUARD = f"{TF}if hasattr(opt, 'get_scaled_loss'):\n    x = opt.get_scaled_loss(x)\n"
INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"
MAIN = "if __name__ == '__main__':\n    train()\n"


@pytest.fixture(autouse=True)
def package(folder):
    write("pkg/__init__.py", "")


def finding_in(path):
    """Return the only finding in a file."""
    (finding,) = json.loads(run("check", "--format", "json", path)[1])["findings"]
    return finding


@pytest.mark.parametrize(
    "imports",
    ["from .utils import tf\n", "from ..pkg.utils import tf\n", "from . import tf\n"],
)
def test_an_old_name_by_a_module_from_another_file_is_listed_and_stays(imports):
    write("pkg/utils.py", TF)
    path = write("pkg/model.py", imports + USE)
    finding = finding_in(path)
    assert finding["line"] == 2
    assert finding["rule"] == "LSO108"
    assert finding["status"] == "unsure"
    assert "tf_lso.keras.mixed_precision.LossScaleOptimizer" in finding["why_not"]
    assert run("migrate", "--write", "pkg")[0] == 0
    assert path.read_text() == imports + USE


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
    assert "./train.py: tf_lso.install() is added, for:\n" in printed
    assert "a guard that tests for `get_scaled_loss`" in printed
    assert migrated_texts()[0] == files


@pytest.mark.parametrize("has_main", [True, False])
def test_for_a_module_of_a_package_the_report_names_where_to_install(has_main):
    if has_main:
        write("pkg/__main__.py", "import pkg.inner.step\n")
    write("pkg/inner/__init__.py", "")
    write("pkg/inner/step.py", GUARD)
    files, printed = migrated_texts()
    assert files["pkg/inner/step.py"] == GUARD
    entry = "pkg/__main__.py" if has_main else "the program that imports pkg"
    assert f"./pkg/inner/step.py: needs tf_lso.install() in {entry}, for:" in printed


def test_install_is_called_in_the_main_guard_if_only_functions_need_it():
    guard_in_function = textwrap.indent(GUARD.removeprefix(TF), "    ")
    write("train.py", f"{TF}\n\ndef train():\n{guard_in_function}\n\n{MAIN}")
    files, _ = migrated_texts()
    call = "if __name__ == '__main__':\n    tf_lso.install()\n    train()\n"
    assert files["train.py"].endswith(call)
    assert files["train.py"].startswith(f"{TF}import tf_lso\n")


def test_install_is_called_before_the_first_statement_if_the_module_needs_it():
    write("train.py", f'"""Trains."""\n{GUARD}{MAIN}')
    files, _ = migrated_texts()
    head = '"""Trains."""\n\nimport tf_lso\n\ntf_lso.install()\n'
    assert files["train.py"].startswith(head)


def test_with_like_install_is_called_before_all_imports():
    write("train.py", f"from __future__ import annotations\n{TF}{USE}\n{MAIN}")
    run("migrate", "--write", "--like", "2.4", "train.py")
    text = pathlib.Path("train.py").read_text()
    head = 'from __future__ import annotations\n\nimport tf_lso\n\ntf_lso.install(like="2.4")'
    assert text.startswith(head)
