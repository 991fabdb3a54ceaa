"""A trainable weight without a gradient (an unused head) of which there are no slots."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import optimizers_of_users as users
from tests.families import FAMILIES, KERASES, keras, keras2, needs_keras3, numpy
from tests.generation import ZIPPED
from tf_lso import checkpoints

ON_2_12 = tf.__version__.startswith("2.12.")


def model_of(of, equal_shapes=False):
    """The head "unused" gets no gradient."""
    inputs = of.Input((3,))
    hidden = of.layers.Dense(3, name="a")(inputs)
    unused = of.layers.Dense(3 if equal_shapes else 2, name="unused")(hidden)
    return of.Model(inputs, [of.layers.Dense(3, name="b")(hidden), unused])


def legacy(name="Adam", **kwargs):
    return getattr(FAMILIES["legacy"], name)(0.01, **kwargs)


def train(model, opt, steps=3):
    for step in range(steps):
        with tf.GradientTape() as tape:
            used, _ = model(tf.ones((4, 3)) * (step + 1.0))
            loss = opt.get_scaled_loss(tf.reduce_mean(used**2))
        variables = model.trainable_variables
        gradients = opt.get_unscaled_gradients(tape.gradient(loss, variables))
        given = [(g, v) for g, v in zip(gradients, variables) if g is not None]
        opt.apply_gradients(given)


def trained(inner=None, *, wrapper=None, equal_shapes=False):
    """A model and its legacy optimizer, which has made no slots of "unused"."""
    model = model_of(keras2, equal_shapes)
    wrapper = wrapper or tf_lso.LossScaleOptimizer
    opt = wrapper(inner or legacy(), initial_scale=8, dynamic_growth_steps=2)
    train(model, opt)
    model.compile(opt, "mse")
    kernel = model.get_layer("unused").kernel
    for slot in opt.get_slot_names():
        with pytest.raises(KeyError):
            opt.get_slot(kernel, slot)
    return model, opt


def slots_of(opt, model, first=0.0):
    """{(slot, layer, weight): array}; `first` where there is none."""
    found = {}
    for slot in opt.get_slot_names():
        for layer in model.layers[1:]:
            for number, variable in enumerate(layer.trainable_weights):
                try:
                    value = np.array(numpy(opt.get_slot(variable, slot)))
                except KeyError:
                    value = np.full(variable.shape, first, "float32")
                found[slot, layer.name, number] = value
    return found


def goes_on(old_model, old, model, opt, first=0.0):
    """Assert that all state is equal, also after two more steps."""
    for steps, rtol in ((0, 0), (2, 1e-4)):
        train(old_model, old, steps)
        train(model, opt, steps)
        atol = rtol / 100
        weights = zip(old_model.get_weights(), model.get_weights(), strict=True)
        for one, other in weights:
            np.testing.assert_allclose(one, other, rtol, atol)
        before, after = slots_of(old, old_model, first), slots_of(opt, model, first)
        assert before.keys() == after.keys()
        for key, value in before.items():
            np.testing.assert_allclose(after[key], value, rtol, atol, err_msg=str(key))
        assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) == 3 + steps
        assert float(opt.loss_scale) == float(old.loss_scale)
        assert int(opt.dynamic_counter) == int(old.dynamic_counter)


WRAPPERS = {
    "tf_lso": tf_lso.LossScaleOptimizer,
    "keras": keras2.mixed_precision.LossScaleOptimizer,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_saved_model(wrapper, tmp_path, caplog):
    model, opt = trained(wrapper=WRAPPERS[wrapper])
    path = str(tmp_path / "m")
    model.save(path, save_format="tf")
    with tf_lso.install():
        loaded = keras2.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    goes_on(model, opt, loaded, loaded.optimizer)
    assert "no loss scale" not in caplog.text


@pytest.mark.parametrize("equal_shapes", [False, True])
@pytest.mark.parametrize("name", ["Adam", "Ftrl", "Nadam"])
@pytest.mark.parametrize("format_", [".keras", ".h5", "pickle", "deepcopy"])
def test_a_whole_model(format_, name, equal_shapes, tmp_path, caplog):
    model, opt = trained(legacy(name), equal_shapes=equal_shapes)
    first = {"Ftrl": 0.1}.get(name, 0.0)
    before = slots_of(opt, model, first)
    with tf_lso.install():
        if format_ == "pickle":
            loaded = pickle.loads(pickle.dumps(model))
        elif format_ == "deepcopy":
            loaded = copy.deepcopy(model)
        else:
            path = str(tmp_path / f"m{format_}")
            model.save(path, **(ZIPPED if format_ == ".keras" else {}))
            loaded = keras2.models.load_model(path)
    after = slots_of(opt, model, first)
    for key, value in before.items():
        if name != "Ftrl" or key[:2] != ("linear", "unused"):
            np.testing.assert_array_equal(after[key], value, err_msg=str(key))
    goes_on(model, opt, loaded, loaded.optimizer, first)
    assert "its own" not in caplog.text and "saves none" not in caplog.text


@pytest.mark.skipif(ON_2_12, reason="Keras 2.12 writes another format under this name")
@pytest.mark.parametrize("equal_shapes", [False, True])
@pytest.mark.parametrize("into", ["new", "built", "trained"])
def test_weights(into, equal_shapes, tmp_path, caplog):
    model, opt = trained(equal_shapes=equal_shapes)
    path = str(tmp_path / "m.weights.h5")
    model.save_weights(path)
    if into == "trained":
        other, new = trained(equal_shapes=equal_shapes)
    else:
        other = model_of(keras2, equal_shapes)
        new = tf_lso.LossScaleOptimizer(legacy(), dynamic_growth_steps=2)
        other.compile(new, "mse")
    if into == "built":
        new.build(other.trainable_variables)
    other.load_weights(path)
    goes_on(model, opt, other, new)
    assert "its own" not in caplog.text


@needs_keras3
@pytest.mark.parametrize("format_", ["h5", "keras", "weights.h5"])
def test_files_of_keras_2_in_keras_3(format_, tmp_path):
    model, opt = trained()
    path = str(tmp_path / f"m.{format_}")
    (model.save_weights if format_ == "weights.h5" else model.save)(path)
    new_model = model_of(keras)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01), dynamic_growth_steps=2)
    assert checkpoints.restore(path, model=new_model, optimizer=new).complete
    goes_on(model, opt, new_model, new)


def test_a_file_without_these_slots_is_not_said_to_have_no_scale(caplog):
    """With one weight and two slots, the scale and the count are as many."""
    a, unused = tf.Variable([1.0]), tf.Variable([[1.0]])
    old = tf_lso.LossScaleOptimizer(legacy())
    old.apply_gradients([(tf.constant([1.0]), a)])
    store = {}
    old.save_own_variables(store)
    new = tf_lso.LossScaleOptimizer(legacy())
    new.build([a, unused])
    new.load_own_variables(store)
    assert "saves none" not in caplog.text
    assert "does not fit" in caplog.text and "5 variables instead of 7" in caplog.text


def saved(folder, **kwargs):
    model, opt = trained(**kwargs)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save(str(folder / "c"))
    return model, opt, path


def restored(path, model, opt, by):
    if by == "restore":
        report = checkpoints.restore(path, model=model, optimizer=opt)
        assert report.complete and not report.missing
        told = [name for name, why in report.kept if "no slots" in why]
        assert told and all("unused" in name for name in told)
        return
    with tf_lso.install():
        tf.train.Checkpoint(model=model, optimizer=opt).restore(path)


@pytest.mark.parametrize("by", ["restore", "tf.train.Checkpoint"])
@pytest.mark.parametrize("state", ["new", "built", "trained"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Nadam"])
def test_a_checkpoint(name, family, state, by, tmp_path, caplog):
    if family == "new" and (name == "Nadam" or by == "tf.train.Checkpoint"):
        pytest.skip("its product of momentums; TensorFlow refuses legacy files there")
    first = {"Adagrad": 0.1}.get(name, 0.0)
    old_model, old, path = saved(tmp_path, inner=legacy(name))
    model = model_of(KERASES["keras3" if family == "keras3" else "keras2"])
    inner = getattr(FAMILIES[family], name)(0.01)
    opt = tf_lso.LossScaleOptimizer(inner, dynamic_growth_steps=2)
    if state != "new":
        opt.build(model.trainable_variables)
    if state == "trained":
        if (family, by) == ("legacy", "tf.train.Checkpoint"):
            pytest.skip("TensorFlow itself leaves these slots as they are")
        ones = [tf.ones(v.shape) for v in model.trainable_variables]
        opt.apply_gradients(zip(ones, model.trainable_variables))
    restored(path, model, opt, by)
    assert "restores only a part" not in caplog.text
    if name == "Nadam":  # which has another schedule in Keras 3
        assert all(map(np.array_equal, old_model.get_weights(), model.get_weights()))
    else:
        goes_on(old_model, old, model, opt, first)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("source", ["legacy", "new"])
def test_the_variables_of_traced_steps_in_a_saved_model(
    source, family, dynamic, tmp_path
):
    """They are no state, and refuse no restore."""
    scale = {"dynamic": dynamic, "initial_scale": 8}
    old_model = model_of(keras2)
    old = tf_lso.LossScaleOptimizer(FAMILIES[source].Adam(0.01), **scale)
    old.build(old_model.trainable_variables)
    train(old_model, old)
    old_model.compile(old, "mse")
    old_model.save(str(tmp_path / "m"), save_format="tf")
    model = model_of(KERASES["keras3" if family == "keras3" else "keras2"])
    opt = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01), **scale)
    path = str(tmp_path / "m")
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    before, after = slots_of(old, old_model), slots_of(opt, model)
    assert all(np.array_equal(after[key], value) for key, value in before.items())


@needs_keras3
def test_a_saved_model_of_keras_2_in_keras_3(tmp_path):
    model, opt = trained()
    model.save(str(tmp_path / "m"), save_format="tf")
    new_model = model_of(keras)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01), dynamic_growth_steps=2)
    restored(str(tmp_path / "m"), new_model, new, "restore")
    goes_on(model, opt, new_model, new)


def refused(path, family, inner, match):
    model = model_of(KERASES["keras3" if family == "keras3" else "keras2"])
    opt = tf_lso.LossScaleOptimizer(inner)
    before = model.get_weights()
    with pytest.raises(checkpoints.CheckpointError, match=match):
        checkpoints.restore(path, model=model, optimizer=opt)
    assert all(map(np.array_equal, before, model.get_weights()))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_slot_that_is_missing_of_all_variables_is_refused(family, tmp_path):
    *_, path = saved(tmp_path)
    inner = FAMILIES[family].Adam(0.01, amsgrad=True)
    refused(path, family, inner, "vhat/unused/kernel")
    *_, path = saved(tmp_path, inner=FAMILIES["legacy"].SGD(0.01))
    inner = FAMILIES[family].SGD(0.01, momentum=0.9)
    refused(path, family, inner, "momentum/unused/kernel")


def test_a_class_whose_first_values_are_unknown_is_refused(tmp_path):
    *_, path = saved(tmp_path, inner=users.of_legacy())
    refused(path, "legacy", users.of_legacy(), "unused/kernel")


@pytest.mark.parametrize("family", FAMILIES)
def test_one_slot_of_two_is_refused(family, tmp_path):
    model, opt = trained()
    opt.inner_optimizer.add_slot(model.get_layer("unused").kernel, "m")
    path = tf.train.Checkpoint(model=model, optimizer=opt).save(str(tmp_path / "c"))
    refused(path, family, FAMILIES[family].Adam(0.01), "v/unused/kernel")
