"""What the tables say of today's TensorFlow is what the installed one does."""

import importlib

import pytest
import tensorflow as tf

from tf_lso import names
from tf_lso.check.findings import BREAKS
from tf_lso.programs import lookup

NAMES = [
    (module, name)
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    for name, use in {**names.NAMESPACES, **names.PRIVATE}.get(namespace, {}).items()
    if not use.versions.startswith("2.16")
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
    expected = lookup.of_path(f"{module}.{name}", lookup.FROM).error
    assert error_of(f"from {module} import {name}") == expected


@pytest.mark.parametrize("module", lookup.MODULES)
def test_importing_a_module(module):
    verdict = lookup.of_path(module, lookup.IMPORT)
    assert error_of(f"import {module}") == (verdict.error if verdict else "")
    parent, _, name = module.rpartition(".")
    verdict = lookup.of_path(module, lookup.FROM)
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
    verdict = lookup.of_path(path)
    assert error_of(f"import {top}; {path}") == verdict.error
    assert lookup.there_today(path) == (not verdict.error)


def test_what_breaks_without_an_error_says_what_it_does():
    for module, name in NAMES:
        verdict = lookup.of_path(f"{module}.{name}")
        if verdict.status == BREAKS and not verdict.error:
            assert verdict.today and not verdict.today.startswith("AttributeError")
