"""The optimizer variables into which the values of a file are restored."""

import contextlib

import numpy as np
import tensorflow as tf

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.frameworks import hyperparameters, keras2_private, keras3_private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import binding
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.scaling import loss_scale as loss_scale_lib


class Target:
    """A variable to which a value from a file is restored.

    `slot` is the name of the slot, or the name of an optimizer variable that is not a slot. It
    is None for a model variable. `of` is the `Target` of the model variable to which a slot
    belongs.
    """

    def __init__(self, name, variable, slot=None, of=None):
        self.name, self.variable = name, variable
        self.slot, self.of = slot, of
        self.shape = tuple(variable.shape)
        self.dtype = tf.as_dtype(variable.dtype).name

    def assign(self, value):
        self.variable.assign(value.astype(self.dtype, copy=False))

    def problem(self, entry):
        """Return why a tensor does not fit, or None. int32 and int64 fit each other."""
        if entry.shape != self.shape:
            return f"shape {entry.shape}, not {self.shape}"
        if {entry.dtype, self.dtype} not in ({self.dtype}, {"int32", "int64"}):
            return f"dtype {entry.dtype}, not {self.dtype}"
        return None


def is_variable(value):
    return callable(getattr(value, "assign", None))


def name_of(variable):
    """Return the name of a variable as in files, without ":0"."""
    return layouts.plain(variables_lib.name_of(variable))


class OptimizerTargets:
    """The variables of today's optimizer, into which the values of a file are restored."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.is_wrapper = isinstance(optimizer, optimizers.LossScaleOptimizer)
        self.inner = optimizer.inner_optimizer if self.is_wrapper else optimizer
        self.family = binding.require_family(self.inner).name
        is_multi = self.family == "keras3" and hasattr(self.inner, "optimizers")
        if is_multi or hasattr(self.inner, "inner_optimizer"):
            raise CheckpointError(
                f"'optimizer' is a {type(self.inner)}, which restore() does not restore. "
                "Pass its inner optimizer, or tf_lso.LossScaleOptimizer(inner). For several "
                "optimizers use tf.train.Checkpoint or model.load_weights."
            )
        self.class_names = [cls.__name__ for cls in type(self.inner).__mro__]
        self.is_sgd = "SGD" in self.class_names

    def check_class(self, source):
        """Raise CheckpointError unless the optimizer class in the file has the same slots."""
        name = source.optimizer and source.optimizer.class_name
        slots, own = table.of([name]).slots, table.attributes_of_slots(self.inner)
        is_same = name in (None, *self.class_names)
        if not is_same and (not slots or slots | table.AVERAGE != own):
            raise CheckpointError(
                f"{source.path}: the optimizer in the file is of the class {name}, but "
                f"'optimizer' is of {self.class_names[0]}. Pass an optimizer of the class in "
                "the file."
            )

    def build(self, model):
        """Build the optimizer for a `ModelTargets`, and find the optimizer's variables."""
        trainable = model.trainable
        variables = [target.variable for target in trainable]
        if self.is_wrapper:
            self.optimizer.build(variables)
        elif self.family == "legacy":
            keras2_private.build_legacy(self.inner, variables)
        else:
            self.inner.build(variables)
        # None stands for a variable of another model.
        self.built = self._built(model)
        self.order = self.built or trainable
        # The list is empty if the optimizer was built for other variables than the model
        # trains now.
        is_of_model = {*self.order} == {*trainable}
        self.trained_layers = model.trained_layers() if is_of_model else []
        # All variables of the optimizer except for the step counter and the hyperparameters.
        self.own = self._own(model)
        self.slots = {target.slot for target in self.own}
        # The slots that an optimizer of this class has only with an argument such as
        # `amsgrad=True`.
        self.optional = table.optional_slots(self.inner)

    @property
    def iterations(self):
        counter = self.inner.iterations
        if self.family == "keras3":
            counter = keras3_private.iteration_variable(self.inner)
        return Target("optimizer/iterations", counter)

    @property
    def batches_per_step(self):
        return getattr(self.inner, "gradient_accumulation_steps", None) or 1

    @property
    def divides_batches(self):
        # See `keras3_private.iteration_variable`.
        return self.iterations.variable is not self.inner.iterations

    def _built(self, model):
        # The result is empty for an OptimizerV2, which does not list its model variables.
        known, key = {}, id
        if self.family == "keras3":
            known, key = keras3_private.known_variables(self.inner)
        elif self.family == "new":
            known, key = keras2_private.known_variables(self.inner)
        by_number = {known.get(key(t.variable)): t for t in model.targets}
        return [by_number.get(number) for number in range(len(known))]

    def _own(self, model):
        attributes = {n: v for n, v in vars(self.inner).items() if is_variable(v)}
        rate = hyperparameters.rate_or_schedule(self.inner)
        attributes.pop(layouts.COMPUTED, None)
        made = self.inner.variables
        made = [*(made() if callable(made) else made), *attributes.values()]
        heads = {id(self.iterations.variable), id(self.inner.iterations), id(rate)}
        own = {id(v): v for v in made if id(v) not in heads}
        labels = {id(v): (layouts.SCALARS.get(n, n),) for n, v in attributes.items()}
        is_legacy = self.family == "legacy"
        slots = self._legacy_slots(model) if is_legacy else self._listed_slots(own)
        labels |= {id(variable): label for variable, *label in slots}
        return [_target(v, *labels.get(key, ())) for key, v in own.items()]

    # The next two methods yield (slot variable, name of the slot, `Target` of the model
    # variable). The name is that of an OptimizerV2, or the attribute if `optimizer_table` lacks
    # the class.
    def _legacy_slots(self, model):
        for slot in self.inner.get_slot_names():
            for target in model.targets:
                with contextlib.suppress(KeyError):
                    yield self.inner.get_slot(target.variable, slot), slot, target

    def _listed_slots(self, own):
        slot_of = table.slot_of_attributes(self.inner)
        for attribute, held in vars(self.inner).items():
            held = list(held.values()) if isinstance(held, dict) else held
            if attribute in layouts.NO_STATE or not isinstance(held, (list, tuple)):
                continue
            are_slots = all(slot is None or id(slot) in own for slot in held)
            if are_slots and len(held) == len(self.built):
                name = slot_of.get(attribute, attribute)
                yield from ((s, name, of) for s, of in zip(held, self.built) if of)

    @property
    def loss_scale(self):
        """The dict {"scale": `Target`, "count": `Target`} of a dynamic loss scale, or {}."""
        state = self.optimizer.loss_scale_state if self.is_wrapper else None
        if not isinstance(state, loss_scale_lib.DynamicLossScale):
            return {}
        named = dict(state.named_variables())
        return {
            "scale": Target("optimizer/loss_scale", named["current_loss_scale"]),
            "count": Target("optimizer/dynamic_counter", named["good_steps"]),
        }

    def hyperparameter(self, name):
        """Return a hyperparameter as a float, or None if its value is not a number."""
        is_rate = name == "learning_rate" and self.family != "legacy"
        rate = hyperparameters.rate_or_schedule
        value = rate(self.inner) if is_rate else getattr(self.inner, name, None)
        # The value may be a schedule or None.
        with contextlib.suppress(TypeError, ValueError):
            return float(np.asarray(value))
        return None

    def decays_by(self, rate):
        """Return whether the learning rate decays as in an OptimizerV2 with `decay=rate`."""
        schedule = hyperparameters.rate_or_schedule(self.inner)
        if not rate or type(schedule).__name__ != "InverseTimeDecay":
            return not rate
        is_same = np.float32(schedule.decay_rate) == np.float32(rate)
        return is_same and schedule.decay_steps == 1 and not schedule.staircase


def _target(variable, slot=None, of=None):
    slot = slot or name_of(variable)
    name = f"optimizer/{slot}" if of is None else f"optimizer/{slot}/{of.name}"
    return Target(name, variable, slot, of)
