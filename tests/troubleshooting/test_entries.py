"""Each entry of the page has a test, which has the lines of the entry's fix."""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.troubleshooting.page import ENTRIES

# Entries whose messages are tested in another folder. The fixes of these entries are commands.
ELSEWHERE = {
    "no-tensorflow": "test_import.py::test_without_tensorflow_the_error_names_the_extras",
    "versions": "test_import.py::test_that_are_too_old_or_do_not_fit_are_refused",
    "no-tf-keras": "test_import.py"
    "::test_a_missing_tf_keras_that_tensorflow_is_to_use_is_an_error",
    "backend": "test_import.py::test_another_keras_backend_is_refused",
    "slow-float16": "policies/test_policies.py::test_warns_once",
    "horovod": "horovod/test_horovod.py::test_the_optimizer_is_refused_on_keras_3",
    "like-too-late": "install/test_like.py"
    "::test_a_tensorflow_that_was_imported_with_another_keras_is_refused",
    "matplotlib": "debugging/test_report.py::test_without_matplotlib_the_error_names_it",
}


def _tests():
    """Return {name of an entry: its test} for the tests of this folder."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, value in vars(module).items():
            if name.startswith("test_") and module.__name__ == value.__module__:
                found[name.removeprefix("test_").replace("_", "-")] = value
    return found


TESTS = _tests()


def lines_of(code):
    """Return the lines of a program, and of texts in it, formatted alike."""
    tree = ast.parse(textwrap.dedent(code))
    texts = [ast.unparse(tree)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return {line.strip() for text in texts for line in text.splitlines()}


def fix_of(entry):
    """Return the language and the code of the one block of an entry."""
    ((language, code),) = re.findall(r"^```(\w+)\n(.*?)^```$", entry.text, re.M | re.S)
    return language, code


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_one_fix_of_few_lines(name):
    _, code = fix_of(ENTRIES[name])
    assert len([line for line in code.splitlines() if line.strip()]) <= 3


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in ELSEWHERE])
def test_an_entry_has_a_test_with_the_lines_of_its_fix(name):
    _, code = fix_of(ENTRIES[name])
    lines_of_test = lines_of(inspect.getsource(TESTS[name]))
    fix = ast.unparse(ast.parse(code)).splitlines()
    missing = {line.strip() for line in fix} - lines_of_test - {"", "import tf_lso"}
    assert not missing


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_entry_without_a_test_here_has_one_elsewhere(name):
    assert name in ENTRIES
    path, test = ELSEWHERE[name].split("::")
    assert f"def {test}(" in (ROOT / "tests" / path).read_text("utf-8")


def test_the_names_in_messages_are_those_of_entries():
    names = set()
    for file in (ROOT / "tf_lso").rglob("*.py"):
        names.update(re.findall(r"`tf-lso help ([\w-]+)`", file.read_text("utf-8")))
    assert len(names) > 9
    assert names <= ENTRIES.keys()
