"""Slots of a user's own optimizer class may have the same names as slots of Keras classes.

For example, LARS, LAMB and averaging classes have slots such as `momentum` or `vhat`. In Keras
classes, such a slot depends on an argument, such as `momentum=0.9` or `amsgrad=True`.
tf_lso must not draw this conclusion for a user's own class.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import assert_equal, model_of, trained
from tests.families import CHECKPOINTED, FAMILIES, KERASES, keras2, numpy

SLOTS = [("momentum",), ("m", "v", "vhat"), ("average", "mg")]
SLOW_BUT_ONE = [SLOTS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SLOTS[1:])]


def slots_of(opt):
    """Return the slots and the step counter of an optimizer as a sorted list of arrays."""
    inner = getattr(opt, "inner_optimizer", opt)
    variables = inner.variables
    variables = variables() if callable(variables) else variables
    return sorted((np.array(numpy(v)) for v in variables), key=lambda a: a.tobytes())


@pytest.mark.parametrize(
    "installs", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("built", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("family", CHECKPOINTED)
def test_tensorflow_restores_what_the_program_saved(
    family, slots, built, installs, tmp_path
):
    def made():
        return tf_lso.LossScaleOptimizer(users.WITH_SLOTS[family](slots))

    with tf_lso.install() if installs else contextlib.nullcontext():
        opt, of = made(), KERASES[family]
        model = trained(of, opt)
        path = helpers.saved(model, opt, "checkpoint", tmp_path)
        new, other = model_of(of), made()
        if built:
            other.build(new.trainable_variables)
        saved = tf.train.Checkpoint(model=new, optimizer=other)
        status = saved.restore(path)
        other.build(new.trainable_variables)
        status.assert_existing_objects_matched()
    assert int(numpy(other.iterations)) == 3
    assert_equal(slots_of(other), slots_of(opt))


@pytest.mark.core
@pytest.mark.parametrize("family", CHECKPOINTED)
def test_what_was_restored_before_the_first_step_is_saved_again(family, tmp_path):
    """In the legacy family, this class has no hyperparameter `learning_rate`."""

    def made():
        return tf_lso.LossScaleOptimizer(users.WITH_SLOTS[family](("momentum",)))

    opt, of = made(), KERASES[family]
    model = trained(of, opt)
    path = helpers.saved(model, opt, "checkpoint", tmp_path)
    new, other = model_of(of), made()
    saved = tf.train.Checkpoint(model=new, optimizer=other)
    saved.restore(path)
    again = saved.save(str(tmp_path / "again"))
    model, third = model_of(of), made()
    tf.train.Checkpoint(model=model, optimizer=third).restore(again)
    assert int(numpy(third.iterations)) == 3


@pytest.mark.parametrize("installs", [True, False])
@pytest.mark.parametrize("built", [True, False])
def test_a_subclass_of_a_known_class_has_slots_of_its_own(built, installs, tmp_path):
    def made():
        return tf_lso.LossScaleOptimizer(users.AveragingSGD(0.01))

    with tf_lso.install() if installs else contextlib.nullcontext():
        opt = made()
        model = trained(keras2, opt)
        path = helpers.saved(model, opt, "checkpoint", tmp_path)
        new, other = model_of(keras2), made()
        if built:
            other.build(new.trainable_variables)
        tf.train.Checkpoint(model=new, optimizer=other).restore(path)
        other.build(new.trainable_variables)
    assert_equal(slots_of(other), slots_of(opt))
    again, third = model_of(keras2), made()
    helpers.restored(path, again, third)
    assert_equal(slots_of(third), slots_of(opt))


@pytest.mark.parametrize("wraps", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("format_", ["checkpoint", "keras", "weights.h5", "h5"])
@pytest.mark.parametrize("slots", SLOW_BUT_ONE)
@pytest.mark.parametrize("family", FAMILIES)
def test_restore_restores_it_whole(family, slots, format_, wraps, tmp_path, request):
    helpers.expect_limits(request, family, format_, wraps)
    if (family, wraps) == ("legacy", False) and format_ in ("keras", "weights.h5"):
        pytest.skip("Keras 2 saves no state of legacy optimizers there")

    def made():
        opt = users.WITH_SLOTS[family](slots)
        return tf_lso.LossScaleOptimizer(opt) if wraps else opt

    of, opt = KERASES[family], made()
    model = trained(of, opt)
    with tf_lso.install():
        path = helpers.saved(model, opt, format_, tmp_path)
    new, other = model_of(of), made()
    helpers.restored(path, new, other)
    assert_equal(new.get_weights(), model.get_weights())
    assert_equal(slots_of(other), slots_of(opt))


@pytest.mark.parametrize("slots", [("momentum",), ("pace",)])
def test_a_hyperparameter_says_nothing_of_slots(slots, tmp_path):
    made = users.WITH_SLOTS["legacy"]
    old = made(slots, momentum=0.5)
    path = helpers.saved(trained(keras2, old), old, "checkpoint", tmp_path)
    new = made(slots)
    helpers.restored(path, model_of(keras2), new)
    assert float(numpy(new.momentum)) == 0.5
    assert_equal(slots_of(new), slots_of(old))


def test_a_class_with_other_slots_is_refused_without_invented_arguments(tmp_path):
    made = users.WITH_SLOTS["legacy"]
    old = made(("momentum", "vhat"))
    path = helpers.saved(trained(keras2, old), old, "checkpoint", tmp_path)
    new = made(("momentum",))
    with pytest.raises(tf_lso.checkpoints.CheckpointError) as caught:
        tf_lso.checkpoints.restore(path, model=model_of(keras2), optimizer=new)
    assert "has no variable for it" in str(caught.value)
    assert "amsgrad" not in str(caught.value)
