"""Encode values in the form of the record, and compare two encoded values.

A tensor becomes {"dtype": ..., "shape": ..., "v": values as lists}. Objects of tf_lso and
optimizers become their type and `repr`.
"""

import re

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families

NAN, INF = float("nan"), float("inf")

EXACT = {"rtol": 0, "atol": 0}
# Results of different kernels differ by a few units in the last place of float32 over 25 steps.
TOLERANCE = {"rtol": 1e-6, "atol": 1e-7}
# In an expected result, this text is equal to any value.
ANYTHING = "ANYTHING"


def encode(value):
    """Return a value in the form of the record."""
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
            array = array.astype(np.float32)  # the record has float32
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
    """Return the type and `repr` of an object in the form of the record."""
    return normalized({"py": type(value).__name__, "repr": repr(value)})


class Outcome(dict):
    """A dict {"ok": encoded result}, or {"error": class of the error, "message": text}."""


def attempt(function):
    """Return the `Outcome` of a call. If the call itself returns an `Outcome`, return that."""
    try:
        value = function()
        return value if isinstance(value, Outcome) else Outcome(ok=encode(value))
    except Exception as error:
        return Outcome(error=type(error).__name__, message=str(error))


def normalized(value):
    """Return a copy of an encoded value whose texts do not depend on the process or version.

    Texts such as `repr` lose the modules of classes, the addresses of objects, and the types of
    callables.
    """
    if isinstance(value, dict):
        return {k: normalized(v) for k, v in value.items()}
    if isinstance(value, list):
        return [normalized(element) for element in value]
    if not isinstance(value, str):
        return value
    text = re.sub(r"<callable \w+>", "<callable>", value)
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDR", text)
    return re.sub(r"<(class ')?[^ ']*\.(?=\w+('>| object at))", r"<\1", text)


def decode(value):
    """Return a value from a recorded file in the form that `encode` returns.

    The texts "nan", "inf" and "-inf" become floats. The Python types of tensors, which differ
    between versions, are dropped. The names of a case stay texts, since replays evaluate some.
    """
    if isinstance(value, dict):
        return {
            key: content if key == "case" else decode(content)
            for key, content in value.items()
            if key != "t"
        }
    if isinstance(value, list):
        return [decode(element) for element in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def without(value, *names):
    """Return an encoded value without the dict entries of these names, at any depth."""
    if isinstance(value, dict):
        return {k: without(v, *names) for k, v in value.items() if k not in names}
    if isinstance(value, list):
        return [without(element, *names) for element in value]
    return value


def equal(actual, expected, tolerance=EXACT):
    """Return whether two encoded values are equal, with floats equal within `tolerance`.

    NaN equals NaN. Not compared are the messages of errors, and the numbers in the names of old
    classes, such as `LossScaleOptimizerV3`.
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
            equal(*pair, tolerance) for pair in zip(actual, expected)
        )
    if isinstance(actual, float) and isinstance(expected, float):
        return np.isclose(actual, expected, equal_nan=True, **tolerance)
    if isinstance(actual, str) and isinstance(expected, str):
        return _without_number(actual) == _without_number(expected)
    return actual == expected


def _without_number(text):
    return re.sub(r"\b(LossScaleOptimizer|Policy)V\d", r"\1", text)
