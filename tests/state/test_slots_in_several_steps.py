"""Save and load whole models whose optimizer has made its slots in several steps.

The tests use only legacy optimizers, because the other families make all slots at once.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import keras2, wrapped
from tests.state import formats
from tests.state.programs import Program, assert_equal, state

pytestmark = pytest.mark.usefixtures("installed")

_X = np.random.RandomState(0).rand(8, 3).astype("float32")
_FORMATS = (".keras", ".h5", "SavedModel", "deepcopy of the model")


def _saved_and_loaded(name, model, folder):
    restore = formats.FORMATS[name](Program("legacy"), folder, model, model.optimizer)
    loaded, _ = restore()
    return loaded


def _model():
    """Return a model of two layers with variables of equal shape, "base" and "head"."""
    base = keras2.layers.Dense(3, use_bias=False, name="base")
    head = keras2.layers.Dense(3, use_bias=False, name="head")
    return keras2.Sequential([keras2.layers.InputLayer((3,)), base, head])


def _fit(model, optimizer, **trainable):
    """Set the attribute `trainable` of some layers, and train the model."""
    for name, value in trainable.items():
        model.get_layer(name).trainable = value
    model.compile(optimizer, "mse", run_eagerly=True)
    model.fit(_X, _X, verbose=0)


def _check(model, loaded):
    """Check that two models have the same state, also after more training."""
    before = state(model, model.optimizer)
    assert before["iterations"] > 0
    assert any("m 1" in name for name in before)  # a slot of the second variable
    assert_equal(before, state(loaded, loaded.optimizer))
    for each in (model, loaded):
        each.run_eagerly = True  # no file contains this setting
        each.fit(_X, _X, verbose=0, shuffle=False)
    assert_equal(state(model, model.optimizer), state(loaded, loaded.optimizer))


@pytest.mark.parametrize("name", _FORMATS)
def test_slots_made_in_several_steps_are_restored(name, tmp_path):
    model, optimizer = _model(), wrapped("legacy", "Adam")
    for trainable in ({"base": False}, {"base": True, "head": False}, {"head": True}):
        _fit(model, optimizer, **trainable)
    _check(model, _saved_and_loaded(name, model, tmp_path))


def _trained_and_restored(folder):
    """Return a trained model, and an untrained model that has restored its checkpoint."""
    model = _model()
    _fit(model, wrapped("legacy", "Adam"))
    path = tf.train.Checkpoint(model=model).save(folder / "c")
    restored = _model()
    restored.compile(wrapped("legacy", "Adam"), "mse")
    tf.train.Checkpoint(model=restored).restore(path)
    return model, restored


# --- Slots that were made by the checkpoint that was restored, and not by a step.


@pytest.mark.parametrize("name", [".keras", "pickle of the model"])
def test_a_whole_model_with_restored_slots_is_restored(name, tmp_path):
    model, restored = _trained_and_restored(tmp_path)
    _check(model, _saved_and_loaded(name, restored, tmp_path))


def test_a_weights_file_is_loaded_into_slots_made_in_several_steps(tmp_path):
    saved = _model()
    _fit(saved, wrapped("legacy", "Adam"))
    saved.save_weights(tmp_path / "m.weights.h5")
    model, optimizer = _model(), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    _fit(model, optimizer, base=True, head=False)
    model.get_layer("head").trainable = True
    model.compile(optimizer, "mse")
    model.load_weights(tmp_path / "m.weights.h5")
    _check(saved, model)
