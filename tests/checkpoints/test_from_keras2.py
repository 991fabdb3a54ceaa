"""A model that tf_lso saved with Keras 2 continues its training in Keras 3."""

import h5py
import numpy as np
import pytest

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints.helpers import (
    assert_equal,
    make_model,
    save,
    slots_of,
    trained_model,
)
from tests.families import FAMILIES, keras, keras2, needs_keras3, numpy
from tf_lso import checkpoints
from tf_lso.optimizers import manifest

pytestmark = needs_keras3

# Maps the name of a case to the arguments of the optimizer.
CASES = {
    "Adam": {},
    "Nadam": {},
    "SGD": {"momentum": 0.9},
    "Adam-amsgrad": {"amsgrad": True},
    "SGD-without-momentum": {},
}
# Rows of (case, format, function that reads it). A .weights.h5 file contains no model, and
# `load_model` of Keras 3 does not find the loss of an .h5 file by its name.
READERS = [
    ("Adam", "h5", "restore"),
    ("Adam", "keras", "restore"),
    ("Adam", "keras", "load_model"),
    ("Adam", "weights.h5", "restore"),
    ("Nadam", "h5", "restore"),
    ("Nadam", "keras", "load_model"),
    ("SGD", "weights.h5", "restore"),
    ("Adam-amsgrad", "keras", "restore"),
]


def wrapped(family, name, **arguments):
    make_inner = getattr(FAMILIES[family], name.split("-")[0])
    inner = make_inner(0.01, **CASES[name])
    return tf_lso.LossScaleOptimizer(inner, initial_scale=8, **arguments)


def train_and_save(family, name, format_, folder, *, dynamic=True, use_bias=False):
    """Return a trained model of Keras 2, its optimizer and the path of their file."""
    # With two growth steps, both the scale and the counter have changed after three steps.
    growth = {"dynamic_growth_steps": 2} if dynamic else {}
    opt = wrapped(family, name, dynamic=dynamic, **growth)
    model = trained_model(keras2, opt, use_bias=use_bias)
    with tf_lso.install():
        return model, opt, save(model, opt, format_, folder)


@pytest.mark.parametrize(("name", "format_", "reader"), READERS)
@pytest.mark.parametrize(
    "family", ["legacy", pytest.param("new", marks=pytest.mark.slow)]
)
def test_keras_3_restores_all_state(name, family, format_, reader, tmp_path, caplog):
    old_model, old, path = train_and_save(family, name, format_, tmp_path)
    model = make_model(keras, use_bias=False)
    opt = wrapped("keras3", name)
    model.compile(opt, "mse")
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


def test_unused_slots_of_a_newer_sgd_are_left_out_also_if_a_manifest_names_them(
    tmp_path,
):
    case = "SGD-without-momentum"
    old_model, old, path = train_and_save("new", case, "keras", tmp_path)
    assert old.get_slot_names() == ["momentum"]
    model, opt = make_model(keras, use_bias=False), wrapped("keras3", case)
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert_equal(model.get_weights(), old_model.get_weights())


@pytest.mark.parametrize("name", ["Adam", "Nadam"])
def test_weights_that_both_families_may_have_saved_are_refused(name, tmp_path):
    """Without a manifest and a dynamic scale, a file does not show the optimizer's family."""
    _, _, path = train_and_save("legacy", name, "weights.h5", tmp_path, dynamic=False)
    with h5py.File(path, "a") as file:
        del file["optimizer/vars"].attrs[f"{manifest.NAME}0"]
    model = make_model(keras, use_bias=False)
    opt = wrapped("keras3", name, dynamic=False)
    model.compile(opt, "mse")
    match = r"legacy optimizer of Keras 2 or|momentum_cache"
    with pytest.raises(checkpoints.CheckpointError, match=match):
        checkpoints.restore(path, model=model, optimizer=opt)
    assert not any(np.any(slot) for slot in slots_of(opt, model).values())


def test_shapes_show_in_which_order_a_legacy_optimizer_saved_its_slots(tmp_path):
    old_model, old, path = train_and_save(
        "legacy", "Adam", "weights.h5", tmp_path, dynamic=False, use_bias=True
    )
    with h5py.File(path, "a") as file:
        del file["optimizer/vars"].attrs[f"{manifest.NAME}0"]
    model, opt = make_model(keras), wrapped("keras3", "Adam", dynamic=False)
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert_equal(slots_of(opt, model), slots_of(old, old_model))


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_load_weights_of_keras_does_not_confuse_slots(family, built, tmp_path):
    old_model, old, path = train_and_save(
        family, "Adam", "weights.h5", tmp_path, use_bias=True
    )
    model, opt = make_model(keras), wrapped("keras3", "Adam")
    model.compile(opt, "mse")
    if built:
        opt.build(model.trainable_variables)
    model.load_weights(path)
    opt.build(model.trainable_variables)
    # tf_lso says in the file which slots the arrays are.
    assert_equal(slots_of(opt, model), slots_of(old, old_model))
    assert int(numpy(opt.iterations)) == 3
    assert float(opt.loss_scale) == float(old.loss_scale)
