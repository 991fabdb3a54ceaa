"""The variables of an optimizer that a file is restored into."""

import contextlib

import numpy as np
import tensorflow as tf

from tf_lso import keras3_private
from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import Target, is_variable, name_of
from tf_lso.optimizers import binding
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.scaling import loss_scale as loss_scale_lib


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

    def check_class(self, source):
        """Raise if a file is from a class of optimizer whose slots mean something else."""
        name = None if source.optimizer is None else source.optimizer.class_name
        if name is None or name in self.class_names:
            return
        slots = table.of([name]).slots
        if not slots or slots | table.AVERAGE != self.table:
            raise CheckpointError(
                f"{source.path}: the optimizer in the file is of the class {name}, but "
                f"'optimizer' is of {self.class_names[0]}. Pass an optimizer of the class "
                "that it was trained with."
            )

    def build(self, model):
        """Create the variables of the optimizer of a `ModelTargets` if it has none yet.

        Then `own` has a `Target` for each but the counter and hyperparameters, in order,
        and `slots` their names.
        """
        trainable = [t for t in model.targets if t.variable.trainable]
        variables = [target.variable for target in trainable]
        if self.is_wrapper:
            self.optimizer.build(variables)
        elif self.family == "legacy":
            with tf.name_scope(self.inner._name):
                self.inner._create_all_weights(variables)
        else:
            self.inner.build(variables)
        # The `Target`s that it was built for, None for the variable of another model. An
        # OptimizerV2 does not tell.
        self.built = [] if self.family == "legacy" else self._built(model)
        self.order = self.built or trainable
        self.own = self._own(model)
        self.slots = {target.slot for target in self.own}

    @property
    def iterations(self):
        """The `Target` of the step counter."""
        is_keras3 = self.family == "keras3"
        of_keras3 = keras3_private.iteration_variable
        counter = of_keras3(self.inner) if is_keras3 else self.inner.iterations
        return Target("optimizer/iterations", counter)

    def _built(self, model):
        if self.family == "keras3":
            known, key = keras3_private.known_variables(self.inner)
        else:
            known, key = getattr(self.inner, "_index_dict", {}), self.inner._var_key
        place = {known.get(key(t.variable)): t for t in model.targets}
        return [place.get(number) for number in range(len(known))]

    def _own(self, model):
        attributes = {n: v for n, v in vars(self.inner).items() if is_variable(v)}
        rate = attributes.pop("_learning_rate", None)
        attributes.pop(layouts.COMPUTED, None)
        made = self.inner.variables
        made = [*(made() if callable(made) else made), *attributes.values()]
        heads = {id(self.iterations.variable), id(self.inner.iterations), id(rate)}
        own = {id(v): v for v in made if id(v) not in heads}
        is_legacy = self.family == "legacy"
        slots = self._legacy_slots(model) if is_legacy else self._listed_slots(own)
        labels = {
            id(v): (layouts.SCALARS.get(n, n), None) for n, v in attributes.items()
        }
        labels |= {id(variable): label for variable, *label in slots}
        return [_target(v, *labels.get(key, (None, None))) for key, v in own.items()]

    def _legacy_slots(self, model):
        """Yield (slot, its name, its model variable) of an OptimizerV2."""
        for slot in self.inner.get_slot_names():
            for target in model.targets:
                with contextlib.suppress(KeyError):
                    yield self.inner.get_slot(target.variable, slot), slot, target

    def _listed_slots(self, own):
        """Yield the same for each list with one entry per variable."""
        slot_of = table.slot_of_attributes(self.inner)
        for attribute, held in vars(self.inner).items():
            if attribute in layouts.NO_STATE or not isinstance(
                held, (list, tuple, dict)
            ):
                continue
            held = list(held.values() if isinstance(held, dict) else held)
            are_slots = all(slot is None or id(slot) in own for slot in held)
            if are_slots and len(held) == len(self.built):
                for slot, of in zip(held, self.built):
                    if of is not None:
                        yield slot, slot_of.get(attribute, attribute), of

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
        # `learning_rate` of the others is a number also if they have a schedule.
        is_rate = name == "learning_rate" and self.family != "legacy"
        value = getattr(self.inner, "_learning_rate" if is_rate else name, None)
        try:
            return float(np.asarray(value))
        except (TypeError, ValueError):  # of a schedule, or None
            return None

    def decays_by(self, rate):
        """Whether the learning rate is what OptimizerV2 computed with this `decay`."""
        schedule = getattr(self.inner, "_learning_rate", None)
        return (
            type(schedule).__name__ == "InverseTimeDecay"
            and np.float32(schedule.decay_rate) == np.float32(rate)
            and schedule.decay_steps == 1
            and not schedule.staircase
        )


def _target(variable, slot, of):
    """Return the `Target` of a variable that an optimizer made for itself."""
    if slot is None:
        slot = name_of(variable)
        return Target(f"optimizer/{slot}", variable, slot)
    name = f"optimizer/{slot}" if of is None else f"optimizer/{slot}/{of.name}"
    return Target(name, variable, slot, of)
