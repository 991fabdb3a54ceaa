"""Checkpoints of one kind of optimizer restored into another."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, keras2, needs_keras3, numpy, takes_optimizers, wrapped
from tests.generation import limit
from tests.state import programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

INNER = {
    "momentum": lambda: keras.optimizers.SGD(0.25, momentum=0.9),
    "nadam": lambda: keras.optimizers.Nadam(0.25),
    "schedule": lambda: keras.optimizers.Adam(
        keras.optimizers.schedules.InverseTimeDecay(0.25, 1, 0.5)
    ),
}
# Functions that wrap an inner optimizer, or return it as it is.
KINDS = {
    "plain": lambda inner: inner,
    "tf_lso": lambda inner: tf_lso.LossScaleOptimizer(inner, initial_scale=64),
    "fixed": lambda inner: tf_lso.LossScaleOptimizer(inner, False, initial_scale=32),
    "Keras's wrapper": lambda inner: keras.optimizers.LossScaleOptimizer(inner),
}
# The kind that is saved, the kind that is restored, and the inner optimizer.
RESTORES = [
    *[("plain", "tf_lso", inner) for inner in INNER],
    *[("tf_lso", "plain", inner) for inner in INNER],
    ("tf_lso", "fixed", "momentum"),
    ("Keras's wrapper", "fixed", "momentum"),
    *[("Keras's wrapper", "tf_lso", inner) for inner in INNER if inner != "nadam"],
    pytest.param(
        "Keras's wrapper",
        "tf_lso",
        "nadam",
        marks=limit(
            "its own wrapper makes Nadam number its variables otherwise in files",
            "3.0",
            "3.6",
        ),
    ),
]


def variables_of(optimizer):
    """Return the values of all variables of an inner optimizer, in the same order."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # Inside Keras 3's own wrapper, the list `variables` of Nadam lacks `_u_product`. So move
    # `_u_product` to the end of each list.
    product = getattr(inner, "_u_product", None)
    values = [numpy(v) for v in inner.variables if v is not product]
    return values if product is None else [*values, numpy(product)]


def save_after_three_steps(kind, inner, folder):
    """Save an optimizer with a scale of 16 and a count of 2.

    Return the optimizer and the path of the checkpoint.
    """
    x, y = tf.Variable([1.0, 2.0], name="x"), tf.Variable(3.0, name="y")
    optimizer = KINDS[kind](INNER[inner]())
    optimizer.build([x, y])
    inner_optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    for i in range(3):
        gradients = tf.constant([1.0, i]), tf.constant(2.0)
        inner_optimizer.apply_gradients(zip(gradients, [x, y]))
    if kind != "plain":
        optimizer.dynamic_scale.assign(16.0)
        optimizer.step_counter.assign(2)
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, x=[x, y])
    return optimizer, checkpoint.save(folder / "c")


@takes_optimizers
@pytest.mark.parametrize(
    "built",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["then built", "built"],
)
@pytest.mark.parametrize(("saved_kind", "restored_kind", "inner"), RESTORES)
@needs_keras3
def test_a_checkpoint_of_one_kind_restores_another_kind(
    saved_kind, restored_kind, inner, built, tmp_path
):
    saved, path = save_after_three_steps(saved_kind, inner, tmp_path)
    variables = [tf.Variable([0.0, 0.0], name="x"), tf.Variable(0.0, name="y")]
    restored = KINDS[restored_kind](INNER[inner]())
    if built:
        restored.build(variables)
    status = tf.train.Checkpoint(optimizer=restored, x=variables).restore(path)
    restored.build(variables)
    pairs = zip(variables_of(saved), variables_of(restored), strict=True)
    for expected, actual in pairs:
        np.testing.assert_array_equal(expected, actual)
    if saved_kind == "plain":
        # The checkpoint contains no scale, and TensorFlow's status reports this.
        assert float(restored.loss_scale) == 64.0
        with pytest.raises(AssertionError):
            status.assert_existing_objects_matched()
    elif restored_kind == "fixed":
        assert float(restored.loss_scale) == 32.0
        status.assert_existing_objects_matched()
    elif restored_kind == "tf_lso":
        assert float(restored.loss_scale) == 16.0
        assert int(restored.dynamic_counter) == 2
        status.assert_consumed()
    else:
        status.assert_existing_objects_matched()


def save_keras_wrapper(inner, folder):
    """Save the weights of a model with Keras 3's own wrapper, a scale of 16 and a count of 2.

    Return the model and the path of the file.
    """
    model = programs.make_model("keras3", 1)
    model.compile(keras.optimizers.LossScaleOptimizer(INNER[inner]()), "mse")
    model.fit(np.ones([8, 3]), np.ones([8, 1]), verbose=0)
    model.optimizer.dynamic_scale.assign(16.0)
    model.optimizer.step_counter.assign(2)
    model.save_weights(folder / "m.weights.h5")
    return model, folder / "m.weights.h5"


@takes_optimizers
@needs_keras3
def test_a_weights_file_of_keras_3s_own_wrapper_of_nadam_is_not_loaded(
    tmp_path, caplog
):
    """The file lacks the variable `_u_product`."""
    _, path = save_keras_wrapper("nadam", tmp_path)
    model, optimizer = Program("keras3", "nadam").make(built=True)
    model.load_weights(path)
    assert "does not fit" in caplog.text
    assert int(optimizer.iterations.value) == 0


@takes_optimizers
@needs_keras3
def test_a_weights_file_of_keras_3s_own_wrapper_restores_the_scale(tmp_path):
    saved, path = save_keras_wrapper("momentum", tmp_path)
    optimizer = tf_lso.LossScaleOptimizer(INNER["momentum"]())
    model, _ = Program("keras3").make(optimizer=optimizer)
    model.load_weights(path)
    assert not optimizer.built
    optimizer.build(model.trainable_variables)
    assert float(optimizer.loss_scale) == 16.0
    assert int(optimizer.dynamic_counter) == 2
    pairs = zip(variables_of(saved.optimizer), variables_of(optimizer))
    for expected, actual in pairs:
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize(
    "family, inner",
    # The newer Nadam of tf_keras is missing, because it cannot continue bit for bit.
    [("legacy", "nadam"), ("new", "ema")],
)
# `built` says whether the restored optimizer is built before it is restored.
@pytest.mark.parametrize(
    ("direction", "api", "built"),
    [
        ("from tf_keras", "stable", False),
        ("from tf_keras", "stable", True),
        ("from tf_keras", "fixed", False),
        ("to tf_keras", "stable", False),
        ("to tf_keras", "fixed", False),
    ],
)
def test_a_checkpoint_of_tf_keras_s_own_wrapper_continues_bit_for_bit(
    family, inner, direction, api, built, tmp_path
):
    program = Program(family, inner, api)
    ours = programs.make_optimizer(family, inner, api)
    keras_wrapper = keras2.mixed_precision.LossScaleOptimizer
    theirs = programs.make_optimizer(family, inner, api, keras_wrapper)
    if direction == "from tf_keras":
        saved, restored = theirs, ours
    else:
        saved, restored = ours, theirs
    model, _ = program.make(1, saved)
    program.train(model, saved, 0, SAVED_AT)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=saved)
    path = checkpoint.save(tmp_path / "c")
    restored_model, _ = program.make(9, restored)
    if built:
        restored.build(restored_model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=restored_model, optimizer=restored)
    status = checkpoint.restore(path)
    program.train(model, saved, SAVED_AT, END)
    program.train(restored_model, restored, SAVED_AT, END)
    status.assert_consumed()
    assert_equal(state(model, saved), state(restored_model, restored))


@takes_optimizers
@pytest.mark.parametrize(
    ("restored_family", "saved_family"),
    [
        ("legacy", "new"),
        pytest.param("legacy", "keras3", marks=needs_keras3),
        pytest.param("new", "keras3", marks=needs_keras3),
    ],
)
def test_a_checkpoint_of_a_newer_family_is_refused_and_changes_nothing(
    saved_family, restored_family, tmp_path
):
    """The names differ, so TensorFlow would restore neither the slots nor `iterations`."""
    x, y = tf.Variable([1.0, 2.0], name="x"), tf.Variable([7.0, 8.0], name="x")
    saved = wrapped(saved_family, "Adam", scale=16.0)
    restored = wrapped(restored_family, "Adam")
    for optimizer in (saved, saved, restored):
        optimizer.apply_gradients([(tf.constant([1.0, 2.0]), x)])
    path = tf.train.Checkpoint(optimizer=saved, x=x).save(tmp_path / "c")
    before = [*restored.get_weights(), y.numpy()]
    with pytest.raises(ValueError, match=r"tf_lso\.checkpoints\.restore"):
        tf.train.Checkpoint(optimizer=restored, x=y).restore(path)
    for expected, actual in zip(before, [*restored.get_weights(), y.numpy()]):
        np.testing.assert_array_equal(expected, actual)


def test_a_checkpoint_with_a_step_counter_alone_is_matched_before_the_first_step(
    tmp_path,
):
    """Programs read `iterations` before the first step, which creates only the counter."""
    saved, restored = wrapped("legacy", "Adam"), wrapped("legacy", "Adam")
    assert int(saved.iterations) == 0
    path = tf.train.Checkpoint(optimizer=saved).save(tmp_path / "c")
    status = tf.train.Checkpoint(optimizer=restored).restore(path)
    status.assert_existing_objects_matched()
    status.assert_consumed()
