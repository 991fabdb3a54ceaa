"""Optimizer classes as users write them, with slots that no table of tf_lso contains."""

from tests.families import FAMILIES, KERASES
from tests.generation import HAS_KERAS3

_KERAS2 = KERASES["keras2"]


class LegacyWithSlots(FAMILIES["legacy"].Optimizer):
    """A legacy optimizer with any slots, as LARS, LAMB and averaging classes have them."""

    def __init__(self, slots=(), momentum=0.0, name="with_slots", **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper("momentum", momentum)
        self.slot_names = slots

    def _create_slots(self, variables):
        for slot in self.slot_names:
            for variable in variables:
                self.add_slot(variable, slot)

    def _resource_apply_dense(self, gradient, variable, apply_state=None):
        # The factor gives each slot a different value.
        for factor, slot in enumerate(self.slot_names, 1):
            self.get_slot(variable, slot).assign_add(factor * gradient)
        return variable.assign_sub(0.01 * gradient)

    def get_config(self):
        return {
            "name": self._name,
            "slots": self.slot_names,
            "momentum": self._serialize_hyperparameter("momentum"),
        }


class AveragingSGD(FAMILIES["legacy"].SGD):
    """A subclass of SGD that adds slots. SGD itself has the slot `momentum` if it uses it."""

    def _create_slots(self, variables):
        for variable in variables:
            self.add_slot(variable, "average")
            self.add_slot(variable, "momentum")

    def _resource_apply_dense(self, gradient, variable, apply_state=None):
        self.get_slot(variable, "average").assign_add(0.5 * gradient)
        self.get_slot(variable, "momentum").assign_add(gradient)
        return super()._resource_apply_dense(gradient, variable, apply_state)


class NewWithSlots(_KERAS2.optimizers.experimental.Optimizer):
    """A newer Keras 2 optimizer with any slots. Each attribute is a list of slot variables."""

    def __init__(self, slots=(), name="with_slots", **kwargs):
        super().__init__(name, **kwargs)
        self._learning_rate = self._build_learning_rate(0.01)
        self.slot_names = slots

    def build(self, variables):
        super().build(variables)
        if getattr(self, "_built", False):
            return
        for name in self.slot_names:
            slots = [self.add_variable_from_reference(v, name) for v in variables]
            setattr(self, name, slots)
        self._built = True

    def update_step(self, gradient, variable):
        index = self._index_dict[self._var_key(variable)]
        for factor, name in enumerate(self.slot_names, 1):
            getattr(self, name)[index].assign_add(factor * gradient)
        variable.assign_sub(0.01 * gradient)

    def get_config(self):
        return {"name": self.name, "slots": self.slot_names}


# Maps a family to its class with any slots.
WITH_SLOTS = {"legacy": LegacyWithSlots, "new": NewWithSlots}

if HAS_KERAS3:

    class Keras3WithSlots(KERASES["keras3"].optimizers.Optimizer):
        """A Keras 3 optimizer with any slots, a dict of slots and a single variable.

        Each other attribute is a list of slot variables.
        """

        def __init__(self, slots=(), name="with_slots", **kwargs):
            super().__init__(0.01, name=name, **kwargs)
            self.slot_names = slots

        def build(self, variables):
            if self.built:
                return
            super().build(variables)
            for name in self.slot_names:
                slots = [self.add_variable_from_reference(v, name) for v in variables]
                setattr(self, name, slots)
            self.by_path = {
                v.path: self.add_variable_from_reference(v, "by_path")
                for v in variables
            }
            self.one = self.add_variable((), "zeros", name="one")

        def update_step(self, gradient, variable, learning_rate):
            index = self._get_variable_index(variable)
            for factor, name in enumerate(self.slot_names, 1):
                getattr(self, name)[index].assign_add(factor * gradient)
            # `variable` is a TensorFlow variable without a path, so find the slot by its place.
            list(self.by_path.values())[index].assign_add(7 * gradient)
            self.one.assign_add(1.0)
            variable.assign_sub(learning_rate * gradient)

        def get_config(self):
            config = super().get_config()
            config.pop("learning_rate")
            return config | {"slots": self.slot_names}

    WITH_SLOTS["keras3"] = Keras3WithSlots
