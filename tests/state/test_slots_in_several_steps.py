"""Models whose optimizer made its slots in several steps, saved and loaded whole.

Legacy optimizers only: the others make all slots at once.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import keras2, wrapped
from tests.state import formats
from tests.state.programs import Program, assert_equal, state

pytestmark = pytest.mark.usefixtures("installed")

_X = np.random.RandomState(0).rand(8, 3).astype("float32")


_FORMATS = (
    ".keras",
    ".h5",
    "SavedModel",
    "deepcopy of the model",
    "pickle of the model",
)


def _saved_and_loaded(name, model, folder):
    program = Program("legacy")
    return formats.FORMATS[name](program, folder, model, model.optimizer)()[0]


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
@pytest.mark.parametrize("name", _FORMATS)
def test_a_base_that_was_unfrozen(name, units, tmp_path):
    model, optimizer = _model(units), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    _fit(model, optimizer, base=True)
    _check(model, _saved_and_loaded(name, model, tmp_path))


@pytest.mark.parametrize("name", _FORMATS)
def test_two_lists_in_an_order_of_their_own(name, tmp_path):
    model, optimizer = _model(3), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    _fit(model, optimizer, base=True, head=False)
    _fit(model, optimizer, head=True)
    _check(model, _saved_and_loaded(name, model, tmp_path))


@pytest.mark.parametrize("name", [n for n in _FORMATS if n != "SavedModel"])
def test_a_base_that_is_unfrozen_and_not_trained_yet(name, tmp_path):
    model, optimizer = _model(3), wrapped("legacy", "Adam")
    _fit(model, optimizer, base=False)
    model.get_layer("base").trainable = True
    model.compile(optimizer, "mse")
    loaded = _saved_and_loaded(name, model, tmp_path)
    (slot,) = loaded.optimizer.get_slot(loaded.layers[0].kernel, "m").numpy()[:1]
    assert not slot.any()
    _check(model, loaded)


def _restored(folder):
    """A model that was trained, and one whose slots its checkpoint has made."""
    model = _model(3)
    _fit(model, wrapped("legacy", "Adam"))
    path = tf.train.Checkpoint(model=model).save(folder / "c")
    restored = _model(3)
    restored.compile(wrapped("legacy", "Adam"), "mse")
    tf.train.Checkpoint(model=restored).restore(path)
    return model, restored


def test_a_pickle_of_slots_that_only_a_checkpoint_has_made_has_their_names(tmp_path):
    _, restored = _restored(tmp_path)
    alone = formats.ALONE["pickle"](restored.optimizer)
    variables = restored.optimizer._family.built_variables()
    with pytest.raises(ValueError, match="in this order"):
        alone.build(variables[::-1])
    alone.build(variables)
    assert_equal(state(restored, restored.optimizer), state(restored, alone))


@pytest.mark.parametrize(
    "name", [n for n in (*_FORMATS, "deepcopy", "pickle") if n != "SavedModel"]
)
def test_slots_that_only_a_checkpoint_has_made(name, tmp_path):
    model, restored = _restored(tmp_path)
    if name in _FORMATS:
        _check(model, _saved_and_loaded(name, restored, tmp_path))
        return
    alone = formats.ALONE[name](restored.optimizer, None, tmp_path)
    if name == "deepcopy":  # for the same variables
        one, other = (state(restored, o) for o in (restored.optimizer, alone))
        assert_equal(one, other)
        assert one["v 1"].any()
        return
    loaded = _model(3)
    loaded.set_weights(restored.get_weights())
    loaded.compile(alone, "mse")
    alone.build(loaded.trainable_variables)
    _check(model, loaded)


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
