"""A trainable weight that never gets a gradient, such as an unused head, may have no slots."""

import pickle

import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import (
    assert_equal,
    assert_refused,
    save,
    slots_of,
    train,
)
from tests.families import CURRENT, FAMILIES, KERASES, keras, keras2, numpy

LEGACY = FAMILIES["legacy"]


def two_headed(keras_module, equal_shapes=False):
    """Return a model whose head "unused" gets no gradient.

    The model calls the layer "a" twice. The variables of "unused" are the last two of six. With
    `equal_shapes`, their shapes are those of the other variables.
    """
    layers = keras_module.layers
    inputs, shared = keras_module.Input((3,)), layers.Dense(3, name="a")
    hidden = shared(shared(inputs))
    unused = layers.Dense(3 if equal_shapes else 2, name="unused")(hidden)
    return keras_module.Model(inputs, [layers.Dense(3, name="b")(hidden), unused])


def wrapped(inner, **arguments):
    arguments = {"initial_scale": 8, "dynamic_growth_steps": 2, **arguments}
    return tf_lso.LossScaleOptimizer(inner, **arguments)


def keras_wrapped(inner):
    return keras2.mixed_precision.LossScaleOptimizer(
        inner, initial_scale=8, dynamic_growth_steps=2
    )


def trained_two_headed(opt, equal_shapes=False):
    """Train a new model with a legacy optimizer, which makes no slots for "unused"."""
    model = two_headed(keras2, equal_shapes)
    train(model, opt)
    for slot in opt.get_slot_names():
        with pytest.raises(KeyError):
            opt.get_slot(model.get_layer("unused").kernel, slot)
    return model


def assert_training_continues(old_model, old, model, opt, initial_value=0.0):
    """Assert that all state is equal now, and after two more steps.

    A slot that does not exist counts as equal to a slot with `initial_value`.
    """
    for steps, rtol in ((0, 0), (2, 1e-4)):
        train(old_model, old, steps)
        train(model, opt, steps)
        tolerances = {"rtol": rtol, "atol": rtol / 100}
        assert_equal(model.get_weights(), old_model.get_weights(), **tolerances)
        slots = slots_of(opt, model, initial_value)
        expected = slots_of(old, old_model, initial_value)
        assert_equal(slots, expected, **tolerances)
        assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) == 3 + steps
        assert float(opt.loss_scale) == float(old.loss_scale)
        assert int(opt.dynamic_counter) == int(old.dynamic_counter)


# --- Keras loads the model.


@pytest.mark.parametrize("wrap", [wrapped, keras_wrapped])
def test_load_model_restores_a_saved_model(wrap, tmp_path, caplog):
    opt = wrap(LEGACY.Adam(0.01))
    model = trained_two_headed(opt)
    path = save(model, opt, "savedmodel", tmp_path)
    with tf_lso.install():
        loaded = keras2.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    assert_training_continues(model, opt, loaded, loaded.optimizer)
    assert "no loss scale" not in caplog.text


@pytest.mark.parametrize("name", ["Adam", "Ftrl"])
@pytest.mark.parametrize("format_", ["keras", "h5", "pickle"])
def test_the_training_of_a_loaded_or_copied_model_continues(
    format_, name, tmp_path, caplog
):
    opt = wrapped(getattr(LEGACY, name)(0.01))
    model = trained_two_headed(opt, equal_shapes=True)
    model.compile(opt, "mse")
    initial_value = 0.1 if name == "Ftrl" else 0.0
    before = slots_of(opt, model, initial_value)
    with tf_lso.install():
        if format_ == "pickle":
            loaded = pickle.loads(pickle.dumps(model))
        else:
            path = save(model, opt, format_, tmp_path)
            loaded = keras2.models.load_model(path)
    after = slots_of(opt, model, initial_value)
    # Saving may make the slots of "unused", the variables 4 and 5. Those called `linear` do not
    # start at `initial_value`.
    known = {
        (slot, index, shape)
        for slot, index, shape in before
        if slot != "linear" or index < 4
    }
    assert_equal(
        {key: after[key] for key in known}, {key: before[key] for key in known}
    )
    assert_training_continues(model, opt, loaded, loaded.optimizer, initial_value)
    assert "its own" not in caplog.text and "tf_lso.install() does" not in caplog.text


@pytest.mark.parametrize("reader", ["new", "built", "trained"])
def test_load_weights_restores_the_optimizer(reader, tmp_path, caplog):
    old = wrapped(LEGACY.Adam(0.01))
    old_model = trained_two_headed(old, equal_shapes=True)
    with tf_lso.install():
        path = save(old_model, old, "weights.h5", tmp_path)
    model = two_headed(keras2, equal_shapes=True)
    opt = wrapped(LEGACY.Adam(0.01), initial_scale=2)
    if reader == "trained":
        train(model, opt)
    model.compile(opt, "mse")
    if reader == "built":
        opt.build(model.trainable_variables)
    with tf_lso.install():
        model.load_weights(path)
    assert_training_continues(old_model, old, model, opt)
    assert "its own" not in caplog.text


def test_a_file_without_these_slots_is_not_said_to_have_no_scale(caplog):
    """The file lacks as many variables as it would without a loss scale.

    The weight "unused" has two slots, and a loss scale consists of the scale and the counter.
    """
    used, unused = tf.Variable([1.0]), tf.Variable([[1.0]])
    old, new, store = wrapped(LEGACY.Adam(0.01)), wrapped(LEGACY.Adam(0.01)), {}
    old.apply_gradients([(tf.constant([1.0]), used)])
    old.save_own_variables(store)
    new.build([used, unused])
    new.load_own_variables(store)
    assert "tf_lso.install() does" not in caplog.text
    assert "does not fit" in caplog.text and "5 variables instead of 7" in caplog.text


# --- `restore` and `tf.train.Checkpoint` restore the model.


def restore_without_slots(path, model, opt):
    """Restore a file, and assert that the report names the slots of "unused" as absent."""
    report = helpers.restore_completely(path, model, opt)
    absent = [name for name, reason in report.kept if "no slots" in reason]
    assert absent and all("unused" in name for name in absent)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["Adam", "Adagrad"])
def test_a_trained_optimizer_restores_a_checkpoint_without_these_slots(
    name, family, tmp_path
):
    old = wrapped(getattr(LEGACY, name)(0.01))
    old_model = trained_two_headed(old)
    path = save(old_model, old, "checkpoint", tmp_path)
    model = two_headed(KERASES[family])
    opt = wrapped(getattr(FAMILIES[family], name)(0.01))
    opt.build(model.trainable_variables)
    ones = [tf.ones(variable.shape) for variable in model.trainable_variables]
    opt.apply_gradients(zip(ones, model.trainable_variables))
    restore_without_slots(path, model, opt)
    initial_value = 0.1 if name == "Adagrad" else 0.0
    assert_training_continues(old_model, old, model, opt, initial_value)


@pytest.mark.parametrize("format_", ["checkpoint", "h5"])
@pytest.mark.parametrize("name", ["Adam", "Adagrad"])
def test_slots_get_initial_values_if_a_newer_optimizer_was_saved_before_its_first_step(
    name, format_, tmp_path
):
    """A newer optimizer of Keras 2 saves no slots before its first step."""
    old = keras_wrapped(getattr(FAMILIES["new"], name)(0.01))
    old_model = two_headed(keras2)
    path = save(old_model, old, format_, tmp_path)
    model = two_headed(keras)
    untrained = wrapped(getattr(keras.optimizers, name)(0.01))
    untrained.build(model.trainable_variables)
    opt = wrapped(getattr(keras.optimizers, name)(0.01))
    opt.build(model.trainable_variables)
    train(model, opt)
    report = helpers.restore_completely(path, model, opt)
    assert any("before the first step" in reason for _, reason in report.kept)
    assert_equal(model.get_weights(), old_model.get_weights())
    initial_values = [numpy(weight) for weight in untrained.weights]
    assert_equal([numpy(weight) for weight in opt.weights], initial_values)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_newer_optimizer_without_slots_is_refused_after_a_step(is_compiled, tmp_path):
    old = keras_wrapped(FAMILIES["new"].Adam(0.01))
    old_model = two_headed(keras2)
    if is_compiled:  # the checkpoint then also contains the optimizer of the model
        old_model.compile(old, "mse")
    old.inner_optimizer.iterations.assign(1)
    path = save(old_model, old, "checkpoint", tmp_path)
    opt = wrapped(keras.optimizers.Adam(0.01))
    assert_refused(path, two_headed(keras), opt, "missing in the file: optimizer/")


@pytest.mark.parametrize(("source", "family"), [("legacy", "legacy"), ("new", CURRENT)])
def test_variables_of_traced_functions_in_a_saved_model_are_ignored(
    source, family, tmp_path
):
    old_model, old = two_headed(keras2), wrapped(FAMILIES[source].Adam(0.01))
    old.build(old_model.trainable_variables)
    train(old_model, old)
    path = save(old_model, old, "savedmodel", tmp_path)
    model = two_headed(KERASES[family])
    opt = wrapped(FAMILIES[family].Adam(0.01))
    helpers.restore_completely(path, model, opt)
    assert_equal(slots_of(opt, model), slots_of(old, old_model))


# --- The file lacks slots without which training cannot continue.


def test_a_variable_with_one_of_its_two_slots_is_refused(family, tmp_path):
    old = wrapped(LEGACY.Adam(0.01))
    old_model = trained_two_headed(old)
    old.inner_optimizer.add_slot(old_model.get_layer("unused").kernel, "m")
    path = save(old_model, old, "checkpoint", tmp_path)
    opt = wrapped(FAMILIES[family].Adam(0.01))
    assert_refused(path, two_headed(KERASES[family]), opt, "v/unused/kernel")


def test_a_class_with_unknown_initial_values_is_refused(tmp_path):
    old = wrapped(users.LegacyWithSlots(("pace",)))
    path = save(trained_two_headed(old), old, "checkpoint", tmp_path)
    opt = wrapped(users.LegacyWithSlots(("pace",)))
    assert_refused(path, two_headed(keras2), opt, "unused/kernel")
