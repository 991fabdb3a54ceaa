"""TensorFlow and tf_keras themselves read old files into wrapped optimizers.

These tests do not call `tf_lso.checkpoints.restore`, except to compare with its result.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts, helpers
from tests.families import FAMILIES, keras2
from tests.generation import HAS_KERAS3, HAS_TF_KERAS
from tf_lso.optimizers import experimental

CASE = "experimental-v2-Adam-dynamic"
CASES = [
    f"experimental-v2-{name}-dynamic" for name in ("Adam", "Ftrl", "Nadam", "SGD_plain")
]


def path_of(name="ckpt-1", case=CASE):
    return str(artifacts.path_of("TF2.1.4", case, name))


def after5(name="ckpt-1", case=CASE):
    return artifacts.expected("TF2.1.4", case, name)["after5"]


def new_model_and_optimizer(case=CASE):
    model = artifacts.network(keras2)
    return model, artifacts.make_optimizer(artifacts.cases("TF2.1.4")[case], "keras2")


def restored(case=CASE, built=True):
    """Restore a checkpoint with TensorFlow. Return the model, optimizer and `Checkpoint`."""
    model, optimizer = new_model_and_optimizer(case)
    if built:
        optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    status = checkpoint.restore(path_of(case=case))
    optimizer.build(model.trainable_variables)
    if "Ftrl" not in case:  # Ftrl has the hyperparameter `beta` since TensorFlow 2.3
        status.assert_consumed()
    return model, optimizer, checkpoint


def assert_has_slots(optimizer):
    assert int(optimizer.iterations) > 0
    for weight in optimizer.inner_optimizer.weights:
        is_restored = np.abs(weight.numpy()).sum() > 0
        assert is_restored, f"{weight.name} is zero or NaN, so it was not restored"


class TestACheckpointOf20To22:
    @pytest.mark.parametrize("built", [True, False])
    @pytest.mark.parametrize("case", CASES)
    def test_is_restored_completely(self, case, built):
        model, optimizer, _ = restored(case, built)
        artifacts.assert_holds(model, optimizer, after5(case=case))
        assert int(optimizer.iterations) > 0
        other_model, other = new_model_and_optimizer(case)
        path = path_of(case=case)
        tf_lso.checkpoints.restore(path, model=other_model, optimizer=other)
        helpers.assert_equal(optimizer.get_weights(), other.get_weights())
        assert optimizer.get_config() == other.get_config()

    def test_is_saved_in_the_layout_of_later_versions_and_both_are_restored(
        self, tmp_path
    ):
        _, optimizer, checkpoint = restored()
        path = checkpoint.save(str(tmp_path / "ckpt"))
        names = [name for name, _ in tf.train.list_variables(path)]
        assert "optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE" in names
        assert not any("base_optimizer" in name for name in names)
        for _ in range(2):
            optimizer.iterations.assign(77)
            checkpoint.restore(path_of()).assert_existing_objects_matched()
            assert int(optimizer.iterations) == 4
            optimizer.iterations.assign(77)
            checkpoint.restore(path).assert_consumed()
            assert int(optimizer.iterations) == 4


def test_load_model_reads_a_saved_model_with_a_wrapped_optimizer():
    with tf_lso.install():
        model = keras2.models.load_model(path_of("savedmodel"))
    artifacts.assert_holds(model, model.optimizer, after5("savedmodel"))
    assert_has_slots(model.optimizer)


@pytest.mark.skipif(
    not HAS_KERAS3 and HAS_TF_KERAS,
    reason="the loaders of TensorFlow 2.15 confuse two installed packages of Keras 2",
)
@pytest.mark.parametrize("format_", ["h5", "savedmodel", "keras"])
@pytest.mark.parametrize("kind", ["legacy", "new"])
def test_load_model_returns_an_experimental_optimizer(format_, kind, tmp_path):
    """A test of TensorFlow 2.1 calls the `loss_scale` of the loaded optimizer."""
    optimizer = experimental.LossScaleOptimizer(FAMILIES[kind].Adam(0.1), "dynamic")
    model = helpers.trained_model(keras2, optimizer)
    with tf_lso.install():
        path = helpers.save(model, optimizer, format_, tmp_path)
        loaded = keras2.models.load_model(path).optimizer
    assert isinstance(loaded, experimental.LossScaleOptimizer)
    assert float(loaded.loss_scale()) == float(optimizer.loss_scale())
    assert int(loaded.iterations) == 3
