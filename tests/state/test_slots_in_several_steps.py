"""Models whose optimizer made its slots in several steps, saved and loaded whole.

Legacy optimizers only: the others make all slots at once.
"""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests.families import keras2, wrapped
from tests.generation import ZIPPED
from tests.state.programs import assert_equal, state

pytestmark = pytest.mark.usefixtures("installed")

_X = np.random.RandomState(0).rand(8, 3).astype("float32")


def _file(model, folder, name, **kwargs):
    model.save(folder / name, **kwargs)
    return keras2.models.load_model(folder / name)


FORMATS = {
    ".keras": lambda model, folder: _file(model, folder, "m.keras", **ZIPPED),
    ".h5": lambda model, folder: _file(model, folder, "m.h5"),
    "SavedModel": lambda model, folder: _file(model, folder, "m", save_format="tf"),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
}


def _model(units):
    layers = keras2.layers
    return keras2.Sequential(
        [
            layers.InputLayer((3,)),
            layers.Dense(3, use_bias=False, name="base"),
            layers.Dense(units, use_bias=False, name="head"),
        ]
    )


def _fit(model, optimizer, **trainable):
    for name, value in trainable.items():
        model.get_layer(name).trainable = value
    model.compile(optimizer, "mse", run_eagerly=True)
    model.fit(_X, _X[:, : model.output_shape[1]], verbose=0)


def _check(model, loaded):
    before = state(model, model.optimizer)
    assert before["iterations"] and any("m 1" in name for name in before)
    assert_equal(before, state(loaded, loaded.optimizer))
    for one in (model, loaded):
        one.run_eagerly = True  # which no file keeps
        one.fit(_X, _X[:, : model.output_shape[1]], verbose=0, shuffle=False)
    assert_equal(state(model, model.optimizer), state(loaded, loaded.optimizer))


@pytest.mark.parametrize("units", [1, 3])  # other shapes, and equal ones
@pytest.mark.parametrize("name", FORMATS)
def test_a_base_that_was_unfrozen(name, units, tmp_path):
    model, optimizer = _model(units), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    _fit(model, optimizer, base=True)
    _check(model, FORMATS[name](model, tmp_path))


@pytest.mark.parametrize("name", FORMATS)
def test_two_lists_in_an_order_of_their_own(name, tmp_path):
    model, optimizer = _model(3), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    _fit(model, optimizer, base=True, head=False)
    _fit(model, optimizer, head=True)
    _check(model, FORMATS[name](model, tmp_path))


@pytest.mark.parametrize("name", [n for n in FORMATS if n != "SavedModel"])
def test_a_base_that_is_unfrozen_and_not_trained_yet(name, tmp_path):
    model, optimizer = _model(3), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    model.get_layer("base").trainable = True
    model.compile(optimizer, "mse")
    loaded = FORMATS[name](model, tmp_path)
    (slot,) = loaded.optimizer.get_slot(loaded.layers[0].kernel, "m").numpy()[:1]
    assert not slot.any()
    _check(model, loaded)


def _optimizer_alone(copied):
    """As a format: a copy of the optimizer, in a model of the same names."""

    def of(model, folder):
        del folder
        loaded = _model(3)
        loaded.set_weights(model.get_weights())
        loaded.compile(copied(model.optimizer), "mse")
        loaded.optimizer.build(loaded.trainable_variables)
        return loaded

    return of


_ALONE = {
    "deepcopy, alone": copy.deepcopy,
    "pickle, alone": lambda optimizer: pickle.loads(pickle.dumps(optimizer)),
}


@pytest.mark.parametrize("name", [n for n in (*FORMATS, *_ALONE) if n != "SavedModel"])
def test_slots_that_only_a_checkpoint_has_made(name, tmp_path):
    model = _model(3)
    _fit(model, wrapped("legacy", "Adam"))
    path = tf.train.Checkpoint(model=model).save(tmp_path / "c")
    restored = _model(3)
    restored.compile(wrapped("legacy", "Adam"), "mse")
    tf.train.Checkpoint(model=restored).restore(path)
    if name == "deepcopy, alone":
        copied, variables = copy.deepcopy(restored.optimizer), restored.weights
        one, other = (state(restored, o) for o in (restored.optimizer, copied))
        assert_equal(one, other)
        assert one["v 1"].any() and len(variables) == 2
    else:
        copied = FORMATS.get(name) or _optimizer_alone(_ALONE[name])
        _check(model, copied(restored, tmp_path))


def test_weights_are_loaded_into_slots_made_in_parts(tmp_path):
    model = _model(3)
    _fit(model, wrapped("legacy", "Adam"))
    model.save_weights(tmp_path / "m.weights.h5")
    other, optimizer = _model(3), wrapped("legacy", "Adam")
    _fit(other, optimizer, base=False)
    _fit(other, optimizer, base=True, head=False)
    other.get_layer("head").trainable = True
    other.compile(optimizer, "mse")
    with pytest.raises(ValueError, match="must be given"):
        optimizer.apply([tf.zeros((3, 3))] * 2)
    other.load_weights(tmp_path / "m.weights.h5")
    _check(model, other)
