"""What attributes and calls give, in the form of `behaviour.json.gz`."""

import re

import tensorflow as tf

import tf_lso
from tests import families
from tests.golden import replays


def encode(value):
    """Return `value` as the record has it."""
    if isinstance(families.raw(value), (tf.Variable, tf.Tensor)):
        return replays.encode(families.raw(value))
    if isinstance(value, list) and not callable(value):
        return [encode(element) for element in value]
    if isinstance(value, tf_lso.LossScale) or _is_optimizer(value):
        return plain({"py": type(value).__name__, "repr": repr(value)})
    return "<callable>" if callable(value) else replays.encode(value)


def _is_optimizer(value):
    bases = tuple(family.Optimizer for family in families.FAMILIES.values())
    return isinstance(value, bases)


def attempt(function):
    """What the call gave, as the record has it."""
    return replays.attempt(lambda: encode(function()))


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


def public(names):
    """The result of `dir` without private names."""
    return {"ok": [name for name in names["ok"] if not name.startswith("_")]}
