"""The adapter to legacy optimizers of Keras 2, which are OptimizerV2.

Most of what an OptimizerV2 does for its subclasses has private names, and the wrapper is
a subclass. tests/test_keras2_private.py fails when Keras 2 moves a name.
"""

import tensorflow as tf

from tf_lso import kerases, replica
from tf_lso.optimizers import hyperparameters, slots, validation
from tf_lso.optimizers.families import family, keras2


class Legacy(keras2.Keras2):
    """The adapter to legacy optimizers of Keras 2, which are OptimizerV2."""

    name = "legacy"
    base_name = "optimizers.legacy.Optimizer"
    returns_operations = True
    aggregation_off = {"experimental_aggregate_gradients": False}  # noqa: RUF012
    newer_names = ("_variables", "_trainable_variables")
    members = {  # noqa: RUF012
        "_HAS_AGGREGATE_GRAD": True,
        # What OptimizerV2 would do for the wrapper alone.
        "_aggregate_gradients": family.forwarded("_aggregate_gradients"),
        "_restore_slot_variable": family.forwarded("_restore_slot_variable"),
        "_create_or_restore_slot_variable": family.forwarded(
            "_create_or_restore_slot_variable"
        ),
    }

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        return self.inner._compute_gradients(loss, var_list, grad_loss, tape=tape)

    def prepare(self, wrapper, variables, used):
        # As TensorFlow's class did, which made no slots without a gradient.
        super().prepare(wrapper, used, used)

    def _build_inner(self, variables):
        # The optimizer's own apply_gradients uses this name scope for its variables.
        with tf.name_scope(self.inner._name):
            self.inner._create_all_weights(variables)
        self._order_weights(variables)

    def _order_weights(self, variables):
        # If a checkpoint is restored first, the slots are made before the step counter,
        # variable by variable. Lists of weights need the order of a first step.
        inner = self.inner
        if not inner._weights or inner._weights[0] is inner.iterations:
            return
        names, table = inner.get_slot_names(), list(slots.table_of(inner))
        names.sort(key=lambda n: table.index(n) if n in table else len(table))
        pairs = [(name, variable) for name in names for variable in variables]
        if any(c.__name__ == "Ftrl" for c in type(inner).__mro__):  # makes both at once
            pairs = [(name, variable) for variable in variables for name in names]
        slots_made = [_slot(inner, variable, name) for name, variable in pairs]
        listed = [slot for slot in slots_made if slot is not None]
        position = {id(slot): place for place, slot in enumerate(listed, 1)}
        first = [w for w in inner._weights if id(w) not in position]
        first.sort(key=lambda weight: weight is not inner.iterations)
        inner._weights[:] = [*first, *listed]

    def aggregate(self, gradients, variables):
        inner = self.inner
        pairs = inner._transform_unaggregated_gradients(list(zip(gradients, variables)))
        if not (self.aggregates_in_full and replica.is_alone()):
            pairs = inner._aggregate_gradients(pairs)
        return validation.unzip(pairs)

    def sum_over_replicas(self, gradients, variables):
        pairs = list(zip(gradients, variables))
        return validation.unzip(self.inner._aggregate_gradients(pairs))[0]

    @property
    def aggregates_in_full(self):
        is_own = type(self.inner)._aggregate_gradients is self.base._aggregate_gradients
        return is_own and kerases.is_of_one(self.inner.gradient_aggregator)

    def decayed_lr(self, var_dtype):
        return self.inner._decayed_lr(var_dtype)

    def inner_name(self):
        return self.inner._name

    def hyperparameters(self):
        return hyperparameters.delegated_names(self.inner, own=self.inner._hyper)

    def get_hyperparameter(self, name):
        return self.inner._get_hyper(name)

    def set_hyperparameter(self, name, value):
        self.inner._set_hyper(name, value)
        return False  # it is a variable: a number reaches steps already traced

    def layouts(self, own):
        self.counter()  # an OptimizerV2 makes it when it is first asked for
        return super().layouts(own)

    def get_slot_names(self):
        """Return the slot names that the inner optimizer has built, a list."""
        return self.inner.get_slot_names()

    def get_slot(self, var, slot_name):
        """Return the slot variable of a model variable."""
        return self.inner.get_slot(var, slot_name)

    def add_slot(self, var, slot_name, *args, **kwargs):
        """Return the slot variable of a model variable, made if it is new."""
        return self.inner.add_slot(var, slot_name, *args, **kwargs)

    def add_weight(self, name, *args, **kwargs):
        """Return a new variable of the inner optimizer."""
        return self.inner.add_weight(name, *args, **kwargs)


def _slot(inner, variable, name):
    """Return a slot of an OptimizerV2, or None if it was not made yet."""
    try:
        return inner.get_slot(variable, name)
    except KeyError:
        return None
