"""Optimizers whose `build` assigns values to slots after a checkpoint was restored.

The values in the checkpoint must replace the assigned values.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    here,
    keras,
    legacy_step,
    needs_keras3,
    takes_optimizers,
)

pytestmark = takes_optimizers


class MomentumFromVariables:
    """A newer SGD with momentum that starts at the values of the variables."""

    def build(self, var_list):
        if not getattr(self, "built", False) and not getattr(self, "_built", False):
            super().build(var_list)
            for slot, variable in zip(self.momentums, var_list):
                slot.assign(tf.convert_to_tensor(variable))


def make_optimizer(family):
    cls = type("SGDWithOwnMomentum", (MomentumFromVariables, FAMILIES[family].SGD), {})
    return tf_lso.LossScaleOptimizer(cls(0.1, momentum=0.9))


def step(optimizer, x):
    legacy_step(optimizer, lambda: tf.reduce_sum(x**2), [x])


def check_that_training_goes_on(make_optimizer, tmp_path, restored_step):
    """Check a step after a restoration.

    An optimizer takes a step, is saved, and takes a second step. A new optimizer restores the
    checkpoint before it is built, and takes `restored_step`. The variables must be equal.
    """
    x, optimizer = tf.Variable([1.0, 2.0], name="x"), make_optimizer()
    step(optimizer, x)
    path = tf.train.Checkpoint(x=x, optimizer=optimizer).save(str(tmp_path / "c"))
    step(optimizer, x)
    restored_x, restored = tf.Variable([5.0, 5.0], name="x"), make_optimizer()
    tf.train.Checkpoint(x=restored_x, optimizer=restored).restore(path)
    restored_step(restored, restored_x)
    assert restored_x.numpy().tolist() == x.numpy().tolist()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_restored_slot_replaces_what_build_has_assigned(family, traced, tmp_path):
    check_that_training_goes_on(
        lambda: make_optimizer(family), tmp_path, tf.function(step) if traced else step
    )


@needs_keras3
def test_schedule_free_adamw_is_restored_before_it_is_built(tmp_path):
    if not hasattr(keras.optimizers, "ScheduleFreeAdamW"):
        pytest.skip("this Keras has no ScheduleFreeAdamW")
    check_that_training_goes_on(
        lambda: tf_lso.LossScaleOptimizer(keras.optimizers.ScheduleFreeAdamW(0.1)),
        tmp_path,
        step,
    )
