"""The adapter to the legacy optimizers of Keras 2, which are instances of OptimizerV2.

The wrapper is a subclass of OptimizerV2 and overrides some of its private methods.
tests/test_private_names.py fails if Keras 2 moves one of them.
"""

import copy
from types import MappingProxyType

from tf_lso.frameworks import graphs, keras_versions, tf_private
from tf_lso.frameworks import keras2_private as private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import slots, validation
from tf_lso.optimizers.families import family, keras2

# While this switch is on, `_aggregate_gradients` returns pairs, even if `install(like=...)`
# has changed what this method returns.
aggregates_pairs = graphs.ThreadSwitch()


def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
    """Restore a slot of a checkpoint, or raise if the inner optimizer has no such slot."""
    inner = self.inner_optimizer
    if table.differing_slots([slot_name], inner)[0]:
        raise ValueError(slots.too_many(inner))
    self._family.restored[id(variable)] = variable
    return tf_private.restore_slot(inner, slot_variable_position, slot_name, variable)


class Legacy(keras2.Keras2):
    """The adapter to the legacy optimizers of Keras 2."""

    name = "legacy"
    returns_operations = True
    newer_names = ("_variables", "_trainable_variables")
    without_aggregation = (("experimental_aggregate_gradients", False),)
    not_in_files = MappingProxyType(
        {**keras2.Keras2.not_in_files, ".keras": "state of a legacy optimizer"}
    )
    members = {  # noqa: RUF012
        "_HAS_AGGREGATE_GRAD": True,
        **{name: family.forwarded(name) for name in private.OF_INNER_OPTIMIZER},
        "_create_or_restore_slot_variable": _create_or_restore_slot_variable,
    }

    def __init__(self, inner):
        super().__init__(inner)
        self.slots = inner
        # id -> variable that has slots from a checkpoint, but for which nothing was built yet.
        self.restored = {}

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        return private.compute_gradients(self.inner, loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        # Build only for variables that have a gradient, as TensorFlow's class did.
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
        # All methods that depend on the order of the slots call `built_variables` first.
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
        # A checkpoint was restored before the first step. Values that are no slots are restored
        # when the variables for them are made. These lines make the variables, so that the
        # values are saved now.
        self.counter()
        _ = self.inner.learning_rate  # makes all hyperparameters
        return tf_private.children(self.inner, save_type, **kwargs)

    def order_slots(self, wrapper, variables):
        if self.built_variables():
            wrapper.build(variables)

    def _build_inner(self, variables):
        # A list of weights must have the order in which a single first step would make all
        # slots. But if a checkpoint is restored first, slots are made before the step counter,
        # and further slots are made in later steps. To find the right order, this build asks
        # again for all slots, including those that exist.
        inner, place = self.inner, {}

        def add_slot(*args, **kwargs):
            slot = type(inner).add_slot(inner, *args, **kwargs)
            place.setdefault(id(slot), len(place) + 1)
            return slot

        variables_lib.set_untracked(inner, "add_slot", add_slot)
        try:
            private.build_legacy(inner, variables)
        finally:
            del inner.add_slot
        weights = private.listed_weights(inner)
        places = [place[id(w)] for w in weights if id(w) in place]
        if weights[0] is not inner.iterations or places != sorted(places):
            weights.sort(key=lambda w: (w is not inner.iterations, place.get(id(w), 0)))

    def deep_copied(self, memo):
        # `copy.deepcopy` copies all attributes and hyperparameters, as it does for an optimizer
        # that is not wrapped.
        try:
            copied = copy.deepcopy(self.inner, dict(memo))
        except (NotImplementedError, TypeError):
            # Variables of a graph of TensorFlow 1 cannot be copied. A Nadam may hold a tensor
            # of a traced step, which cannot be copied either.
            return None
        private.unmark(copied)
        return copied

    def aggregate(self, gradients, variables):
        pairs = list(zip(gradients, variables))
        pairs = private.transformed(self.inner, pairs)
        with aggregates_pairs.on():
            return super().aggregate(*validation.unzip(pairs))

    @property
    def aggregates_in_full(self):
        aggregator = self.inner.gradient_aggregator
        return super().aggregates_in_full and keras_versions.is_of_one(aggregator)

    def decayed_lr(self, var_dtype):
        return private.decayed_lr(self.inner, var_dtype)
