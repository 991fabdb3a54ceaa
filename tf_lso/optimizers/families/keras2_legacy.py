"""The adapter to legacy optimizers of Keras 2, which are OptimizerV2.

Most of what an OptimizerV2 does for its subclasses has private names, and the wrapper is
a subclass. tests/test_keras2_private.py fails when Keras 2 moves a name.
"""

import tensorflow as tf

from tf_lso import kerases
from tf_lso.optimizers import hyperparameters, slots, validation
from tf_lso.optimizers.families import keras2
from tf_lso.optimizers.families.family import forwarded
from tf_lso.scaling import replica

# What OptimizerV2 would do for the wrapper alone.
_OF_INNER = (
    "_aggregate_gradients",
    "_restore_slot_variable",
    "_create_or_restore_slot_variable",
)


class Legacy(keras2.Keras2):
    """The adapter to legacy optimizers of Keras 2, which are OptimizerV2."""

    name = "legacy"
    base_name = "optimizers.legacy.Optimizer"
    returns_operations = True
    aggregation_off = {"experimental_aggregate_gradients": False}  # noqa: RUF012
    newer_names = ("_variables", "_trainable_variables")
    members = {  # noqa: RUF012
        "_HAS_AGGREGATE_GRAD": True,
        **{name: forwarded(name) for name in _OF_INNER},
    }

    def inner_name(self):
        """Return the name of the inner optimizer."""
        return self.inner._name

    def hyperparameters(self):
        """Return the names that the wrapper reads and sets on the inner optimizer."""
        return hyperparameters.delegated_names(self.inner, own=self.inner._hyper)

    def aggregate(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        inner = self.inner
        pairs = inner._transform_unaggregated_gradients(list(zip(gradients, variables)))
        if not (self.aggregates_in_full and replica.is_alone()):
            pairs = inner._aggregate_gradients(pairs)
        return validation.unzip(pairs)

    def sum_over_replicas(self, gradients, variables):
        """Return the gradients summed over all replicas."""
        pairs = list(zip(gradients, variables))
        return validation.unzip(self.inner._aggregate_gradients(pairs))[0]

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        is_own = type(self.inner)._aggregate_gradients is self.base._aggregate_gradients
        return is_own and kerases.is_of_one(self.inner.gradient_aggregator)

    def prepare(self, wrapper, variables, used):
        """Make slots for variables that are new, as TensorFlow's class did."""
        del variables  # it made none for those without a gradient
        if self.unchecked(used):
            wrapper.build(used)
            self.note_checked(used)

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
        table = list(slots.table_of(inner))
        names = sorted(
            inner.get_slot_names(),
            key=lambda name: table.index(name) if name in table else len(table),
        )
        pairs = [(name, variable) for name in names for variable in variables]
        if any(
            cls.__name__ == "Ftrl" for cls in type(inner).__mro__
        ):  # makes both at once
            pairs = [(name, variable) for variable in variables for name in names]
        slots_made = [_slot(inner, variable, name) for name, variable in pairs]
        listed = [slot for slot in slots_made if slot is not None]
        position = {id(slot): place for place, slot in enumerate(listed, 1)}
        first = [w for w in inner._weights if id(w) not in position]
        first.sort(key=lambda weight: weight is not inner.iterations)
        inner._weights[:] = [*first, *listed]

    def layouts(self, own):
        """Return the layouts; see `Family.layouts`."""
        self.counter()  # an OptimizerV2 makes it when it is first asked for
        return super().layouts(own)

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return (gradient, variable) pairs of a scaled loss."""
        return self.inner._compute_gradients(loss, var_list, grad_loss, tape=tape)

    def decayed_lr(self, var_dtype):
        """Return the learning rate of the next step."""
        return self.inner._decayed_lr(var_dtype)

    def get_hyperparameter(self, name):
        """Return a hyperparameter of the inner optimizer."""
        return self.inner._get_hyper(name)

    def set_hyperparameter(self, name, value):
        """Set a hyperparameter, a variable: a number reaches steps already traced."""
        self.inner._set_hyper(name, value)
        return False

    def get_slot_names(self):
        """Return the slot names that the inner optimizer has built."""
        return self.inner.get_slot_names()

    def get_slot(self, var, slot_name):
        """Return the slot variable of a model variable."""
        return self.inner.get_slot(var, slot_name)

    def add_slot(self, var, slot_name, *args, **kwargs):
        """Return the slot variable of a model variable, made if it does not exist."""
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
