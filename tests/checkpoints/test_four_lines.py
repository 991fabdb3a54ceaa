"""`restore` and `model.save` convert any old file to a .keras file of Keras 3."""

import keras
import pytest

import tf_lso
from tests.checkpoints import artifacts
from tests.families import numpy
from tf_lso import checkpoints

VERSION, CASE = "TF2.4.4", "stable-v2-Adam-dynamic"


@pytest.mark.parametrize("name", ["ckpt-1", "model.h5"])
@pytest.mark.core  # loading and saving changes most between versions of Keras
def test_an_old_file_becomes_a_keras_file(name, tmp_path):
    model = artifacts.network(keras)
    opt = artifacts.make_optimizer(artifacts.cases(VERSION)[CASE], "keras3")
    model.compile(opt, "mse")
    path = artifacts.path_of(VERSION, CASE, name)
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    model.save(tmp_path / "new.keras")
    model = keras.models.load_model(tmp_path / "new.keras")
    opt, expected = model.optimizer, artifacts.expected(VERSION, CASE, name)
    assert isinstance(opt, tf_lso.LossScaleOptimizer)
    artifacts.assert_holds(model, opt, expected["after5"], name == "ckpt-1")
    artifacts.go_on(VERSION, CASE, model, opt)
    after = expected["after10"]
    assert artifacts.close(model.get_weights(), after["weights"])
    assert int(numpy(opt.iterations)) == after["iterations"]
