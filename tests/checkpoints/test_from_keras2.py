"""A model that tf_lso saved with Keras 2 continues its training in Keras 3."""

import numpy as np
import pytest

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints.helpers import assert_equal, model_of, saved, slots_of, trained
from tests.families import FAMILIES, keras, keras2, needs_keras3, numpy
from tf_lso import checkpoints

pytestmark = needs_keras3

CLASSES = {
    "Adam": {},
    "Nadam": {},
    "SGD": {"momentum": 0.9},
    "Adam-amsgrad": {"amsgrad": True},
}
# Pairs of a format and a function that reads it. A .weights.h5 file contains no model, and
# `load_model` of Keras 3 does not find the loss of an .h5 file by its name.
READERS = [
    ("h5", "restore"),
    ("keras", "restore"),
    ("keras", "load_model"),
    ("weights.h5", "restore"),
]


def made(family, name, **kwargs):
    inner = getattr(FAMILIES[family], name.split("-")[0])(0.01, **CLASSES[name])
    return tf_lso.LossScaleOptimizer(inner, initial_scale=8, **kwargs)


def written(family, name, ending, folder, use_bias=False, **kwargs):
    if kwargs["dynamic"]:
        kwargs["dynamic_growth_steps"] = 2  # so that the scale and the count change
    opt = made(family, name, **kwargs)
    model = trained(keras2, opt, use_bias=use_bias)
    with tf_lso.install():
        return model, opt, saved(model, opt, ending, folder)


@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("ending", "reader"), READERS)
@pytest.mark.parametrize(
    "family", ["legacy", pytest.param("new", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", CLASSES)
def test_it_goes_on(name, family, ending, reader, dynamic, tmp_path, caplog):
    old_model, old, path = written(family, name, ending, tmp_path, dynamic=dynamic)
    model, opt = model_of(keras, use_bias=False), made("keras3", name, dynamic=dynamic)
    model.compile(opt, "mse")
    # Without a dynamic scale, the file does not show whether the optimizer was a legacy one.
    is_unclear = (family, ending, dynamic) == ("legacy", "weights.h5", False)
    if is_unclear and name != "SGD":
        match = r"legacy optimizer of Keras 2 or|momentum_cache"
        with pytest.raises(checkpoints.CheckpointError, match=match):
            checkpoints.restore(path, model=model, optimizer=opt)
        assert not any(np.any(slot) for slot in slots_of(opt, model).values())
        return
    if reader == "restore":
        assert checkpoints.restore(path, model=model, optimizer=opt).complete
    else:
        with tf_lso.install():
            model = keras.models.load_model(path)
        opt = model.optimizer
    assert_equal(model.get_weights(), old_model.get_weights())
    assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) == 3
    assert artifacts.scale_of(opt) == artifacts.scale_of(old)
    assert_equal(slots_of(opt, model), slots_of(old, old_model))
    assert "no loss scale" not in caplog.text
    assert "without its saved state" not in caplog.text


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "use_bias", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_load_weights_of_keras_mixes_up_no_slots(
    family, use_bias, built, tmp_path, caplog
):
    old_model, old, path = written(
        family, "Adam", "weights.h5", tmp_path, use_bias, dynamic=True
    )
    model, opt = model_of(keras, use_bias=use_bias), made("keras3", "Adam")
    model.compile(opt, "mse")
    if built:
        opt.build(model.trainable_variables)
    model.load_weights(path)
    opt.build(model.trainable_variables)
    if use_bias and (built or family == "legacy"):  # the shapes tell the order
        assert_equal(slots_of(opt, model), slots_of(old, old_model))
        assert int(numpy(opt.iterations)) == 3
        assert float(opt.loss_scale) == float(old.loss_scale)
    else:
        assert "keeps its own" in caplog.text
        assert not any(np.any(value) for value in slots_of(opt, model).values())
        assert (int(numpy(opt.iterations)), float(opt.loss_scale)) == (0, 8)
