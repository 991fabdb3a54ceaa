"""Values in the form of the record, and how two of them are compared."""

import re

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families

NAN, INF = float("nan"), float("inf")

EXACT = {"rtol": 0, "atol": 0}
# Between kernels: a few units in the last place of float32 over 25 steps.
TOLERANCE = {"rtol": 1e-6, "atol": 1e-7}
# Stands in an expected result for any value.
ANYTHING = "ANYTHING"


def encode(value):
    """Return `value` as the record has it, without the Python types of tensors."""
    value = families.raw(value)
    if isinstance(value, tf.IndexedSlices):
        parts = ("dense_shape", "indices", "values")
        return {"IndexedSlices": {part: encode(getattr(value, part)) for part in parts}}
    if isinstance(value, tf.Operation):
        return {"Operation": value.type}
    if tf.is_tensor(value) and not hasattr(value, "numpy"):
        shape = value.shape.as_list()
        return {"dtype": value.dtype.name, "shape": shape, "symbolic": True}
    if isinstance(value, (tf.Tensor, tf.Variable)):
        array = value.numpy()
        if value.dtype == tf.bfloat16:
            array = array.astype(np.float32)  # as the record has it
        content = {"shape": list(array.shape), "v": array.tolist()}
        return {"dtype": array.dtype.name, **content}
    if isinstance(value, tuple):
        return {"tuple": [encode(element) for element in value]}
    if isinstance(value, list) and not callable(value):
        return [encode(element) for element in value]
    optimizers = (family.Optimizer for family in families.FAMILIES.values())
    if isinstance(value, (tf_lso.LossScale, *optimizers)):
        return instance(value)
    return "<callable>" if callable(value) else value


def instance(value):
    """An object that is no number, as the record has it."""
    return plain({"py": type(value).__name__, "repr": repr(value)})


class Outcome(dict):
    """{"ok": encoded result}, or {"error": type of the exception, "message": text}."""


def attempt(function):
    """The `Outcome` of a call, which may be one that the call returns."""
    try:
        value = function()
        return value if isinstance(value, Outcome) else Outcome(ok=encode(value))
    except Exception as error:
        return Outcome(error=type(error).__name__, message=str(error))


def plain(value):
    """Return a copy of `value` in whose texts classes have no module, objects no address.

    Callables are told apart from other values only, not from each other.
    """
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    if not isinstance(value, str):
        return value
    text = re.sub(r"<callable \w+>", "<callable>", value)
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDR", text)
    return re.sub(r"<(class ')?[^ ']*\.(?=\w+('>| object at))", r"<\1", text)


def decode(value):
    """Return a recorded value as `encode` gives it: floats, no types of tensors.

    The names of a case stay: a replay may know a number by its text.
    """
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "t"}
        return {k: v if k == "case" else decode(v) for k, v in kept.items()}
    if isinstance(value, list):
        return [decode(element) for element in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def without(value, *names):
    """Return an encoded value without the entries of these names, at any depth."""
    if isinstance(value, dict):
        return {k: without(v, *names) for k, v in value.items() if k not in names}
    if isinstance(value, list):
        return [without(element, *names) for element in value]
    return value


def equal(actual, expected, tolerance=EXACT):
    """Whether two encoded values are the same, floats within `tolerance`.

    NaN equals NaN. Texts of errors are left out: `messages` compares what they speak of.
    """
    if expected == ANYTHING:
        return True
    if isinstance(actual, dict) and isinstance(expected, dict):
        keys = (actual.keys() | expected.keys()) - {"message"}
        return keys <= actual.keys() & expected.keys() and all(
            equal(actual[key], expected[key], tolerance) for key in keys
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(
            equal(a, e, tolerance) for a, e in zip(actual, expected)
        )
    if isinstance(actual, float) and isinstance(expected, float):
        return np.isclose(actual, expected, equal_nan=True, **tolerance)
    return actual == expected
