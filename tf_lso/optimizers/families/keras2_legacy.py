"""The adapter to the legacy optimizers of Keras 2, the subclasses of OptimizerV2.

The wrapper is a subclass of OptimizerV2 and overrides some private methods of this class.
"""

import copy

from tf_lso.frameworks import graphs, hyperparameters, keras_versions, tf_private
from tf_lso.frameworks import keras2_private as private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import manifest_comparison, slots, validation
from tf_lso.optimizers.families import family, keras2
from tf_lso.scaling import gradients as gradients_lib

# After `install(like=...)`, the method `_aggregate_gradients` of legacy optimizers may return
# gradients without variables. While this switch is on, the method returns pairs of both.
aggregates_pairs = graphs.ThreadSwitch()


def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
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
    members = {  # noqa: RUF012
        "_HAS_AGGREGATE_GRAD": True,
        **{name: family.forwarded(name) for name in private.OF_INNER_OPTIMIZER},
        "_create_or_restore_slot_variable": _create_or_restore_slot_variable,
    }

    def __init__(self, inner):
        super().__init__(inner)
        self.slots = inner
        # Maps ids to the model variables whose slots TensorFlow has restored before the build.
        self.restored = {}

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        return private.compute_gradients(self.inner, loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        # Create slots only for the variables that have a gradient, as OptimizerV2 did.
        super().prepare(wrapper, used, used)

    def build(self, wrapper, variables):
        with variables_lib.building:
            given, before = {id(v) for v in variables}, self.built_variables()
            others = [v for v in before if id(v) not in given]
            if others and given <= {id(v) for v in before}:
                return
            super().build(wrapper, [*others, *variables])

    def built_variables(self):
        # TensorFlow may have restored the slots in another order, and the build sorts them.
        # Methods that need sorted slots call `built_variables` first.
        restored, self.restored = self.restored, {}
        if restored:
            self.build(None, list(restored.values()))
        return super().built_variables()

    def weights(self):
        self.built_variables()
        return super().weights()

    def dependencies(self, children, save_type, **kwargs):
        waiting = set(tf_private.deferred(self.inner))
        if not waiting:
            return children
        # If a checkpoint was restored before the first step, TensorFlow restores the step
        # counter and the hyperparameters only when their variables are created. Without these
        # variables, the next checkpoint would lack the values. If the checkpoint itself lacks
        # hyperparameters, `assert_existing_objects_matched` would report their variables.
        self.counter()
        if waiting & hyperparameters.delegated_names(self.inner):
            private.create_hyperparameters(self.inner)
        return tf_private.children(self.inner, save_type, **kwargs)

    def labels(self, variables):
        inner, built = self.inner, self.built_variables()
        found = {
            id(inner.get_slot(v, slot)): (slot, number)
            for slot in inner.get_slot_names()
            for number, v in enumerate(built)
            if private.has_slot(inner, v, slot)
        }
        others = manifest_lib.labels(inner, variables, built)
        return [found.get(id(v), label) for v, label in zip(variables, others)]

    def expect(self, saved, own):
        # TensorFlow itself restores each slot of a legacy optimizer by its model variable. So
        # the order does not matter. If the file has no slots for a variable, its slots stay.
        names = own.names
        if not own.is_built:
            more, fewer = table.differing_slots(saved.names, self.inner)
            names = saved.names - more | fewer
        own = own._replace(slots=[(name, None) for name in names])
        manifest_comparison.check_slots(saved, own)

    def forget(self):
        return lambda: None

    def discard_waiting(self):
        # The restore of a checkpoint has already created the slots.
        pass

    def order_slots(self, wrapper, variables):
        if self.built_variables():
            wrapper.build(variables)

    def _build_inner(self, variables):
        # Sort the inner optimizer's list of weights as if this build had created all slots:
        # first the step counter, and then the slots in the order of the `add_slot` calls. A
        # build makes these calls even for slots that exist. The list can have another order,
        # because the restore of a checkpoint creates slots before the step counter.
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
        try:
            copied = copy.deepcopy(self.inner, dict(memo))
        except (NotImplementedError, TypeError):
            # Python cannot copy a variable in a graph of TensorFlow 1, or a tensor of a traced
            # step. A Nadam may have such a tensor as an attribute.
            return None
        private.unmark(copied)
        return copied

    def aggregate(self, gradients, variables):
        if private.transforms(self.inner, self.base):
            pairs = list(zip(gradients_lib.divided(gradients), variables))
            pairs = private.transformed(self.inner, pairs)
            gradients, variables = validation.unzip(pairs)
        with aggregates_pairs.on():
            return super().aggregate(gradients, variables)

    @property
    def aggregates_in_full(self):
        aggregator = self.inner.gradient_aggregator
        return super().aggregates_in_full and keras_versions.is_of_one(aggregator)

    def decayed_lr(self, var_dtype):
        return private.decayed_lr(self.inner, var_dtype)


def of_package(package):
    """Return the adapter class for the legacy optimizers of "keras" or "tf_keras"."""
    base = keras_versions.optimizer_bases(package)["legacy"]
    # Without eager execution, `fit` checks whether the optimizer is an instance of this
    # private class of Keras. The public LossScaleOptimizer is another class.
    bases = (private.own_wrapper_of_legacy(package),)
    return type("Legacy", (Legacy,), {"package": package, "base": base, "bases": bases})
