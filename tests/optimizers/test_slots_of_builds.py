"""Optimizers whose build assigns values to their slots, and checkpoints that come first."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, here, legacy_step, takes_optimizers

pytestmark = takes_optimizers

_OptimizerV2 = FAMILIES["legacy"].Optimizer


def averaging(family):
    """An SGD of the family, with momentum that starts at a copy of the variable."""
    base = FAMILIES[family].SGD

    class OfLegacy(base):
        def _create_slots(self, var_list):  # called at each step
            for variable in var_list:
                start = tf.constant_initializer(variable.numpy())
                self.add_slot(variable, "momentum", initializer=start)

    class OfNewer(base):
        def build(self, var_list):
            if not getattr(self, "built", False) and not getattr(self, "_built", False):
                super().build(var_list)
                for slot, variable in zip(self.momentums, var_list):
                    slot.assign(tf.convert_to_tensor(variable))

    return (OfLegacy if family == "legacy" else OfNewer)(0.1, momentum=0.9)


def step(optimizer, x):
    legacy_step(optimizer, lambda: tf.reduce_sum(x**2), [x])


def check_that_training_goes_on(make, tmp_path):
    x, optimizer = tf.Variable([1.0, 2.0], name="x"), make()
    step(optimizer, x)
    path = tf.train.Checkpoint(x=x, optimizer=optimizer).save(str(tmp_path / "c"))
    step(optimizer, x)
    for is_traced in (False, True):
        if is_traced and isinstance(optimizer.inner_optimizer, _OptimizerV2):
            break  # its slots read the variable
        again, other = tf.Variable([5.0, 5.0], name="x"), make()
        tf.train.Checkpoint(x=again, optimizer=other).restore(path)
        (tf.function(step) if is_traced else step)(other, again)
        assert again.numpy().tolist() == x.numpy().tolist()


def test_a_checkpoint_restored_before_the_build_is_restored_whole(family, tmp_path):
    check_that_training_goes_on(
        lambda: tf_lso.LossScaleOptimizer(averaging(family)), tmp_path
    )


@pytest.mark.parametrize("family", here("keras3"))
def test_of_schedule_free_adamw_too(family, tmp_path):
    cls = getattr(KERASES[family].optimizers, "ScheduleFreeAdamW", None)
    if cls is None:
        pytest.skip("this Keras has no ScheduleFreeAdamW")
    check_that_training_goes_on(lambda: tf_lso.LossScaleOptimizer(cls(0.1)), tmp_path)


def test_a_checkpoint_of_a_larger_model_is_refused_at_the_build(family, tmp_path):
    if family == "legacy":
        pytest.skip("its slots are made for the variables of the checkpoint")
    x, y, optimizer = tf.Variable(1.0), tf.Variable(1.0), averaging(family)
    optimizer = tf_lso.LossScaleOptimizer(optimizer)
    optimizer.build([x, y])
    path = tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "c"))
    other = tf_lso.LossScaleOptimizer(averaging(family))
    tf.train.Checkpoint(optimizer=other).restore(path)
    with pytest.raises(ValueError, match="has more variables"):
        other.build([x])
