"""`restore` restores the complete state of an optimizer of any class, or raises an error."""

import functools
import re

import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts, helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import (
    assert_equal,
    assert_refused,
    make_model,
    state_of,
    trained_model,
)
from tests.families import (
    CHECKPOINTED,
    FAMILIES,
    KERASES,
    keras,
    needs_keras3,
    numpy,
    wrapped,
)
from tests.generation import HAS_KERAS3, NO_CHECKPOINT
from tf_lso import checkpoints

# Optimizers whose slots no table of tf_lso contains. Maps a name to a function that makes one.
WITHOUT_TABLE = {
    "Muon": lambda: keras.optimizers.Muon(0.01),
    "ScheduleFreeAdamW": lambda: keras.optimizers.ScheduleFreeAdamW(0.01),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "accumulating": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    **{
        family: functools.partial(make, ("momentum", "trace"))
        for family, make in users.WITH_SLOTS.items()
    },
}


@pytest.mark.parametrize("format_", ["checkpoint", "keras", "weights.h5", "h5"])
@pytest.mark.parametrize("name", WITHOUT_TABLE)
def test_an_optimizer_that_no_table_contains_is_restored(
    name, format_, tmp_path, request
):
    if (name, format_) == ("Adafactor", "h5"):
        pytest.skip(
            "Keras cannot save this file, since two variables have the same name"
        )
    keras_module = KERASES["keras2"] if name in ("new", "legacy") else keras
    is_keras_class = name in ("Muon", "ScheduleFreeAdamW", "Adafactor")
    is_lacking = is_keras_class and not hasattr(keras_module.optimizers, name)
    if is_lacking or (name == "accumulating" and not HAS_KERAS3):
        pytest.skip("this Keras has no such optimizer")
    family = "keras3" if keras_module is keras and HAS_KERAS3 else name
    helpers.expect_limits(request, family, format_)
    old = tf_lso.LossScaleOptimizer(WITHOUT_TABLE[name]())
    old_model = trained_model(keras_module, old)
    with tf_lso.install():
        path = helpers.save(old_model, old, format_, tmp_path)
    model = make_model(keras_module)
    opt = tf_lso.LossScaleOptimizer(WITHOUT_TABLE[name]())
    if (name, format_, HAS_KERAS3) == ("Adafactor", "checkpoint", False):
        # Adafactor of Keras 2 has placeholders in its lists of slots. `restore` refuses them.
        with pytest.raises(checkpoints.CheckpointError, match="has no variable for it"):
            checkpoints.restore(path, model=model, optimizer=opt)
        return
    helpers.restore_completely(path, model, opt)
    assert_equal(state_of(model, opt), state_of(old_model, old))
    assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) > 0


# Rows of (class, arguments that add slots to the class, remedy in the error message).
SLOT_ARGUMENTS = [
    ("SGD", {"momentum": 0.8}, "SGD(0.5, momentum=0.8)"),
    ("RMSprop", {"momentum": 0.9}, "RMSprop(0.5, momentum=0.9)"),
    ("RMSprop", {"centered": True}, "RMSprop(0.5, centered=True)"),
    ("Adam", {"amsgrad": True}, "Adam(0.5, amsgrad=True)"),
    ("Adam", {"use_ema": True}, "Adam(0.5, use_ema=True)"),
]


def saved_checkpoint(family, name, folder, **arguments):
    old = wrapped(family, name, 0.5, **arguments)
    model = trained_model(KERASES[family], old)
    return helpers.save(model, old, "checkpoint", folder)


def source_for(name, arguments, target):
    """Return the family of which a checkpoint is saved, or skip the test."""
    if (name, target) == ("SGD", "new"):
        pytest.skip("the newer SGD of Keras 2 always has the slot")
    if "use_ema" not in arguments:
        return "legacy"
    if target == "legacy":
        pytest.skip("OptimizerV2 has no averages")
    return "new"


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize(("name", "arguments", "remedy"), SLOT_ARGUMENTS)
def test_a_file_with_more_or_fewer_slots_is_refused_with_the_right_arguments(
    name, arguments, remedy, target, tmp_path
):
    source, model = source_for(name, arguments, target), make_model(KERASES[target])
    more = saved_checkpoint(source, name, tmp_path / "more", **arguments)
    assert_refused(more, model, wrapped(target, name, 0.1), re.escape(remedy))
    fewer, opt = (
        saved_checkpoint(source, name, tmp_path / "fewer"),
        wrapped(target, name, 0.1, **arguments),
    )
    assert_refused(fewer, model, opt, re.escape(f"{name}(0.5)"))


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_adam_refuses_the_checkpoint_of_an_adadelta_that_the_user_named(
    family, tmp_path
):
    """If the user named the optimizer, the names of its variables do not show its class."""
    keras_module = KERASES[family]
    old = FAMILIES[family].Adadelta(0.01, name="own")
    if family == "legacy":
        old = tf_lso.LossScaleOptimizer(old)
    path = helpers.save(trained_model(keras_module, old), old, "checkpoint", tmp_path)
    new = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    # tf_lso writes the class into the file.
    match = "of the class Adadelta" if family == "legacy" else "has no variable for it"
    assert_refused(path, make_model(keras_module), new, match)


@needs_keras3
@NO_CHECKPOINT
def test_slots_follow_their_variables_into_an_optimizer_built_in_another_order(
    tmp_path,
):
    old = keras.optimizers.Adafactor(0.01)
    path = helpers.save(trained_model(keras, old), old, "checkpoint", tmp_path)
    model, opt = make_model(keras), keras.optimizers.Adafactor(0.01)
    opt.build(model.trainable_variables[::-1])
    helpers.restore_completely(path, model, opt)
    assert_equal(opt._v[::-1], old._v)


@needs_keras3
@NO_CHECKPOINT
def test_another_order_is_refused_for_a_class_that_no_table_contains(tmp_path):
    if not hasattr(keras.optimizers, "Muon"):
        pytest.skip("this Keras has no such optimizer")
    old = keras.optimizers.Muon(0.01)
    path = helpers.save(trained_model(keras, old), old, "checkpoint", tmp_path)
    model, opt = make_model(keras), keras.optimizers.Muon(0.01)
    opt.build(model.trainable_variables[::-1])
    assert_refused(path, model, opt)


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_a_file_with_as_many_slots_of_another_argument_is_refused(family, tmp_path):
    path = saved_checkpoint(family, "RMSprop", tmp_path, centered=True)
    new = wrapped(family, "RMSprop", 0.5, momentum=0.9)
    assert_refused(path, make_model(KERASES[family]), new, r"Create .*centered=True\)")


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "legacy"])
def test_the_config_says_which_slots_a_file_without_names_has(family, tmp_path):
    old = FAMILIES[family].RMSprop(0.5, centered=True)
    path = helpers.save(trained_model(KERASES[family], old), old, "keras", tmp_path)
    new, model = (
        FAMILIES[family].RMSprop(0.1, momentum=0.9),
        make_model(KERASES[family]),
    )
    assert_refused(
        path,
        model,
        new,
        "centered=True in the file, but not in this optimizer",
        r"Create .*RMSprop\(0\.5, centered=True\)",
    )


def test_an_adam_restores_an_adamw_which_has_the_same_slots(tmp_path):
    old, new = FAMILIES["new"].AdamW(0.01), FAMILIES["new"].Adam(0.01)
    model, same = trained_model(KERASES["new"], old), make_model(KERASES["new"])
    path = helpers.save(model, old, "keras", tmp_path)
    helpers.restore_completely(path, same, new)
    assert_equal(state_of(same, new), state_of(model, old))


def test_a_newer_sgd_without_momentum_needs_no_slots(tmp_path):
    path = saved_checkpoint("legacy", "SGD", tmp_path)
    opt = wrapped("new", "SGD", 0.5)
    helpers.restore_completely(path, make_model(KERASES["new"]), opt)
    assert int(numpy(opt.iterations)) == 3


def test_a_newer_optimizer_with_a_schedule_is_restored(tmp_path):
    """tf_keras keeps the rate of the last step in a variable, which no file contains."""
    schedule = KERASES["new"].optimizers.schedules.ExponentialDecay(0.5, 2, 0.5)
    old, new = (FAMILIES["new"].Adam(schedule) for _ in range(2))
    model, same = trained_model(KERASES["new"], old), make_model(KERASES["new"])
    path = helpers.save(model, old, "checkpoint", tmp_path)
    helpers.restore_completely(path, same, new)
    assert_equal(state_of(same, new), state_of(model, old))


@pytest.mark.parametrize("format_", ["checkpoint", "keras"])
@pytest.mark.parametrize("target", FAMILIES)
def test_the_unused_slots_of_a_newer_sgd_without_momentum_are_left_out(
    target, format_, tmp_path
):
    """The newer SGD of Keras 2 has slots for the momentum even if it does not use them."""
    old = wrapped("new", "SGD", 0.5)
    old_model = trained_model(KERASES["keras2"], old)
    path = helpers.save(old_model, old, format_, tmp_path)
    model, opt = make_model(KERASES[target]), wrapped(target, "SGD", 0.5)
    # A checkpoint does not show whether the optimizer used the slots, so the user must decide.
    is_unclear = target != "new" and format_ == "checkpoint"
    if is_unclear:
        remedy = "If the saved optimizer had no momentum, skip them: tf_lso.checkpoints.restore"
        assert_refused(path, model, opt, remedy)
    checkpoints.restore(path, model=model, optimizer=opt, partial=is_unclear)
    assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) > 0
    assert_equal(model.get_weights(), old_model.get_weights())


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_restoring_with_tensorflow_is_refused_with_the_missing_argument(
    family, tmp_path
):
    """`tests/install/test_restoring.py` tests checkpoints of another family."""
    path = saved_checkpoint(family, "Adam", tmp_path, amsgrad=True)
    model, opt = make_model(KERASES[family]), wrapped(family, "Adam", 0.1)
    opt.build(model.trainable_variables)
    before = state_of(model, opt)
    with pytest.raises(ValueError, match="amsgrad=True"):
        tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
    assert_equal(state_of(model, opt), before)


@pytest.mark.parametrize("of", [name for name in FAMILIES if name != "legacy"])
def test_restoring_surplus_slots_of_a_bare_optimizer_is_refused(of, tmp_path):
    """Such a checkpoint has no manifest. TensorFlow itself would ignore the slots."""
    old, opt = FAMILIES[of].Adam(0.1, amsgrad=True), wrapped(of, "Adam", 0.1)
    x = tf.Variable(1.0)
    for optimizer in (old, opt):
        optimizer.build([x])
    path = tf.train.Checkpoint(optimizer=old).save(tmp_path / "c")
    with pytest.raises(ValueError, match=r"more variables .* amsgrad=True"):
        tf.train.Checkpoint(optimizer=opt).restore(path)


@pytest.mark.parametrize("ending", ["keras", "weights.h5"])
@needs_keras3
def test_a_file_with_a_fixed_scale_does_not_change_a_dynamic_scale(ending, tmp_path):
    """The file has a step counter and a rate, which must not pass for a counter and a scale."""
    old = tf_lso.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), dynamic=False, initial_scale=8
    )
    path = helpers.save(trained_model(keras, old), old, ending, tmp_path)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=16)
    helpers.restore_completely(path, make_model(keras), new)
    assert artifacts.scale_of(new) == (16, 0)
    assert int(numpy(new.iterations)) == 3


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "legacy"])
def test_the_averages_of_a_bare_optimizer_are_restored(family, tmp_path):
    """The file has no names of slots. The averages come before the other slots."""
    old = FAMILIES[family].Adam(0.01, use_ema=True)
    model = trained_model(KERASES[family], old)
    path = helpers.save(model, old, "keras", tmp_path)
    same, new = make_model(KERASES[family]), FAMILIES[family].Adam(0.01, use_ema=True)
    helpers.restore_completely(path, same, new)
    assert_equal(state_of(same, new), state_of(model, old))


@pytest.mark.parametrize("format_", ["keras", "weights.h5"])
@needs_keras3
def test_the_one_variable_of_a_bare_nadam_that_is_no_slot_is_found(format_, tmp_path):
    """The file has no names. The product of the momentums is the only other scalar.

    With averages, the order of all variables is not known.
    """
    old, new = (keras.optimizers.Nadam(0.01, use_ema=True) for _ in range(2))
    model, same = trained_model(keras, old), make_model(keras)
    path = helpers.save(model, old, format_, tmp_path)
    helpers.restore_completely(path, same, new)
    assert_equal(state_of(same, new), state_of(model, old))


@needs_keras3
def test_the_learning_rate_in_a_weights_file_of_a_bare_optimizer_is_found(tmp_path):
    """The file has no config, and no names."""
    old = keras.optimizers.SGD(0.25)
    path = helpers.save(trained_model(keras, old), old, "weights.h5", tmp_path)
    new = keras.optimizers.SGD(0.5)
    helpers.restore_completely(path, make_model(keras), new)
    assert (float(new.learning_rate), int(new.iterations)) == (0.25, 3)


def test_a_weights_file_with_one_slot_for_each_variable_has_only_one_order(tmp_path):
    """With more slots, optimizers of both families of Keras 2 may have written the file."""
    old = FAMILIES["new"].SGD(0.01, momentum=0.5)
    model = trained_model(KERASES["keras2"], old)
    path = helpers.save(model, old, "weights.h5", tmp_path)
    same, new = make_model(KERASES["keras2"]), FAMILIES["new"].SGD(0.01, momentum=0.5)
    report = helpers.restore_completely(path, same, new)
    assert "optimizer/learning_rate" in dict(report.kept)
    assert_equal(state_of(same, new), state_of(model, old))


def test_a_weights_file_of_the_wrapper_of_keras_2_has_the_slots_of_a_newer_optimizer(
    tmp_path,
):
    """The file has neither a config nor names, but only newer optimizers are saved so."""
    keras2, inner = KERASES["new"], FAMILIES["new"].Adam(0.01)
    old, new = keras2.mixed_precision.LossScaleOptimizer(inner), wrapped("new", "Adam")
    model = trained_model(keras2, old, use_bias=False)
    same = make_model(keras2, use_bias=False)
    path = helpers.save(model, old, "weights.h5", tmp_path)
    helpers.restore_completely(path, same, new)
    assert_equal(state_of(same, new.inner_optimizer), state_of(model, inner))
