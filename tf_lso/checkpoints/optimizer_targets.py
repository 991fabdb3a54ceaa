"""The variables of an optimizer that a file is restored into."""

import contextlib
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tf_lso import keras3_private
from tf_lso import optimizer_table as table
from tf_lso import variables as variables_lib
from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import Target, is_variable
from tf_lso.optimizers import binding
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.scaling import loss_scale as loss_scale_lib


@dataclasses.dataclass(frozen=True)
class Own:
    """A variable that an optimizer made for itself: a slot, or one of its own."""

    target: Target
    name: str  # of the slot, or of the variable
    of: Any = None  # the `Target` of the model variable that the slot belongs to


class OptimizerTargets:
    """The variables of a tf_lso.LossScaleOptimizer, or of one of Keras 3 or Keras 2.

    They are what the optimizer has, whatever its class. Of a class in the table of
    `optimizers`, the slots have the names of OptimizerV2, else those of its attributes.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.is_wrapper = isinstance(optimizer, optimizers.LossScaleOptimizer)
        self.inner = optimizer.inner_optimizer if self.is_wrapper else optimizer
        self.family = binding.require_family(self.inner).name
        if hasattr(self.inner, "inner_optimizer"):
            raise CheckpointError(
                f"'optimizer' is a {type(optimizer).__module__}."
                f"{type(optimizer).__name__}. Pass tf_lso.LossScaleOptimizer("
                "optimizer.inner_optimizer, ...), or the inner optimizer alone."
            )
        if self.family == "keras3" and hasattr(self.inner, "optimizers"):
            raise CheckpointError(
                f"'optimizer' is a {type(self.inner).__name__}, which restore() does not "
                "restore. tf.train.Checkpoint(...).restore and model.load_weights do, "
                "from files of the same optimizer."
            )
        self.table = table.attributes_of_slots(self.inner)
        self.class_names = [cls.__name__ for cls in type(self.inner).__mro__]

    def build(self, variables):
        """Create the variables of the optimizer if it has none yet."""
        if self.is_wrapper:
            self.optimizer.build(variables)
        elif self.family == "legacy":
            with tf.name_scope(self.inner._name):
                self.inner._create_all_weights(variables)
        else:
            self.inner.build(variables)

    @property
    def iterations(self):
        """The `Target` of the step counter."""
        counter = (
            keras3_private.iteration_variable(self.inner)
            if self.family == "keras3"
            else self.inner.iterations
        )
        return Target("optimizer/iterations", counter)

    def order(self, model):
        """Return the `Target`s of `model` in the order of the build; [] if it is unknown.

        None stands for a variable of another model. `model` is the `ModelTargets`.
        """
        if self.family == "legacy":  # does not tell
            return []
        if self.family == "keras3":
            known, key = keras3_private.known_variables(self.inner)
        else:
            known, key = getattr(self.inner, "_index_dict", {}), self.inner._var_key
        place = {known.get(key(t.variable)): t for t in model.targets}
        return [place.get(number) for number in range(len(known))]

    def state(self, model):
        """Return an `Own` for each variable but the counter and hyperparameters, in order.

        `model` is the `ModelTargets`.
        """
        attributes = {n: v for n, v in vars(self.inner).items() if is_variable(v)}
        rate = attributes.pop("_learning_rate", None)
        attributes.pop(layouts.COMPUTED, None)
        made = self.inner.variables
        made = [*(made() if callable(made) else made), *attributes.values()]
        heads = {id(self.iterations.variable), id(self.inner.iterations), id(rate)}
        own = {id(v): v for v in made if id(v) not in heads}
        found = self._legacy_slots if self.family == "legacy" else self._listed_slots
        slot_of = {id(slot): rest for slot, *rest in found(own, model)}
        name_of = {id(v): layouts.SCALARS.get(n, n) for n, v in attributes.items()}
        return [
            _slot(variable, *slot_of[key])
            if key in slot_of
            else _alone(variable, name_of.get(key))
            for key, variable in own.items()
        ]

    def _legacy_slots(self, own, model):
        del own
        for slot in self.inner.get_slot_names():
            for target in model.targets:
                with contextlib.suppress(KeyError):
                    yield self.inner.get_slot(target.variable, slot), slot, target

    def _listed_slots(self, own, model):
        """Yield (slot, name, model variable) of each list with one entry per variable."""
        order = self.order(model)
        names = table.slot_of_attributes(self.inner)
        for attribute, held in vars(self.inner).items():
            if attribute in layouts.NO_STATE or not isinstance(
                held, (list, tuple, dict)
            ):
                continue
            held = list(held.values() if isinstance(held, dict) else held)
            if len(held) == len(order) and all(
                slot is None or id(slot) in own for slot in held
            ):
                for slot, target in zip(held, order):
                    yield slot, names.get(attribute, attribute), target

    def first_value(self, slot):
        """Return the number that a slot holds when it is made, None if it is unknown."""
        if slot not in self.table or slot in table.AVERAGE:
            return None
        if slot != "accumulator":
            return 0.0
        return self.inner.get_config().get("initial_accumulator_value")

    @property
    def loss_scale(self):
        """{"scale": Target, "count": Target}; empty if the scale is fixed."""
        state = self.optimizer.loss_scale_state if self.is_wrapper else None
        if not isinstance(state, loss_scale_lib.DynamicLossScale):
            return {}
        named = dict(state.named_variables())
        return {
            "scale": Target("optimizer/loss_scale", named["current_loss_scale"]),
            "count": Target("optimizer/dynamic_counter", named["good_steps"]),
        }

    def hyperparameter(self, name):
        """Return the value of a hyperparameter, a float; None if it is no number."""
        if self.family == "legacy":
            value = self.inner._hyper.get(name)
        elif name == "learning_rate":
            value = self.inner._learning_rate
        else:
            value = getattr(self.inner, name, None)
        try:
            return float(np.asarray(value))
        except (TypeError, ValueError):  # of a schedule, or None
            return None

    def decays_by(self, rate):
        """Whether the learning rate is what OptimizerV2 computed with this `decay`."""
        schedule = self.inner._learning_rate
        return (
            type(schedule).__name__ == "InverseTimeDecay"
            and np.float32(schedule.decay_rate) == np.float32(rate)
            and schedule.decay_steps == 1
            and not schedule.staircase
        )

    def set_hyperparameter(self, name, value):
        """Set a hyperparameter to a float."""
        if self.family == "legacy":
            self.inner._set_hyper(name, value)
        else:
            setattr(self.inner, name, value)


def _slot(slot, name, of):
    owner = variables_lib.name_of(slot) if of is None else of.name
    return Own(Target(f"optimizer/{name}/{owner}", slot), name, of)


def _alone(variable, name):
    name = name or variables_lib.name_of(variable).split(":")[0]
    return Own(Target(f"optimizer/{name}", variable), name)
