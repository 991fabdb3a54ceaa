"""What the readers of TensorFlow and tf_keras restore of old files, without tf_lso's."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import keras2
from tests.generation import HAS_KERAS3, HAS_TF_KERAS
from tf_lso.optimizers import experimental

CASE = "experimental-v2-Adam-dynamic"
CASES = [case for case in artifacts.cases("TF2.1.4") if case.startswith("experimental")]


def folder(case):
    return artifacts.folder("TF2.1.4") / case


def made(case):
    recorded = artifacts.cases("TF2.1.4")[case]
    model = artifacts.network(keras2)
    return model, artifacts.optimizer(recorded, "keras2"), recorded


def restored(case, built=True):
    model, optimizer, recorded = made(case)
    if built:
        optimizer.build(model.trainable_variables)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    status = saved.restore(str(folder(case) / "ckpt-1"))
    optimizer.build(model.trainable_variables)
    if "Ftrl" not in case:  # whose `beta` came in 2.3
        status.assert_consumed()
    return model, optimizer, recorded


class TestACheckpointOf20To22:
    @pytest.mark.parametrize("built", [True, False])
    @pytest.mark.parametrize("case", CASES)
    def test_is_restored_whole(self, case, built):
        model, optimizer, recorded = restored(case, built)
        expected = recorded["checkpoint"]["after5"]
        assert artifacts.close(model.get_weights(), expected["weights"], 0, 0)
        assert int(optimizer.iterations) == expected["iterations"] > 0
        assert float(optimizer.loss_scale) == expected["loss_scale"]
        other, ours, _ = made(case)
        tf_lso.checkpoints.restore(folder(case) / "ckpt-1", model=other, optimizer=ours)
        for one, two in zip(optimizer.get_weights(), ours.get_weights(), strict=True):
            np.testing.assert_array_equal(one, two)
        assert ours.get_config() == optimizer.get_config()

    def test_is_not_saved_that_way_again(self, tmp_path):
        model, optimizer, _ = restored(CASE, True)
        saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
        path = saved.save(str(tmp_path / "ckpt"))
        names = [name for name, _ in tf.train.list_variables(path)]
        assert "optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE" in names
        assert not any("base_optimizer" in name for name in names)

    def test_is_restored_after_another_layout_and_before_it(self, tmp_path):
        model, optimizer, _ = restored(CASE, True)
        saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
        path = saved.save(str(tmp_path / "ckpt"))
        for _ in range(2):
            optimizer.iterations.assign(77)
            saved.restore(
                str(folder(CASE) / "ckpt-1")
            ).assert_existing_objects_matched()
            assert int(optimizer.iterations) == 4
            optimizer.iterations.assign(77)
            saved.restore(path).assert_consumed()
            assert int(optimizer.iterations) == 4


def test_weights_in_tensorflows_format():
    model, optimizer, recorded = made(CASE)
    model.compile(optimizer, "mse")
    model.load_weights(str(folder(CASE) / "weights_tf"))
    optimizer.build(model.trainable_variables)
    expected = recorded["compiled"]["after5"]
    assert artifacts.close(model.get_weights(), expected["weights"], 0, 0)
    assert int(optimizer.iterations) == expected["iterations"] > 0
    assert all(np.abs(w.numpy()).sum() > 0 for w in optimizer.inner_optimizer.weights)


def test_a_saved_model_with_a_wrapped_optimizer():
    expected = artifacts.cases("TF2.1.4")[CASE]["compiled"]["after5"]
    with tf_lso.install():
        model = keras2.models.load_model(str(folder(CASE) / "savedmodel"))
    optimizer = model.optimizer
    assert artifacts.close(model.get_weights(), expected["weights"], 0, 0)
    assert int(optimizer.iterations) == expected["iterations"] > 0
    assert float(optimizer.loss_scale) == expected["loss_scale"]
    assert all(np.abs(w.numpy()).sum() > 0 for w in optimizer.inner_optimizer.weights)


@pytest.mark.skipif(
    not HAS_KERAS3 and HAS_TF_KERAS,
    reason="the loaders of TensorFlow 2.15 itself mix up two packages of Keras 2",
)
@pytest.mark.parametrize("format_", ["h5", "tf", "keras"])
@pytest.mark.parametrize("kind", ["legacy", "new"])
@pytest.mark.parametrize("scale", [8, "dynamic"])
def test_an_experimental_optimizer_comes_back_as_one(format_, kind, scale, tmp_path):
    """TensorFlow 2.1's own test calls the `loss_scale` of the loaded one."""
    optimizers = keras2.optimizers
    inner = (optimizers.legacy if kind == "legacy" else optimizers).Adam(0.1)
    model = artifacts.network(keras2)
    model.compile(experimental.LossScaleOptimizer(inner, scale), "mse")
    data = artifacts.inputs()
    model.train_on_batch(data["X_clean"][0], data["Y"][0])
    path = str(tmp_path / ("model" if format_ == "tf" else f"model.{format_}"))
    with tf_lso.install():
        model.save(path, **({} if format_ == "keras" else {"save_format": format_}))
        loaded = keras2.models.load_model(path).optimizer
    assert isinstance(loaded, experimental.LossScaleOptimizer)
    assert float(loaded.loss_scale()) == float(model.optimizer.loss_scale())
    assert int(loaded.iterations) == 1
