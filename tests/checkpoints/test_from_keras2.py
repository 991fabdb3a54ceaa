"""What tf_lso wrote on Keras 2, with TF_USE_LEGACY_KERAS=1, goes on in Keras 3."""

import functools

import numpy as np
import pytest

import tf_lso
from tests.checkpoints import artifacts
from tests.families import FAMILIES, keras, keras2, needs_keras3, numpy
from tf_lso import checkpoints

pytestmark = needs_keras3

ENDINGS = ("h5", "keras", "weights.h5")
CLASSES = {
    "Adam": {},
    "Nadam": {},
    "SGD": {"momentum": 0.9},
    "Adam-amsgrad": {"amsgrad": True},
}


def model_of(of, use_bias=False):
    """Of layers of equal shapes: an order that is mixed up changes no shape."""
    dense = of.layers.Dense
    layers = [dense(3, use_bias=use_bias, name=name) for name in ("a", "b")]
    return of.Sequential([of.layers.InputLayer((3,)), *layers])


def made(family, name, **kwargs):
    inner = getattr(FAMILIES[family], name.split("-")[0])(0.01, **CLASSES[name])
    return tf_lso.LossScaleOptimizer(inner, initial_scale=8, **kwargs)


@functools.cache
def trained(family, name, use_bias, dynamic):
    options = {"dynamic": dynamic}
    if dynamic:
        options["dynamic_growth_steps"] = 3  # so that the scale and the count change
    model, opt = model_of(keras2, use_bias), made(family, name, **options)
    model.compile(opt, "mse")
    for x in artifacts.inputs()["X_clean"][:4]:
        x = x[:, :3]
        model.train_on_batch(x, np.ones((len(x), 3), "float32"))
    return model, opt


def written(family, name, ending, folder, use_bias=False, dynamic=True):
    model, opt = trained(family, name, use_bias, dynamic)
    path = str(folder / f"saved.{ending}")
    with tf_lso.install():
        (model.save_weights if ending == "weights.h5" else model.save)(path)
    return model, opt, path


def slots_of(opt, model):
    """{(slot, number of the model variable): array}."""
    return {
        (slot, number): np.array(numpy(opt.get_slot(variable, slot)))
        for slot in opt.get_slot_names()
        for number, variable in enumerate(model.trainable_variables)
    }


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("reader", ["restore", "load_model", "load_weights"])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("family", ["legacy", "new"])
@pytest.mark.parametrize("name", CLASSES)
def test_it_goes_on(name, family, ending, reader, dynamic, tmp_path, caplog):
    if (reader == "load_model") == (ending == "weights.h5"):
        if reader != "restore":
            pytest.skip("a whole model, or weights alone")
    if (reader, ending) == ("load_weights", "h5"):
        pytest.skip("weights in .h5 files have no optimizer")
    old_model, old, path = written(family, name, ending, tmp_path, dynamic=dynamic)
    is_unclear = (family, ending, dynamic) == ("legacy", "weights.h5", False)
    # Nothing tells legacy from newer optimizers.
    if is_unclear and (name, reader) != ("SGD", "restore"):
        model, opt = model_of(keras), made("keras3", name, dynamic=dynamic)
        opt.build(model.trainable_variables)
        if reader == "restore":
            with pytest.raises(
                checkpoints.CheckpointError,
                match=r"legacy optimizer of Keras 2 or|momentum_cache",
            ):
                checkpoints.restore(path, model=model, optimizer=opt)
        else:
            model.compile(opt, "mse")
            with tf_lso.install():
                model.load_weights(path)
            assert "keeps its own" in caplog.text
        assert not any(np.any(slot) for slot in slots_of(opt, model).values())
        return
    if reader == "load_model":
        with tf_lso.install():
            model = keras.models.load_model(path)
        opt = model.optimizer
    else:
        model, opt = model_of(keras), made("keras3", name, dynamic=dynamic)
        model.compile(opt, "mse")
        if reader == "restore":
            report = checkpoints.restore(path, model=model, optimizer=opt)
            assert report.complete
        else:
            opt.build(model.trainable_variables)
            with tf_lso.install():
                model.load_weights(path)
    assert all(map(np.array_equal, old_model.get_weights(), model.get_weights()))
    assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) == 4
    assert float(opt.loss_scale) == float(old.loss_scale)
    assert artifacts.scale_of(opt) == artifacts.scale_of(old)
    before, after = slots_of(old, old_model), slots_of(opt, model)
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=str(key))
    assert "no loss scale" not in caplog.text
    assert "without its saved state" not in caplog.text


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_load_weights_without_install_mixes_up_no_slots(
    family, use_bias, built, tmp_path, caplog
):
    old_model, old, path = written(family, "Adam", "weights.h5", tmp_path, use_bias)
    model, opt = model_of(keras, use_bias), made("keras3", "Adam")
    model.compile(opt, "mse")
    if built:
        opt.build(model.trainable_variables)
    model.load_weights(path)
    opt.build(model.trainable_variables)
    before, after = slots_of(old, old_model), slots_of(opt, model)
    if use_bias and (built or family == "legacy"):  # the shapes tell the order
        assert all(np.array_equal(after[key], value) for key, value in before.items())
        assert int(numpy(opt.iterations)) == 4
        assert float(opt.loss_scale) == float(old.loss_scale)
    else:
        assert "keeps its own" in caplog.text
        assert not any(np.any(value) for value in after.values())
        assert (int(numpy(opt.iterations)), float(opt.loss_scale)) == (0, 8)
