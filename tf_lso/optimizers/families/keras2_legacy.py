"""The adapter to legacy optimizers of Keras 2, which are OptimizerV2.

Most of what an OptimizerV2 does for its subclasses has private names, and the wrapper is
a subclass. tests/test_private_names.py fails when Keras 2 moves a name.
"""

import copy

import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, tf_private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import slots, validation
from tf_lso.optimizers.families import family, keras2

# On where `_aggregate_gradients` is to return pairs whatever `patches.like` makes of it.
aggregates_pairs = graphs.ThreadSwitch()


def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
    """Restore a slot of a checkpoint, unless the inner optimizer was made without it."""
    inner = self.inner_optimizer
    if table.differing_slots([slot_name], inner)[0]:
        raise ValueError(slots.too_many(inner))
    self._family.restored[id(variable)] = variable
    restore = inner._create_or_restore_slot_variable
    return restore(slot_variable_position, slot_name, variable)


class Legacy(keras2.Keras2):
    """The adapter to legacy optimizers of Keras 2, which are OptimizerV2."""

    name = "legacy"
    returns_operations = True
    newer_names = ("_variables", "_trainable_variables")
    without_aggregation = (("experimental_aggregate_gradients", False),)
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
        self.restored = {}  # id -> variable with slots of a checkpoint, not yet built for

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        return self.inner._compute_gradients(loss, var_list, grad_loss, tape=tape)

    def prepare(self, wrapper, variables, used):
        # As TensorFlow's class did, which made no slots without a gradient.
        super().prepare(wrapper, used, used)

    def build(self, wrapper, variables):
        with variables_lib.building:
            given, before = {id(v) for v in variables}, self.built_variables()
            others = [v for v in before if id(v) not in given]
            if others and given <= {id(v) for v in before}:
                return
            super().build(wrapper, [*others, *variables])
            self.is_built_in_parts = bool(others)

    def built_variables(self):
        # Asked for also before all else that depends on the order of the slots.
        restored, self.restored = self.restored, {}
        if restored:
            known = {id(v) for v in super().built_variables()}
            self.build(None, list(restored.values()))
            self.is_built_in_parts |= not known >= restored.keys()
        return super().built_variables()

    def weights(self):
        self.built_variables()
        return super().weights()

    def dependencies(self, children, save_type, **kwargs):
        if not tf_private.deferred(self.inner):
            return children
        # A checkpoint was restored before the first step. What it has but the slots is
        # restored when it is made, and would not be in what is saved now.
        self.counter()
        _ = self.inner.learning_rate  # makes all hyperparameters
        return tf_private.children(self.inner, save_type, **kwargs)

    def order_slots(self, wrapper, variables):
        if self.built_variables():
            wrapper.build(variables)

    def _build_inner(self, variables):
        # Slots that were made before are returned again. So this is their order if one
        # first step makes all of them, which lists of weights need: a checkpoint that is
        # restored first makes them before the step counter, and later steps make more.
        inner, place = self.inner, {}

        def add_slot(*args, **kwargs):
            slot = type(inner).add_slot(inner, *args, **kwargs)
            place.setdefault(id(slot), len(place) + 1)
            return slot

        variables_lib.set_untracked(inner, "add_slot", add_slot)
        try:
            # The optimizer's own apply_gradients uses this name scope for its variables.
            with tf.name_scope(inner._name):
                inner._create_all_weights(variables)
        finally:
            del inner.add_slot
        places = [place[id(w)] for w in inner._weights if id(w) in place]
        if inner._weights[0] is not inner.iterations or places != sorted(places):
            inner._weights.sort(
                key=lambda w: (w is not inner.iterations, place.get(id(w), 0))
            )

    def deep_copied(self, memo):
        # As Python copies the bare one, with all its attributes and hyperparameters.
        try:
            copied = copy.deepcopy(self.inner, dict(memo))
        except (NotImplementedError, TypeError):
            # Variables of a graph of TensorFlow 1 cannot be copied, nor can the tensor of a
            # traced step that a Nadam keeps.
            return None
        variables_lib.set_untracked(copied, validation.MARK, False)
        return copied

    def aggregate(self, gradients, variables):
        pairs = list(zip(gradients, variables))
        pairs = self.inner._transform_unaggregated_gradients(pairs)
        with aggregates_pairs.on():
            return super().aggregate(*validation.unzip(pairs))

    @property
    def aggregates_in_full(self):
        aggregator = self.inner.gradient_aggregator
        return super().aggregates_in_full and keras_versions.is_of_one(aggregator)

    def decayed_lr(self, var_dtype):
        return self.inner._decayed_lr(var_dtype)
