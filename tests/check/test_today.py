"""What the tables say of the installed TensorFlow is what it does."""

import importlib

import pytest
import tensorflow as tf

from tests.generation import HAS_TF_KERAS
from tf_lso import names
from tf_lso.commands.check import installed
from tf_lso.names.targets import TODAY
from tf_lso.source import lookup
from tf_lso.source.lookup import BREAKS

pytestmark = pytest.mark.core

TARGET = installed() or TODAY
MODULES = [m for m in lookup.MODULES if HAS_TF_KERAS or not lookup.in_tf_keras(m)]
NAMES = [
    (module, name)
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    if HAS_TF_KERAS or not lookup.in_tf_keras(module)
    for name, use in names.mirror_names(namespace).items()
    if TARGET.keras_2 or not use.versions.startswith("2.16")
]


def error_of(statement):
    """Returns the name of the exception that the statement raises, or ""."""
    try:
        exec(statement, {"tf": tf})
    except (ImportError, AttributeError) as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("module, name", NAMES)
def test_importing_a_name(module, name):
    expected = lookup.of_path(f"{module}.{name}", lookup.FROM, TARGET).error
    assert error_of(f"from {module} import {name}") == expected


@pytest.mark.parametrize("module", MODULES)
def test_importing_a_module(module):
    verdict = lookup.of_path(module, lookup.IMPORT, TARGET)
    assert error_of(f"import {module}") == (verdict.error if verdict else "")
    parent, _, name = module.rpartition(".")
    verdict = lookup.of_path(module, lookup.FROM, TARGET)
    found = error_of(f"from {parent} import {name}")
    assert found == (verdict.error if verdict else "")


PUBLIC = [pair for pair in NAMES if pair[0].startswith(("tensorflow.", "keras.mixed"))]


@pytest.mark.parametrize(
    "module, name", [pair for pair in PUBLIC if ".python." not in pair[0]]
)
def test_reaching_a_name_as_an_attribute(module, name):
    importlib.import_module("keras")
    path = f"{module}.{name}"
    top = module.partition(".")[0]
    verdict = lookup.of_path(path, target=TARGET)
    assert error_of(f"import {top}; {path}") == verdict.error
    assert lookup.is_there(path, TARGET) == (not verdict.error)


def test_what_breaks_without_an_error_says_what_it_does():
    for module, name in NAMES:
        verdict = lookup.of_path(f"{module}.{name}", target=TARGET)
        if verdict.status == BREAKS and not verdict.error:
            assert verdict.today and not verdict.today.startswith("AttributeError")


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
