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

MODULES = {
    module: [
        name
        for name, use in names.mirror_names(namespace).items()
        if not use.versions.startswith("2.16")
    ]
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    if HAS_TF_KERAS or not module.startswith("tf_keras")
}


def statements():
    """Yield statements that import each old module and name, or get a name as an attribute."""
    for module, found in MODULES.items():
        parent, _, last = module.rpartition(".")
        yield f"import {module}"
        yield f"from {parent} import {last}"
        for name in found:
            yield f"from {module} import {name}"
            public = module.startswith(("tensorflow.", "keras.mixed"))
            if public and ".python." not in module:
                yield f"import {module.partition('.')[0]}; {module}.{name}"


def fails(statement):
    """Return whether the statement raises the error of a missing name."""
    try:
        exec(statement, {"tf": tf})
    except (ImportError, AttributeError):
        return True
    return False


STATEMENTS = sorted(set(statements()))


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Run `check` once on all statements. Return a dict from statements to lists of findings.

    Each statement is a file whose name is the index of the statement in `STATEMENTS`.
    """
    folder = tmp_path_factory.mktemp("programs")
    for number, statement in enumerate(STATEMENTS):
        write(folder / f"{number}.py", f"{statement}\n")
    report = run("check", "--verbose", "--format", "json", folder)[1]
    found = json.loads(report)["findings"]
    by_statement = collections.defaultdict(list)
    for one in found:
        by_statement[STATEMENTS[int(pathlib.Path(one["file"]).stem)]].append(one)
    return by_statement


GONE = re.compile("later have no |tf_keras has no |as an attribute only")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_fails_where_the_report_says_that_a_name_is_gone(
    statement, findings
):
    importlib.import_module("keras")  # makes `keras` an attribute of TensorFlow
    found = findings[statement]
    gone = [one for one in found if GONE.search(one["today"])]
    assert bool(gone) == fails(statement)
    assert all(one["status"] == "breaks" for one in gone)
    assert all(one["today"] for one in found)
