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


_COPIES = ("deepcopy of the model", "pickle of the model")
_FILES = (".keras", ".h5")
_FORMATS = (*_FILES, "SavedModel", *_COPIES)


def _saved_and_loaded(name, model, folder):
    program = Program("legacy")
    return formats.save(name, program, folder, model, model.optimizer)()[0]


def _model(units):
    layers = [
        keras2.layers.Dense(n, use_bias=False, name=name)
        for n, name in ((3, "base"), (units, "head"))
    ]
    return keras2.Sequential([keras2.layers.InputLayer((3,)), *layers])


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


_UNFROZEN = [{"base": False}, {"base": True}]
_IN_TURNS = [{"base": False}, {"base": True, "head": False}, {"head": True}]


@pytest.mark.parametrize(
    ("units", "stages"),
    [
        (1, _UNFROZEN),
        pytest.param(3, _UNFROZEN, marks=pytest.mark.slow),
        (3, _IN_TURNS),
    ],
    ids=["a base unfrozen", "a base unfrozen, equal shapes", "lists in turns"],
)
@pytest.mark.parametrize("name", _FORMATS)
def test_slots_made_in_several_steps(name, units, stages, tmp_path):
    model, optimizer = _model(units), wrapped("legacy", "Adam")
    for trainable in stages:
        _fit(model, optimizer, **trainable)
    _check(model, _saved_and_loaded(name, model, tmp_path))


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


@pytest.mark.parametrize("name", [*_FILES, *_COPIES, "deepcopy", "pickle"])
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
