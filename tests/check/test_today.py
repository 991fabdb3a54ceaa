"""What `check` says of the installed TensorFlow is what it does."""

import collections
import importlib
import json
import pathlib
import re

import pytest
import tensorflow as tf

from tests.generation import HAS_TF_KERAS
from tests.source.programs import run, write
from tf_lso import names
from tf_lso.commands.check import installed
from tf_lso.names.targets import NEWEST, TARGETS, TODAY

pytestmark = pytest.mark.core

TARGET = installed() or TODAY
MODULES = {
    module: [
        name
        for name, use in names.mirror_names(namespace).items()
        if TARGET.keras_2 or not use.versions.startswith("2.16")
    ]
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    if HAS_TF_KERAS or not module.startswith("tf_keras")
}


def statements():
    """Imports of every module and name, and the names as attributes."""
    for module, found in MODULES.items():
        parent, _, last = module.rpartition(".")
        yield f"import {module}"
        yield f"from {parent} import {last}"
        for name in found:
            yield f"from {module} import {name}"
            public = module.startswith(("tensorflow.", "keras.mixed"))
            if public and ".python." not in module:
                yield f"import {module.partition('.')[0]}; {module}.{name}"


def error_of(statement):
    """Returns the name of the exception that the statement raises, or ""."""
    try:
        exec(statement, {"tf": tf})
    except (ImportError, AttributeError) as error:
        return type(error).__name__
    return ""


STATEMENTS = sorted(set(statements()))


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """What one run says of the statements, each a file by its number."""
    folder = tmp_path_factory.mktemp("programs")
    for number, statement in enumerate(STATEMENTS):
        write(folder / f"{number}.py", f"{statement}\n")
    found = json.loads(run("check", "--format", "json", folder)[1])["findings"]
    by_statement = collections.defaultdict(list)
    for one in found:
        by_statement[STATEMENTS[int(pathlib.Path(one["file"]).stem)]].append(one)
    return by_statement


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_fails_as_it_is_told(statement, findings):
    importlib.import_module("keras")  # which makes it an attribute of tensorflow
    found = findings[statement]
    # LSO109 is about the package, and not about the name.
    about = [one for one in found if one["rule"] != "LSO109"]
    errors = [re.match(r"(\w+Error): |", one["today"])[1] or "" for one in about]
    assert (errors or [""]) == [error_of(statement)]
    assert all(one["today"] for one in found)


def test_the_installed_target_is_found():
    # None for a version that is newer than the tested ones.
    assert installed() is TARGETS.get(".".join(tf.__version__.split(".")[:2]))


def test_the_newest_target_is_the_last_of_those_with_keras_3():
    assert NEWEST is TARGETS["2.21"]
    assert NEWEST.modules == TODAY.modules


@pytest.mark.skipif(not TARGET.keras_2, reason="the table is about Keras 2")
@pytest.mark.parametrize(
    "module", ["tf.keras.optimizers", "tf.keras.optimizers.legacy"]
)
def test_what_the_wrapped_optimizers_of_keras_2_have(module):
    legacy = module.endswith(".legacy")
    optimizers = tf.keras.optimizers
    inner = (optimizers.legacy if legacy else optimizers).Adam()
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(inner)
    if not legacy:
        optimizer.build([tf.Variable(1.0)])
    has = {name for name in names.METHODS if hasattr(optimizer, name)}
    assert has == {n for n, method in names.METHODS.items() if method.lacking != module}
    assert not callable(optimizer.loss_scale)
