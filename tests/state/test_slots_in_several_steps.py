"""Save and load whole models whose optimizer has made its slots in several steps.

The tests use only legacy optimizers, because the other families make all slots at once.
"""

import numpy as np
import pytest

from tests.families import keras2, wrapped
from tests.state import formats
from tests.state.programs import Program, assert_equal, state

pytestmark = pytest.mark.usefixtures("installed")

_X = np.random.RandomState(0).rand(8, 3).astype("float32")


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


@pytest.mark.parametrize(
    "name", [".keras", ".h5", "SavedModel", "deepcopy of the model"]
)
def test_slots_made_in_several_steps_are_restored(name, tmp_path):
    model, optimizer = _model(), wrapped("legacy", "Adam")
    for trainable in ({"base": False}, {"base": True, "head": False}, {"head": True}):
        _fit(model, optimizer, **trainable)
    restore = formats.FORMATS[name](Program("legacy"), tmp_path, model, optimizer)
    loaded, _ = restore()
    _check(model, loaded)


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
