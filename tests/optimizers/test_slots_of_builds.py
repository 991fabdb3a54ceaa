"""Optimizers whose `build` assigns values to slots after a checkpoint was restored."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, here, legacy_step, takes_optimizers

pytestmark = takes_optimizers


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_restored_slot_replaces_what_build_has_assigned(family, traced, tmp_path):
    class SGD(FAMILIES[family].SGD):
        """Its momentum starts at the values of the variables, as in ScheduleFreeAdamW."""

        def build(self, variables):
            is_built = getattr(self, "built", False) or getattr(self, "_built", False)
            super().build(variables)
            if not is_built:
                for slot, variable in zip(self.momentums, variables):
                    slot.assign(tf.convert_to_tensor(variable))

    def step(optimizer, x):
        legacy_step(optimizer, lambda: tf.reduce_sum(x**2), [x])

    x, restored_x = (tf.Variable([1.0, 2.0], name="x") for _ in range(2))
    optimizer, restored = (
        tf_lso.LossScaleOptimizer(SGD(0.1, momentum=0.9)) for _ in range(2)
    )
    step(optimizer, x)
    path = tf.train.Checkpoint(x=x, optimizer=optimizer).save(str(tmp_path / "c"))
    step(optimizer, x)
    tf.train.Checkpoint(x=restored_x, optimizer=restored).restore(path)
    (tf.function(step) if traced else step)(restored, restored_x)
    assert restored_x.numpy().tolist() == x.numpy().tolist()
