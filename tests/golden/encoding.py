"""What attributes and calls give, in the form of `behaviour.json.gz`."""

import tensorflow as tf

import tf_lso
from tests import families
from tests.golden import extract_behaviour, replays


def encode(value):
    """Return `value` as the record has it."""
    if isinstance(families.raw(value), (tf.Variable, tf.Tensor)):
        return replays.encode(families.raw(value))
    if isinstance(value, list) and not callable(value):
        return [encode(element) for element in value]
    if isinstance(value, tf_lso.LossScale) or _is_optimizer(value):
        return extract_behaviour.plain(
            {"py": type(value).__name__, "repr": repr(value)}
        )
    return "<callable>" if callable(value) else replays.encode(value)


def _is_optimizer(value):
    bases = tuple(family.Optimizer for family in families.FAMILIES.values())
    return isinstance(value, bases)


def attempt(function):
    """What the call gave, as the record has it."""
    return replays.attempt(lambda: encode(function()))
