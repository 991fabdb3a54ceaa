"""The adapter to legacy optimizers of Keras 2, which are OptimizerV2.

Most of what an OptimizerV2 does for its subclasses has private names, and the wrapper is
a subclass. tests/test_keras2_private.py fails when Keras 2 moves a name.
"""

import contextlib

import tensorflow as tf

from tf_lso import kerases
from tf_lso.optimizers import restored_slots, slots, validation
from tf_lso.optimizers.families import family, keras2


def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
    """Restore a slot of a checkpoint, unless the inner optimizer was made without it."""
    inner = self.inner_optimizer
    if restored_slots.differ([slot_name], inner)[0]:
        raise ValueError(restored_slots.too_many(inner))
    restore = inner._create_or_restore_slot_variable
    return restore(slot_variable_position, slot_name, variable)


class Legacy(keras2.Keras2):
    """The adapter to legacy optimizers of Keras 2, which are OptimizerV2."""

    name = "legacy"
    returns_operations = True
    newer_names = ("_variables", "_trainable_variables")
    without_aggregation = ("experimental_aggregate_gradients", False)
    members = {  # noqa: RUF012
        "_HAS_AGGREGATE_GRAD": True,
        # What OptimizerV2 would do for the wrapper alone.
        "_aggregate_gradients": family.forwarded("_aggregate_gradients"),
        "_restore_slot_variable": family.forwarded("_restore_slot_variable"),
        "_create_or_restore_slot_variable": _create_or_restore_slot_variable,
    }

    def __init__(self, inner):
        super().__init__(inner)
        self.slots = inner

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        return self.inner._compute_gradients(loss, var_list, grad_loss, tape=tape)

    def prepare(self, wrapper, variables, used):
        # As TensorFlow's class did, which made no slots without a gradient.
        super().prepare(wrapper, used, used)

    def _build_inner(self, variables):
        count = len(self.inner._weights)
        # The optimizer's own apply_gradients uses this name scope for its variables.
        with tf.name_scope(self.inner._name):
            self.inner._create_all_weights(variables)
        weights = self.inner._weights
        if len(weights) > count or weights[0] is not self.inner.iterations:
            self._order_weights(variables)

    def _order_weights(self, variables):
        # If a checkpoint is restored first, the slots are made before the step counter,
        # variable by variable, and a later step may make more of them. Lists of weights
        # need the order of one first step.
        inner = self.inner
        names, table = inner.get_slot_names(), list(slots.table_of(inner))
        names.sort(key=lambda n: table.index(n) if n in table else len(table))
        pairs = [(name, variable) for name in names for variable in variables]
        if any(c.__name__ == "Ftrl" for c in type(inner).__mro__):  # makes both at once
            pairs = [(name, variable) for variable in variables for name in names]
        place = {}
        for name, variable in pairs:
            with contextlib.suppress(KeyError):  # a slot that only others have
                place[id(inner.get_slot(variable, name))] = 1 + len(place)
        inner._weights.sort(
            key=lambda w: (w is not inner.iterations, place.get(id(w), 0))
        )

    def aggregate(self, gradients, variables):
        pairs = list(zip(gradients, variables))
        pairs = self.inner._transform_unaggregated_gradients(pairs)
        return super().aggregate(*validation.unzip(pairs))

    @property
    def aggregates_in_full(self):
        aggregator = self.inner.gradient_aggregator
        return super().aggregates_in_full and kerases.is_of_one(aggregator)

    def decayed_lr(self, var_dtype):
        return self.inner._decayed_lr(var_dtype)
