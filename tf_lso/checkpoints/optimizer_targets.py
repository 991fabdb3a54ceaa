"""The variables of an optimizer that a file is restored into."""

import contextlib

import numpy as np
import tensorflow as tf

from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import Target
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.optimizers import slots
from tf_lso.optimizers.families import keras3_private
from tf_lso.scaling import loss_scale as loss_scale_lib


class OptimizerTargets:
    """The variables of a tf_lso.LossScaleOptimizer, or of one of Keras 3 or Keras 2."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.is_wrapper = isinstance(optimizer, optimizers.LossScaleOptimizer)
        self.inner = optimizer.inner_optimizer if self.is_wrapper else optimizer
        self.family = optimizers.require_family(self.inner).name
        if hasattr(self.inner, "inner_optimizer"):
            raise CheckpointError(
                f"'optimizer' is a {type(optimizer).__module__}."
                f"{type(optimizer).__name__}. Pass tf_lso.LossScaleOptimizer("
                "optimizer.inner_optimizer, ...), or the inner optimizer alone."
            )
        self.table = slots.table_of(self.inner)
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

    @property
    def order(self):
        """The model variables in the order of the build, empty if that is unknown."""
        if self.family != "keras3":
            return []
        return keras3_private.built_variables(self.inner)

    def slots(self, variables):
        """Return {(slot, id of a model variable): Target} for the model's `Target`s."""
        legacy = self.family == "legacy"
        slots_of = self._legacy_slots if legacy else self._listed_slots
        return {
            (slot, id(target.variable)): Target(
                f"optimizer/{slot}/{target.name}", variable
            )
            for target in variables
            for slot, variable in slots_of(target.variable)
        }

    def _legacy_slots(self, variable):
        for slot in self.inner.get_slot_names():
            with contextlib.suppress(KeyError):
                yield slot, self.inner.get_slot(variable, slot)

    def _listed_slots(self, variable):
        if self.family == "keras3":
            known, key = keras3_private.known_variables(self.inner)
        else:
            known, key = getattr(self.inner, "_index_dict", {}), self.inner._var_key
        place = known.get(key(variable))
        for slot, listed in slots.slot_lists(self.inner).items():
            if place is not None and place < len(listed):
                yield slot, listed[place]

    @property
    def scalars(self):
        """{name: Target} of variables that are neither slots nor counters."""
        for name in ("_u_product", "_m_cache"):
            variable = getattr(self.inner, name, None)
            if variable is not None:
                return {"momentum_cache": Target("optimizer/momentum_cache", variable)}
        return {}

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
