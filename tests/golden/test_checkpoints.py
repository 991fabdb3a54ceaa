"""Replay checkpoints of optimizers with and without a wrapper, and some other programs."""

import tempfile

import pytest
import tensorflow as tf

from tests.families import FAMILIES, keras, numpy
from tests.golden import harness
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import NAN, encode
from tests.golden.harness import inner_optimizer, wrap

# `tf.train.Checkpoint` does not accept optimizers of Keras 3.0, which are not trackable.
_IS_TRACKABLE = isinstance(keras.optimizers.SGD(), tf.__internal__.tracking.Trackable)


def _applies(case, family):
    return _IS_TRACKABLE or family != "keras3" or "restore" not in case["case"]


def _wrap(api, family, scale=8.0):
    return wrap(api, inner_optimizer(family), scale=scale, growth=3)


def _steps(optimizer, variable, gradients):
    for gradient in gradients:
        harness.apply(optimizer, gradient, variable)


def _state(optimizer, variable):
    return {"vars": [float(variable)], **harness.counts(optimizer)}


def _with_slots(optimizer, variable):
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    is_legacy = isinstance(inner, FAMILIES["legacy"].Optimizer)
    slots = [inner.get_slot(variable, "momentum")] if is_legacy else inner.momentums
    values = [float(numpy(slot)) for slot in slots]
    return {**_state(optimizer, variable), "slots": values}


def _checkpoint(optimizer, variable):
    return tf.train.Checkpoint(optimizer=optimizer, v=variable)


def _save(optimizer, variable):
    """Save a checkpoint, and return its path."""
    return _checkpoint(optimizer, variable).save(f"{tempfile.mkdtemp()}/c")


def _passes(check):
    try:
        check()
    except AssertionError:
        return False
    return True


def _restore_before_slots_exist(api, family):
    """Restore a checkpoint into an optimizer whose first step has not yet made the slots."""
    first, variable = _wrap(api, family), tf.Variable(1.0, name="Variable")
    _steps(first, variable, (1.0, 1.0, NAN, 1.0, 1.0))
    path, saved = _save(first, variable), _with_slots(first, variable)
    second, restored = _wrap(api, family, 64.0), tf.Variable(7.0, name="Variable")
    status = _checkpoint(second, restored).restore(path)
    right_after_restore = {"v": float(restored), **harness.counts(second)}
    _steps(first, variable, (1.0,))
    _steps(second, restored, (1.0,))
    status.assert_consumed()
    is_equal = _with_slots(first, variable) == _with_slots(second, restored)
    return {
        "saved": saved,
        "right_after_restore": right_after_restore,
        "one_step_later_equal": is_equal,
        "assert_consumed": {"ok": None},
    }


def _restore(first, second):
    """Save a checkpoint of `first`, restore it into `second`, and take a step."""
    variable = tf.Variable(1.0, name="Variable")
    restored = tf.Variable(7.0, name="Variable")
    _steps(first, variable, (1.0, 1.0))
    status = _checkpoint(second, restored).restore(_save(first, variable))
    _steps(second, restored, (1.0,))
    matched = _passes(status.assert_existing_objects_matched)
    if not matched and hasattr(second, "inner_optimizer"):
        matched = "AssertionError"  # here the record has the name of the error
    return {
        "assert_consumed": _passes(status.assert_consumed),
        "assert_existing_objects_matched": matched,
        "state": _with_slots(second, restored),
    }


def _read_in_function(api, family):
    optimizer = wrap(api, FAMILIES[family].SGD(0.1))
    variable, trace = tf.Variable(1.0), []

    @tf.function
    def step(gradient):
        before = tf.convert_to_tensor(optimizer.loss_scale)
        optimizer.apply_gradients([(gradient, variable)])
        after = tf.convert_to_tensor(optimizer.loss_scale)
        trace.extend(encode([before, after]))
        return before, after

    rows = [
        [float(value) for value in step(tf.constant(gradient))]
        for gradient in (1.0, 1.0, NAN, 1.0)
    ]
    # The function may be traced twice. The record has only the first trace.
    return {"before_after_each_call": rows, "trace": trace[:2]}


def _old_override(api, family):
    """Wrap an optimizer whose `apply_gradients` lacks the keyword for the aggregation."""

    class Old(FAMILIES[family].SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars)

    optimizer, variable = wrap(api, Old(0.1)), tf.Variable(1.0)
    _steps(optimizer, variable, (1.0,))
    return _state(optimizer, variable)


_LACKS = "inner_whose_apply_gradients_lacks_aggregate_kwarg"

_CASES = {
    "deferred_restore_before_slots_exist": _restore_before_slots_exist,
    "restore_plain_checkpoint_into_lso": lambda api, family: _restore(
        inner_optimizer(family), _wrap(api, family, 64.0)
    ),
    "restore_lso_checkpoint_into_plain": lambda api, family: _restore(
        _wrap(api, family, 64.0), inner_optimizer(family)
    ),
    "loss_scale_read_inside_tf_function": _read_in_function,
    _LACKS: _old_override,
}


def replay(api, family, case):
    return _CASES[case["case"]](api, family)


SECTION = Section(
    "training",
    "extras",
    replay,
    applies=_applies,
    differs=[
        # An inner optimizer whose own `apply_gradients` lacks keywords.
        where(
            case=_LACKS, on="keras3", like={"version": "2.1.4", "api": "experimental"}
        ),
    ],
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
