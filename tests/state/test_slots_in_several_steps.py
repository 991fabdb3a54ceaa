"""Models whose optimizer made its slots in several steps, saved and loaded whole.

Legacy optimizers only: the others make all slots at once.
"""

import copy
import pickle

import numpy as np
import pytest

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
    model.compile(optimizer, "mse")
    model.fit(_X, _X[:, : model.output_shape[1]], verbose=0)


def _check(model, loaded):
    before = state(model, model.optimizer)
    assert before["iterations"] and any("m 1" in name for name in before)
    assert_equal(before, state(loaded, loaded.optimizer))
    for one in (model, loaded):
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
