"""The variables of an optimizer that a file is restored into."""

import contextlib

import numpy as np
import tensorflow as tf

from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import Target
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.optimizers.faces import keras3_private
from tf_lso.optimizers.surface import slots
from tf_lso.scaling import loss_scale as loss_scale_lib


class OptimizerTargets:
    """The variables of a tf_lso.LossScaleOptimizer, or of one of Keras 3 or Keras 2."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.is_wrapper = isinstance(optimizer, optimizers.LossScaleOptimizer)
        self.inner = optimizer.inner_optimizer if self.is_wrapper else optimizer
        self._face = optimizers.face_of(self.inner)
        if hasattr(self.inner, "inner_optimizer"):
            raise CheckpointError(
                f"'optimizer' is a {type(optimizer).__module__}."
                f"{type(optimizer).__name__}. Pass tf_lso.LossScaleOptimizer("
                "optimizer.inner_optimizer, ...), or the inner optimizer alone."
            )
        self.table = slots.table_of(self.inner)

    @property
    def class_names(self):
        """The class names of the inner optimizer, its own class first."""
        return [cls.__name__ for cls in type(self.inner).__mro__]

    @property
    def family(self):
        """The family of the inner optimizer: "keras3", "legacy" or "new"."""
        return self._face._family

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
        """The model variables in the order of the build, None if that is unknown."""
        if self.family == "keras3":
            return list(self.inner._trainable_variables)
        return None

    def slots(self, variables):
        """Return {(slot, id of a model variable): Target} for the model's `Target`s."""
        found = {}
        lists = {} if self.family == "legacy" else slots.slot_lists(self.inner)
        for target in variables:
            if self.family == "legacy":
                of_it = self._legacy_slots(target.variable)
            else:
                place = self._place(target.variable)
                of_it = (
                    {}
                    if place is None
                    else {s: v[place] for s, v in lists.items() if place < len(v)}
                )
            for slot, variable in of_it.items():
                name = f"optimizer/{slot}/{target.name}"
                found[slot, id(target.variable)] = Target(name, variable)
        return found

    def _legacy_slots(self, variable):
        found = {}
        for slot in self.inner.get_slot_names():
            with contextlib.suppress(KeyError):
                found[slot] = self.inner.get_slot(variable, slot)
        return found

    def _place(self, variable):
        if self.family == "keras3":
            known, key = keras3_private.known_variables(self.inner)
            return known.get(key(variable))
        index = getattr(self.inner, "_index_dict", {})
        return index.get(self.inner._var_key(variable))

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
        if value is None or (callable(value) and not hasattr(value, "numpy")):
            return None
        try:
            return float(np.asarray(value))
        except (TypeError, ValueError):
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
