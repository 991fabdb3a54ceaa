"""Where `check` reports that a name is gone, the installed TensorFlow does not have it."""

import collections
import importlib
import json
import pathlib
import re

import pytest
import tensorflow as tf

from tests.generation import HAS_KERAS3, HAS_TF_KERAS
from tests.migrate.programs import run, write
from tf_lso import names

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(not HAS_KERAS3, reason="the tables are about Keras 3"),
]

OLD_MODULES = {
    module: namespace
    for module, namespace in names.MODULES.items()
    if HAS_TF_KERAS or not module.startswith("tf_keras")
}


def statements():
    """Yield statements that import each old module and name, or get a name as an attribute."""
    for module, namespace in OLD_MODULES.items():
        parent, _, last = module.rpartition(".")
        yield f"import {module}"
        yield f"from {parent} import {last}"
        is_attribute = module.startswith(("tensorflow.", "keras.mixed"))
        is_private = ".python." in module
        for name, use in names.mirror_names(namespace).items():
            if use.versions.startswith("2.16"):
                continue  # the name is new in Keras 3
            yield f"from {module} import {name}"
            if is_attribute and not is_private:
                yield f"import {module.partition('.')[0]}; {module}.{name}"


def raises_missing_name(statement):
    """Return whether the statement raises the error of a missing name."""
    try:
        exec(statement, {"tf": tf})
    except (ImportError, AttributeError):
        return True
    return False


STATEMENTS = sorted(set(statements()))
# The imports of old names, which `check` must find whatever it says about them.
IMPORTS = [
    f"from {module} import {name}"
    for module, namespace in OLD_MODULES.items()
    for name, use in names.mirror_names(namespace).items()
    if not use.versions.startswith("2.16")
]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Run `check` once on all statements. Return a dict from statements to lists of findings.

    Each statement is a file whose name is the index of the statement in `STATEMENTS`.
    """
    folder = tmp_path_factory.mktemp("programs")
    for number, statement in enumerate(STATEMENTS):
        write(folder / f"{number}.py", f"{statement}\n")
    _, printed = run("check", "--verbose", "--format", "json", folder)
    findings = collections.defaultdict(list)
    for finding in json.loads(printed)["findings"]:
        number = int(pathlib.Path(finding["file"]).stem)
        findings[STATEMENTS[number]].append(finding)
    return findings


# Matches the explanations of names that are gone.
GONE = re.compile("later have no |tf_keras has no |as an attribute only")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_fails_if_and_only_if_a_name_in_it_is_reported_as_gone(
    statement, findings
):
    importlib.import_module("keras")  # makes `keras` an attribute of TensorFlow
    gone = [f for f in findings[statement] if GONE.search(f["today"])]
    assert bool(gone) == raises_missing_name(statement)
    assert all(finding["status"] == "breaks" for finding in gone)
    assert all(finding["today"] for finding in findings[statement])


def test_each_import_of_an_old_name_is_found(findings):
    assert [statement for statement in IMPORTS if not findings[statement]] == []
