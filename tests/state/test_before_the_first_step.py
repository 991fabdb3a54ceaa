"""Models and optimizers that are saved, copied or loaded before the first step."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    keras,
    keras3_step,
    legacy_step,
    needs_keras3,
    numpy,
    wrapped,
)
from tests.state import formats, programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = programs.needs_saving

_INNER = ("momentum", "amsgrad")


@pytest.mark.parametrize("inner", _INNER)
def test_a_trained_model_takes_the_weights_it_had_untrained(
    family, inner, tmp_path, caplog
):
    """As Keras does, the optimizer keeps its own state and says so."""
    program = Program(family, inner)
    model, optimizer = program.make(seed=1, compiled=False)
    model.optimizer = optimizer  # tf_keras refuses the file of the metrics of compile()
    start, store = model.get_weights(), formats.stored(optimizer)
    program.train(model, optimizer, 0, SAVED_AT)
    before = state(model, optimizer)
    optimizer.load_own_variables(store)
    assert_equal(before, state(model, optimizer))
    assert "saved before the optimizer was built" in caplog.text
    model.set_weights(start)
    program.train(model, optimizer, SAVED_AT, END)


def test_numbers_of_another_kind_are_not_loaded(family, caplog):
    """They are of another layout, though the shapes fit."""
    program = Program(family, "momentum")
    model, optimizer = program.make(seed=1)
    program.train(model, optimizer, 0, SAVED_AT)
    store = formats.stored(optimizer)
    program.train(model, optimizer, SAVED_AT, END)
    before = state(model, optimizer)
    optimizer.load_own_variables({k: np.float32(v) for k, v in store.items()})
    assert_equal(before, state(model, optimizer))
    assert "Its integers and floats stand at other places" in caplog.text


# --- What was loaded and waits for the build.


def _stored(model, optimizer):
    return model.get_weights(), formats.stored(optimizer)


def _load(program, weights, store):
    model, optimizer = program.make()
    model.set_weights(weights)
    optimizer.load_own_variables(store)
    return model, optimizer


def _loaded(program):
    """A trained optimizer, and another that has loaded its file before it is built."""
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)
    return made, _load(program, *_stored(*made))


@functools.cache
def _waits(*arguments):
    """A program, what it stored on its way, its numbers then, and its state at the end."""
    program = Program(*arguments)
    made, _ = _loaded(program)
    stored, numbers = _stored(*made), _numbers(made[1])
    assert numbers[0] != 64.0 and numbers[2] > 0
    program.train(*made, SAVED_AT, END)
    return program, stored, numbers, state(*made)


def _numbers(optimizer):
    scale, counter = optimizer.loss_scale, optimizer.dynamic_counter
    counter = None if counter is None else int(numpy(counter))
    return float(tf.convert_to_tensor(scale)), counter, int(numpy(optimizer.iterations))


@needs_keras3
def test_the_first_eager_step_after_loading_unscales_by_the_loaded_scale():
    saved, optimizer = (
        wrapped("keras3", "SGD", 1.0, momentum=0.9, scale=scale)
        for scale in (128.0, 2.0**15)
    )
    x = tf.Variable(0.0)
    saved.build([x])
    formats.ALONE["file"](saved, lambda: optimizer, None)
    keras3_step(optimizer, lambda: x * 1.0, [x])
    assert float(x) == -1.0


@pytest.mark.parametrize("how", ["checkpoint", "file", "deepcopy", "pickle"])
@pytest.mark.parametrize(
    "inner",
    [
        "momentum",
        pytest.param("amsgrad", marks=pytest.mark.slow),
        pytest.param("nadam", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "api", ["stable", pytest.param("fixed", marks=pytest.mark.slow)]
)
def test_what_waits_is_saved(family, inner, api, how, tmp_path):
    if (family, inner) == ("new", "nadam"):
        pytest.skip("tf_keras's newer Nadam keeps a part of its state in Python")
    program, stored, numbers, end = _waits(family, inner, api)
    model, again = _load(program, *stored)
    assert _numbers(again) == numbers
    for _ in range(2):
        again = formats.ALONE[how](again, lambda: program.make()[1], tmp_path)
    assert _numbers(again) == numbers
    program.train(model, again, SAVED_AT, END)
    assert_equal(end, state(model, again))


@pytest.mark.parametrize("how", ["checkpoint", "set_weights"])
def test_what_waits_goes_into_a_built_optimizer(family, how, tmp_path):
    program = Program(family)
    made, (_, optimizer) = _loaded(program)
    again = program.make(built=True)[1]
    if how == "set_weights":
        again.set_weights(optimizer.get_weights())
    else:
        path = tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / "c")
        tf.train.Checkpoint(optimizer=again).restore(path)
    programs.assert_same_weights(made[1], again)


def test_a_checkpoint_restored_later_replaces_what_waits(family, tmp_path):
    program = Program(family)
    made, (model, optimizer) = _loaded(program)
    program.train(*made, SAVED_AT, END)
    path = tf.train.Checkpoint(model=made[0], optimizer=made[1]).save(tmp_path / "c")
    tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
    optimizer.build(model.trainable_variables)
    assert_equal(state(*made), state(model, optimizer))


def test_what_is_set_between_loading_and_building_stays(family):
    _, (model, optimizer) = _loaded(Program(family))
    optimizer.learning_rate = 0.5
    optimizer.iterations = 77
    optimizer.build(model.trainable_variables)
    assert float(numpy(optimizer.learning_rate)) == 0.5
    assert int(numpy(optimizer.iterations)) == 77


# --- Files of an optimizer with other variables.


@pytest.mark.parametrize("built", [False, True], ids=["not built", "built"])
@pytest.mark.parametrize(
    "skip_mismatch", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_weights_into_a_model_with_a_frozen_layer(
    family, skip_mismatch, built, tmp_path, caplog
):
    """As a plain optimizer of Keras: the weights load, the optimizer keeps its own."""

    def give(model, optimizer):
        if family == "keras3":
            model.compile(optimizer, "mse")
        else:
            model.optimizer = optimizer

    program = Program(family)
    model, optimizer = program.make(seed=1, compiled=False)
    give(model, optimizer)
    program.train(model, optimizer, 0, SAVED_AT)
    model.save_weights(tmp_path / "m.weights.h5")
    other = programs.make_model(family, 9)
    other.layers[-1].trainable = False
    own = programs.make_optimizer(family)
    give(other, own)
    if built:
        own.build(other.trainable_variables)
    other.load_weights(tmp_path / "m.weights.h5", skip_mismatch=skip_mismatch)
    programs.assert_same_weights(model, other)
    own.build(other.trainable_variables)
    if family == "legacy" and not caplog.text:
        pytest.skip("without install() tf_keras's files leave legacy optimizers out")
    assert "does not fit" in caplog.text
    assert int(numpy(own.iterations)) == 0
    assert float(own.loss_scale) == 64.0
    program.train(other, own, 0, END)


@needs_keras3
def test_a_file_of_keras_s_own_untrained_wrapper_loads_into_ours(tmp_path):
    theirs = programs.make_model("keras3", 1)
    inner = programs.INNER["amsgrad"]("keras3")
    theirs.compile(keras.optimizers.LossScaleOptimizer(inner), "mse")
    theirs.save_weights(tmp_path / "m.weights.h5")
    for built in (False, True):
        model, optimizer = Program("keras3").make(built=built)
        model.load_weights(tmp_path / "m.weights.h5")
        assert float(optimizer.learning_rate.numpy()) == pytest.approx(0.02)
        assert float(optimizer.loss_scale) == 64.0


@needs_keras3
def test_slots_set_by_slot_before_building_can_be_saved(tmp_path):
    x = tf.Variable([1.0, 2.0])
    y = tf.Variable([[3.0]])
    made = wrapped("keras3", "Adam")
    for _ in range(3):
        legacy_step(made, lambda: tf.reduce_sum(x * x) + tf.reduce_sum(y * y), [x, y])
    waiting = wrapped("keras3", "Adam")
    waiting.set_weights(made.get_weights())
    again = formats.ALONE["file"](waiting, lambda: wrapped("keras3", "Adam"), tmp_path)
    again.build([x, y])
    programs.assert_same_weights(made, again)
    inner = FAMILIES["keras3"].Adam()
    fixed = tf_lso.LossScaleOptimizer(inner, **programs.SCALES["fixed"])
    fixed.set_weights(made.get_weights()[:-2])
    with pytest.raises(ValueError, match="Build it before"):
        fixed.save_own_variables({})


# --- All formats; the last test, since `installed` lasts to the end of the file.


@pytest.fixture(scope="module")
def checkpointed(installed, tmp_path_factory):
    """A program of a family, its checkpoint on its way, and its state at the end."""

    @functools.cache
    def run(family):
        program = Program(family)
        made = program.make(seed=1)
        program.train(*made, 0, SAVED_AT)
        path = str(tmp_path_factory.mktemp("checkpoint") / "c")
        path = tf.train.Checkpoint(model=made[0], optimizer=made[1]).save(path)
        program.train(*made, SAVED_AT, END)
        return program, path, state(*made)

    return run


@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, family, id=f"{name}, {family}")
        for family in FAMILIES
        for name in formats.FORMATS
        # The weights of an optimizer without slots do not go to one with slots.
        if formats.exists(name, family) and name != "get_weights"
    ],
)
def test_a_checkpoint_that_was_restored_is_saved_after_the_build(
    name, family, checkpointed, tmp_path
):
    """Its slots wait in TensorFlow until the optimizer is built; legacy ones do not."""
    program, path, end = checkpointed(family)
    save = functools.partial(formats.save, name, program)
    with tf_lso.install():
        model, optimizer = program.make()
        tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
        if family != "legacy":
            with pytest.raises(ValueError, match=r"Build it before saving or copying"):
                save(tmp_path, model, optimizer)
            optimizer.build(model.trainable_variables)
        other = save(tmp_path, model, optimizer)()
        program.train(*other, SAVED_AT, END)
    assert_equal(end, state(*other))
