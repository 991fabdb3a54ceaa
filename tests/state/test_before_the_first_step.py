"""Models and optimizers that are saved, copied or loaded before the first step."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    CURRENT,
    FAMILIES,
    keras,
    legacy_step,
    needs_keras3,
    numpy,
    wrapped,
)
from tests.state import formats, programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = programs.needs_saving


def test_a_trained_optimizer_ignores_a_file_from_before_its_build(family, caplog):
    """As in Keras, the optimizer keeps its state, and logs a warning."""
    program = Program(family, "momentum")
    model, optimizer = program.make(seed=1, compiled=False)
    model.optimizer = (
        optimizer  # compile() would add metrics, whose file tf_keras refuses
    )
    store = formats.stored(optimizer)
    program.train(model, optimizer, 0, SAVED_AT)
    before = state(model, optimizer)
    optimizer.load_own_variables(store)
    assert_equal(before, state(model, optimizer))
    assert "saved before the optimizer was built" in caplog.text


def test_a_file_with_other_dtypes_is_not_loaded(family, caplog):
    """If integers and floats are at other places, the file has another layout."""
    program = Program(family, "momentum")
    model, optimizer = _trained(program)
    store = formats.stored(optimizer)
    program.train(model, optimizer, SAVED_AT, END)
    before = state(model, optimizer)
    only_floats = {name: np.float32(value) for name, value in store.items()}
    optimizer.load_own_variables(only_floats)
    assert_equal(before, state(model, optimizer))
    assert "Its integers and floats are in a different order" in caplog.text


def test_a_file_with_another_shape_is_refused_and_changes_nothing(family):
    model, optimizer = _trained(Program(family, "momentum"))
    before = state(model, optimizer)
    stored = formats.stored(optimizer)
    longer = {key: np.ones((*np.shape(array), 2)) for key, array in stored.items()}
    with pytest.raises(ValueError, match=r"has the shape \(.*\), but needs \("):
        optimizer.load_own_variables(longer)
    assert_equal(before, state(model, optimizer))


# --- State that was loaded before the build. The optimizer keeps this state until the build.


def _trained(program):
    model, optimizer = program.make(seed=1)
    program.train(model, optimizer, 0, SAVED_AT)
    return model, optimizer


def _load_before_build(program, weights, store):
    """Return a new model and an optimizer that is not built. They load weights and a file."""
    model, optimizer = program.make()
    model.set_weights(weights)
    optimizer.load_own_variables(store)
    return model, optimizer


def _scale_and_counts(optimizer):
    """Return the scale, the count of finite steps, and the iterations."""
    counts = optimizer.dynamic_counter, optimizer.iterations
    return float(optimizer.loss_scale), *(int(numpy(count)) for count in counts)


def test_loaded_state_is_saved_in_a_file_before_the_build(family):
    program = Program(family, "momentum")
    saved_model, saved = _trained(program)
    numbers = _scale_and_counts(saved)
    model, optimizer = _load_before_build(
        program, saved_model.get_weights(), formats.stored(saved)
    )
    for _ in range(2):
        assert _scale_and_counts(optimizer) == numbers
        store = formats.stored(optimizer)
        _, optimizer = program.make()
        optimizer.load_own_variables(store)
    for each in ((saved_model, saved), (model, optimizer)):
        program.train(*each, SAVED_AT, END)
    assert_equal(state(saved_model, saved), state(model, optimizer))


def test_a_weights_file_that_is_saved_before_the_build_still_names_its_slots(tmp_path):
    program = Program(CURRENT, "momentum")
    trained_model, trained = _trained(program)
    model, optimizer = trained_model, trained
    save = formats.FORMATS[".weights.h5, then built"]
    for _ in range(2):
        model, optimizer = save(program, tmp_path, model, optimizer)()
    optimizer.build(model.trainable_variables[::-1])
    variables = zip(trained_model.trainable_variables, model.trainable_variables)
    for saved, loaded in variables:
        np.testing.assert_array_equal(
            numpy(trained.get_slot(saved, "momentum")),
            numpy(optimizer.get_slot(loaded, "momentum")),
        )


def test_only_a_file_is_saved_from_loaded_state_before_the_build(family, tmp_path):
    program = Program(family)
    model, trained = _trained(program)
    _, loaded = _load_before_build(
        program, model.get_weights(), formats.stored(trained)
    )
    checkpoint = tf.train.Checkpoint(optimizer=loaded)
    for save in (
        copy.deepcopy,
        pickle.dumps,
        lambda _: checkpoint.save(tmp_path / "c"),
    ):
        with pytest.raises(ValueError, match="Build it before saving or copying"):
            save(loaded)


def test_a_built_optimizer_accepts_the_loaded_weights_of_another(family):
    program = Program(family)
    model, trained = _trained(program)
    _, loaded = _load_before_build(
        program, model.get_weights(), formats.stored(trained)
    )
    _, built = program.make(built=True)
    built.set_weights(loaded.get_weights())
    programs.assert_same_weights(trained, built)


def test_a_checkpoint_replaces_the_state_that_was_loaded_before(family, tmp_path):
    program = Program(family)
    model, trained = _trained(program)
    other_model, loaded = _load_before_build(
        program, model.get_weights(), formats.stored(trained)
    )
    program.train(model, trained, SAVED_AT, END)
    path = tf.train.Checkpoint(model=model, optimizer=trained).save(tmp_path / "c")
    tf.train.Checkpoint(model=other_model, optimizer=loaded).restore(path)
    loaded.build(other_model.trainable_variables)
    assert_equal(state(model, trained), state(other_model, loaded))


def test_a_built_optimizer_without_a_step_loads_what_was_saved_before_the_build(family):
    variable = tf.Variable(1.0)
    optimizer = wrapped(family, scale=16.0, momentum=0.5)
    optimizer.build([variable])
    optimizer.load_own_variables(formats.stored(wrapped(family, scale=2.0)))
    assert float(optimizer.loss_scale) == 2.0


def test_a_checkpoint_of_an_unused_legacy_optimizer_has_only_the_scale(tmp_path):
    """Saving does not create variables. As in TensorFlow 2.4, only the first step does."""
    checkpoint = tf.train.Checkpoint(optimizer=wrapped("legacy", momentum=0.5))
    saved = tf.train.list_variables(checkpoint.write(str(tmp_path / "c")))
    names = {name.split("/.")[0] for name, _ in saved if name.startswith("optimizer/")}
    scale = "optimizer/loss_scale/"
    assert names == {f"{scale}current_loss_scale", f"{scale}good_steps"}


def test_values_set_between_loading_and_building_are_kept(family):
    program = Program(family)
    trained_model, trained = _trained(program)
    model, optimizer = _load_before_build(
        program, trained_model.get_weights(), formats.stored(trained)
    )
    optimizer.learning_rate = 0.5
    optimizer.iterations = 77
    optimizer.build(model.trainable_variables)
    assert float(numpy(optimizer.learning_rate)) == 0.5
    assert int(numpy(optimizer.iterations)) == 77


def test_a_value_set_after_loading_stays_if_the_slots_do_not_fit(family, caplog):
    program = Program(family, "momentum")
    trained_model, trained = _trained(program)
    _, optimizer = _load_before_build(
        program, trained_model.get_weights(), formats.stored(trained)
    )
    scale_before = program.make()[1].loss_scale
    optimizer.iterations = 77
    optimizer.build([tf.Variable(1.0)])
    assert "does not fit" in caplog.text
    assert int(numpy(optimizer.iterations)) == 77
    assert float(optimizer.loss_scale) == float(scale_before)


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_a_file_without_slots_replaces_the_slots_of_an_earlier_file(family):
    x, trained = tf.Variable([1.0, 2.0]), wrapped(family, momentum=0.5)
    new, loaded = (wrapped(family, momentum=0.5) for _ in range(2))
    empty = formats.stored(new)
    trained.apply_gradients([(tf.constant([1.0, 2.0]), x)])
    for store in (formats.stored(trained), empty):
        loaded.load_own_variables(store)
    for optimizer in (new, loaded):
        optimizer.build([x])
    programs.assert_same_weights(new, loaded)


@needs_keras3
def test_a_checkpoint_replaces_a_larger_one_that_was_restored_before(tmp_path):
    x, y = tf.Variable(1.0, name="x"), tf.Variable(2.0, name="y")
    restored = wrapped("keras3", momentum=0.5)
    for variables in ([x, y], [x]):
        optimizer = wrapped("keras3", momentum=0.5)
        optimizer.apply_gradients([(tf.constant(3.0), v) for v in variables])
        path = tf.train.Checkpoint(o=optimizer).save(str(tmp_path / "c"))
        tf.train.Checkpoint(o=restored).restore(path)
    restored.build([x])
    programs.assert_same_weights(optimizer, restored)


@needs_keras3
def test_a_build_for_no_variables_keeps_the_loaded_slots():
    x, trained = tf.Variable([1.0, 2.0]), wrapped("keras3", momentum=0.5)
    trained.apply_gradients([(tf.constant([1.0, 2.0]), x)])
    loaded = wrapped("keras3", momentum=0.5)
    loaded.load_own_variables(formats.stored(trained))
    loaded.build([])
    loaded.build([x])
    programs.assert_same_weights(trained, loaded)


def test_the_arrays_of_keras_2_itself_change_no_scale(caplog):
    x, bare = tf.Variable([1.0, 2.0]), FAMILIES["new"].SGD(0.1, momentum=0.5)
    bare.apply_gradients([(tf.constant([1.0, 2.0]), x)])
    optimizer = wrapped("new", scale=16.0, momentum=0.5)
    optimizer.build([x])
    optimizer.load_own_variables({})
    assert "contains no optimizer state" in caplog.text
    arrays = {str(n): numpy(v) for n, v in enumerate(optimizer.weights)}
    optimizer.load_own_variables(arrays)
    assert "no loss scale for the optimizer, so it starts at 16.0" in caplog.text


@pytest.mark.parametrize("of", ["new", "keras3"])
def test_an_array_that_fits_no_variable_is_not_loaded_before_the_build(of, caplog):
    optimizer = wrapped(of, scale=16.0, momentum=0.5)
    optimizer.load_own_variables({"0": np.zeros(3, "float32")})
    assert "so it keeps its current state: It has 1 variables." in caplog.text
    optimizer.build([tf.Variable(np.ones(3, "float32"))])
    assert float(optimizer.loss_scale) == 16.0


@needs_keras3
def test_the_arrays_of_keras_2_are_not_loaded_into_keras_3(caplog):
    """Their order may be another one, and nothing in them tells."""
    x, optimizer = tf.Variable([1.0, 2.0]), wrapped("keras3", momentum=0.5)
    optimizer.build([x])
    optimizer.load_own_variables({"0": np.int64(3), "1": np.ones(2, "float32")})
    assert "Keras 2" in caplog.text
    assert int(numpy(optimizer.iterations)) == 0


def test_no_warning_misses_the_scale_of_a_fixed_scale(caplog):
    x, inner = tf.Variable([1.0, 2.0]), FAMILIES["new"].SGD(0.1, momentum=0.5)
    optimizer = tf_lso.LossScaleOptimizer(inner, dynamic=False, initial_scale=16)
    optimizer.build([x])
    arrays = {str(n): numpy(v) for n, v in enumerate(optimizer.weights)}
    optimizer.load_own_variables(arrays)
    assert "no loss scale" not in caplog.text


# --- Files from before the build of their optimizer.


@needs_keras3
def test_a_weights_file_of_keras_3s_own_untrained_wrapper_is_loaded(tmp_path):
    saved = programs.make_model("keras3", 1)
    inner = programs.INNER["amsgrad"]("keras3")
    saved.compile(keras.optimizers.LossScaleOptimizer(inner), "mse")
    saved.save_weights(tmp_path / "m.weights.h5")
    for built in (False, True):
        model, optimizer = Program("keras3").make(built=built)
        model.load_weights(tmp_path / "m.weights.h5")
        assert float(optimizer.learning_rate.numpy()) == pytest.approx(0.02)
        assert float(optimizer.loss_scale) == 64.0


@needs_keras3
def test_slots_from_set_weights_are_saved_before_the_build_unless_the_scale_is_fixed():
    x, y = tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])
    trained = wrapped("keras3", "Adam")
    for _ in range(3):
        legacy_step(
            trained, lambda: tf.reduce_sum(x * x) + tf.reduce_sum(y * y), [x, y]
        )
    not_built, loaded = wrapped("keras3", "Adam"), wrapped("keras3", "Adam")
    not_built.set_weights(trained.get_weights())
    loaded.load_own_variables(formats.stored(not_built))
    loaded.build([x, y])
    programs.assert_same_weights(trained, loaded)
    inner = FAMILIES["keras3"].Adam()
    fixed = tf_lso.LossScaleOptimizer(inner, **programs.SCALES["fixed"])
    # The last two weights are the scale and its count.
    fixed.set_weights(trained.get_weights()[:-2])
    with pytest.raises(ValueError, match="Build it before"):
        fixed.save_own_variables({})


@needs_keras3
def test_set_weights_copies_the_slots_that_the_build_sets():
    """A program may use the arrays again before the first step."""
    x, weights = tf.Variable([1.0, 2.0]), [1, np.ones(2, "float32")]
    optimizer = wrapped("keras3", momentum=0.5)
    optimizer.set_weights(weights)
    weights[1][:] = 9.0
    optimizer.build([x])
    assert numpy(optimizer.get_slot(x, "momentum")).tolist() == [1.0, 1.0]


@needs_keras3
def test_float64_slots_keep_their_precision_before_the_build():
    x = tf.Variable(1.0, dtype=tf.float64)
    trained = wrapped("keras3", momentum=0.5)
    trained.apply_gradients([(tf.constant(1 / 3, tf.float64), x)])
    loaded, restored = (wrapped("keras3", momentum=0.5) for _ in range(2))
    loaded.load_own_variables(formats.stored(trained))
    restored.load_own_variables(formats.stored(loaded))
    restored.build([x])
    programs.assert_same_weights(trained, restored)


# --- A restored checkpoint.


@pytest.mark.parametrize(
    "name", ["checkpoint, then built", ".keras", "pickle of the optimizer"]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_restored_checkpoint_can_be_saved_only_after_the_build(
    family, name, tmp_path
):
    """TensorFlow keeps the slots until the build. A legacy optimizer restores them at once."""
    program = Program(family)
    trained_model, trained = _trained(program)
    expected = state(trained_model, trained)
    path = tf.train.Checkpoint(model=trained_model, optimizer=trained).save(
        tmp_path / "c"
    )
    save = formats.FORMATS[name]
    with tf_lso.install():
        model, optimizer = program.make()
        tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
        if family != "legacy":
            with pytest.raises(ValueError, match="Build it before saving or copying"):
                save(program, tmp_path, model, optimizer)
            optimizer.build(model.trainable_variables)
        assert_equal(expected, state(model, optimizer))
        restored = save(program, tmp_path, model, optimizer)()
        for each in ((trained_model, trained), restored):
            program.train(*each, SAVED_AT, END)
    assert_equal(state(trained_model, trained), state(*restored))


@pytest.mark.parametrize("method", ["save", "write", "save of a manager"])
def test_each_method_that_saves_a_checkpoint_refuses_slots_that_wait(method, tmp_path):
    x, trained = tf.Variable(1.0), wrapped(CURRENT, momentum=0.5)
    trained.apply_gradients([(tf.constant(1.0), x)])
    path = tf.train.Checkpoint(x=x, optimizer=trained).save(tmp_path / "c")
    with tf_lso.install():
        checkpoint = tf.train.Checkpoint(x=x, optimizer=wrapped(CURRENT, momentum=0.5))
        checkpoint.restore(path)
        with pytest.raises(ValueError, match="Build it before saving or copying"):
            if method == "save of a manager":
                tf.train.CheckpointManager(checkpoint, tmp_path, 1).save()
            else:
                getattr(checkpoint, method)(tmp_path / "d")


@pytest.mark.parametrize(
    ("kind", "name"), [("new", ".h5"), ("new", "SavedModel"), ("keras3", ".h5")]
)
def test_a_model_file_that_would_lack_the_slots_that_wait_is_refused(
    kind, name, tmp_path
):
    program = Program(kind)
    model, optimizer = _trained(program)
    trained = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = trained.save(tmp_path / "c")
    with tf_lso.install():
        model, optimizer = program.make()
        tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
        with pytest.raises(ValueError, match="Build it before saving or copying"):
            formats.FORMATS[name](program, tmp_path, model, optimizer)
