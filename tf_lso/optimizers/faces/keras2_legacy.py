"""The face for legacy optimizers of Keras 2, which are OptimizerV2.

Most of what an OptimizerV2 does for its subclasses has private names, and the wrapper is
a subclass. tests/test_keras2_private.py fails when Keras 2 moves a name.
"""

import tensorflow as tf

from tf_lso import kerases
from tf_lso.optimizers import validation
from tf_lso.optimizers.faces import keras2
from tf_lso.optimizers.surface import attributes, hyperparameters, slots
from tf_lso.scaling import replica


class LegacyFace(keras2.Keras2Face):
    """The face for legacy optimizers of Keras 2, which are OptimizerV2."""

    _HAS_AGGREGATE_GRAD = True
    _returns_operations = True
    _family = "legacy"
    _aggregation_off = {"experimental_aggregate_gradients": False}  # noqa: RUF012

    @staticmethod
    def _base_in(keras):
        return keras.optimizers.legacy.Optimizer

    @staticmethod
    def _hyperparameters_of(inner):
        return hyperparameters.delegated_names(inner, own=inner._hyper)

    @property
    def _inner_name(self):
        return self.inner_optimizer._name

    def aggregate_inner(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        inner = self.inner_optimizer
        pairs = inner._transform_unaggregated_gradients(list(zip(gradients, variables)))
        if not (self.aggregates_in_full and replica.is_alone()):
            pairs = self._aggregate_gradients(pairs)
        return validation.unzip(pairs)

    def _sum_over_replicas(self, gradients, variables):
        return validation.unzip(
            self._aggregate_gradients(list(zip(gradients, variables)))
        )[0]

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        inner = self.inner_optimizer
        is_own = type(inner)._aggregate_gradients is self._base._aggregate_gradients
        return is_own and kerases.is_of_one(inner.gradient_aggregator)

    def _prepare_step(self, variables, used):
        # As TensorFlow's class, which made no slots for variables without a gradient.
        if self._unchecked(used):
            self.build(used)
            self._note_checked(used)

    def _build_inner(self, variables):
        # The optimizer's own apply_gradients uses this name scope for its variables.
        with tf.name_scope(self._inner_name):
            self.inner_optimizer._create_all_weights(variables)
        self._order_weights(variables)

    def _order_weights(self, variables):
        # If a checkpoint is restored first, the slots are made before the step counter,
        # variable by variable. Lists of weights need the order of a first step.
        inner = self.inner_optimizer
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

    def _layouts(self):
        self._counter()  # an OptimizerV2 makes it when it is first asked for
        return super()._layouts()

    def _compute_inner(self, loss, var_list, grad_loss, tape):
        return self.inner_optimizer._compute_gradients(
            loss, var_list, grad_loss, tape=tape
        )

    def _get_hyperparameter(self, name):
        return self.inner_optimizer._get_hyper(name)

    def _set_hyperparameter(self, name, value):
        # A number reaches steps already traced, since hyperparameters are variables.
        self.inner_optimizer._set_hyper(name, value)

    # Those of the base class would change only the wrapper.
    get_slot_names = attributes.method_of_inner("get_slot_names")
    get_slot = attributes.method_of_inner("get_slot")
    add_slot = attributes.method_of_inner("add_slot")
    add_weight = attributes.method_of_inner("add_weight")
    _aggregate_gradients = attributes.method_of_inner("_aggregate_gradients")
    _create_all_weights = attributes.method_of_inner("_create_all_weights")
    _decayed_lr = attributes.method_of_inner("_decayed_lr")
    _restore_slot_variable = attributes.method_of_inner("_restore_slot_variable")
    _create_or_restore_slot_variable = attributes.method_of_inner(
        "_create_or_restore_slot_variable"
    )


def _slot(inner, variable, name):
    """Return a slot of an OptimizerV2, or None if it was not made yet."""
    try:
        return inner.get_slot(variable, name)
    except KeyError:
        return None
