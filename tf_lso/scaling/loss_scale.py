"""The loss scales: their variables, which the rule of `rule.py` moves."""

import abc
from typing import Any

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
import numpy as np
import tensorflow as tf

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import arguments, as_tensor, report
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import rule as rule_lib


def _where(condition, if_true, if_false):
    """`tf.where` of a tensor and a number, in the tensor's dtype."""
    dtype = next(x.dtype for x in (if_true, if_false) if hasattr(x, "dtype"))
    return tf.where(
        condition,
        tf.convert_to_tensor(if_true, dtype),
        tf.convert_to_tensor(if_false, dtype),
    )


def _local_variable(initial_value, name, dtype):
    """Make a variable that is the same on every replica and is never aggregated."""
    with tf.init_scope():
        return tf.Variable(
            initial_value,
            name=name,
            dtype=dtype,
            trainable=False,
            aggregation=tf.VariableAggregation.NONE,
        )


def _unsaved_variable(initial_value, name, dtype):
    """Make such a variable, and keep it out of all checkpoints."""
    variable = _local_variable(initial_value, name, dtype)
    with tf.init_scope():
        if not tf.executing_eagerly():
            # In a graph of TensorFlow 1 the `tf.compat.v1.train.Saver` takes all
            # variables of this list, and fails if an old checkpoint lacks one.
            saved = tf.compat.v1.get_collection_ref(
                tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            )
            saved[:] = [v for v in saved if v is not variable]
    return variable


def _or_zero(variable):
    """Return the value of an `_unsaved_variable`, 0 if it was never initialized.

    A graph of TensorFlow 1 initializes only the variables in its lists.
    """
    with tf.init_scope():
        is_initialized = tf.executing_eagerly()
    if is_initialized:
        return tf.convert_to_tensor(variable)
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros([], variable.dtype),
    )


class LossScale(
    as_tensor.AsTensor, tf.__internal__.tracking.Trackable, metaclass=abc.ABCMeta
):
    """Base class of the loss scales.

    A loss scale is a factor. The loss is multiplied by it and the gradients are divided
    by it, so that small float16 gradients do not become zero in between. Calling an
    instance returns the factor; `update` moves it after each step.

    Subclasses define `__call__`, `update` and `get_config`. An instance also serves as a
    float32 scalar tensor of its current value.

    Source: `tf.mixed_precision.experimental.LossScale` of TensorFlow 2.0-2.3.
    """

    def _add_weight(self, name, initial_value, dtype=None):
        """Add a variable that checkpoints store as `name`."""
        variable = _local_variable(initial_value, name, dtype)
        # Trackable has no public way to give a dependency another name than that of its
        # attribute. Checkpoints of TensorFlow 2.0-2.15 have these names.
        self._track_trackable(variable, name)
        return variable

    def named_variables(self) -> list[tuple[str, tf.Variable]]:
        """Return the (checkpoint name, variable) pairs of the state, a list."""
        return [(name, v) for name, v in sorted(self._trackable_children().items())]

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale, a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the loss scale after a step.

        May be called in replica and in cross-replica context.

        Args:
          grads: nested structure of unscaled gradients (tensors, `tf.IndexedSlices`,
            per-replica values); None is ignored.

        Returns:
          update_op: an op that moves the scale in a graph; None or a tensor in eager
            mode.
          should_apply_gradients: scalar bool tensor or Python bool. If False, the
            step must be skipped.
        """

    # Whether the class has `update_scaled`, see `DynamicLossScale`.
    judges_scaled = False

    def update_aggregated(self, grads):
        """Do what `update` does, for gradients that are the same on every replica.

        Subclasses may save the communication that `update` needs. The default calls
        `update`.
        """
        return self.update(grads)

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal loss scale, a dict."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LossScale":
        """Make a loss scale from the arguments in `config`, which is not changed."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A loss scale that never changes, and never skips a step.

    Args:
      loss_scale_value: Python float or int, at least 1.

    Raises:
      ValueError: if it is no Python number, less than 1, or not finite.

    Example:
    >>> import tf_lso
    >>> scale = tf_lso.FixedLossScale(128)
    >>> float(scale())
    128.0

    Source: `tf.mixed_precision.experimental.FixedLossScale` of TensorFlow 2.0-2.3.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError(
                "loss_scale_value must be a Python int or float, but got: "
                f"{loss_scale_value!r}."
            )
        if loss_scale_value < 1:
            raise ValueError(
                f"loss_scale_value must be at least 1, but got: {loss_scale_value!r}."
            )
        self._loss_scale_value = arguments.positive_number(
            "loss_scale_value", loss_scale_value
        )

    @classmethod
    def of(cls, value):
        """Return a fixed scale of any size; optimizers of 2.4-2.15 took less than 1."""
        scale = cls(1)
        scale._loss_scale_value = value
        return scale

    def __call__(self) -> tf.Tensor:
        """Return the loss scale, a float32 scalar tensor."""
        # Made at each call: a tensor of the constructor could belong to another graph.
        return tf.constant(self._loss_scale_value, tf.float32)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Return `(no-op, True)`: nothing moves and no step is skipped."""
        del grads
        return tf.no_op(), True

    def __repr__(self):
        return f"{type(self).__name__}({self._loss_scale_value})"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal loss scale, a dict."""
        return {"loss_scale_value": self._loss_scale_value}


class DynamicLossScale(LossScale):
    """A loss scale that grows while gradients are finite and shrinks when not.

    After each step:

        if scale is not positive and finite:        # a damaged checkpoint
            scale, count = initial_loss_scale, 0
        elif all gradients are finite:              # the step is applied
            count += 1
            if count == increment_period:
                count = 0
                if scale * multiplier <= max_loss_scale:
                    scale *= multiplier
        else:                                       # the step is skipped
            scale, count = max(scale / multiplier, min_loss_scale), 0

    Args:
      initial_loss_scale: Python float. Choose it too high rather than too low: the scale
        shrinks at every step that overflows, but grows only once in `increment_period`
        steps.
      increment_period: Python int, consecutive finite steps before the scale grows.
      multiplier: Python float by which the scale grows and shrinks.
      min_loss_scale: Python float, the scale does not shrink below it (keyword only, an
        addition; TensorFlow's class has 1).
      max_loss_scale: Python float, the scale does not grow above it, or None for the
        largest float32 (keyword only, an addition).

    Raises:
      ValueError: if an argument is not positive and finite.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> scale = tf_lso.DynamicLossScale(8., increment_period=2)
    >>> _, should_apply = scale.update([tf.constant(float("nan"))])
    >>> bool(should_apply), float(scale())
    (False, 4.0)

    Source: `tf.mixed_precision.experimental.DynamicLossScale` of TensorFlow 2.0-2.3.
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: int = 2000,
        multiplier: float = 2.0,
        *,
        min_loss_scale: float = 1.0,
        max_loss_scale: float | None = None,
    ) -> None:
        super().__init__()
        self._rule = arguments.checked_rule(
            initial_scale=("initial_loss_scale", initial_loss_scale),
            growth_steps=("increment_period", increment_period),
            factor=("multiplier", multiplier),
            min_scale=("min_loss_scale", min_loss_scale),
            max_scale=("max_loss_scale", max_loss_scale),
        )
        self._current_loss_scale = self._add_weight(
            "current_loss_scale", self._rule.initial_scale, tf.float32
        )
        self._num_good_steps = self._add_weight("good_steps", 0, tf.int64)
        self._rule32 = arguments.in_float32(self._rule)
        self._times_stuck = _unsaved_variable(0, "times_stuck", tf.int64)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel":  # its traced steps use the variable
            children = {**children, "times_stuck": self._times_stuck}
        return children

    @property
    def initial_loss_scale(self) -> float:
        """The loss scale at the start, a Python float."""
        return self._rule.initial_scale

    @property
    def increment_period(self) -> int:
        """Consecutive finite steps before the scale grows, a Python int."""
        return self._rule.growth_steps

    @property
    def multiplier(self) -> float:
        """The factor by which the scale grows and shrinks, a Python float."""
        return self._rule.factor

    @property
    def min_loss_scale(self) -> float:
        """The smallest scale, a Python float."""
        return self._rule.min_scale

    @property
    def max_loss_scale(self) -> float | None:
        """The largest scale, a Python float, or None if only float32 limits it."""
        cap = self._rule.max_scale
        return None if cap == rule_lib.FLOAT32_MAX else cap

    def __call__(self) -> tf.Tensor:
        """Return the current loss scale, a float32 scalar tensor, read at this call."""
        return tf.convert_to_tensor(self._current_loss_scale)

    @tf.autograph.experimental.do_not_convert
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the scale, depending on whether all replicas have finite gradients.

        May be called in replica and in cross-replica context.

        Args:
          grads: nested structure of unscaled gradients; None is ignored.

        Returns:
          update_op: None in eager mode, an op in a graph.
          should_apply_gradients: scalar bool tensor, the same on every replica.
        """
        grads = tf.nest.flatten(grads)
        if not finite_lib.merging_is_needed():
            return self._advance(finite_lib.agreed(grads))
        return tf.distribute.get_replica_context().merge_call(
            lambda _, grads: self._advance(finite_lib.agreed(grads)), args=(grads,)
        )

    def update_aggregated(self, grads):
        """Do what `update` does, for gradients that are the same on every replica.

        Args:
          grads: list of unscaled gradients.

        Returns:
          As `update`.
        """
        if not self.judges_scaled:
            return self.update(grads)
        return self._advance(finite_lib.of_aggregated(grads))

    @property
    def judges_scaled(self):
        """Whether `update_scaled` may replace `update`: not if a subclass has its own."""
        return type(self).update is DynamicLossScale.update

    def update_scaled(self, tensors, scale):
        """Do what `update` does, for one replica's dense gradients, still scaled.

        Args:
          tensors: list of float32 and float64 tensors.
          scale: the float32 scalar tensor by which they are still multiplied.

        Returns:
          As `update`.
        """
        return self._advance(finite_lib.unscaled_are_finite(tensors, scale))

    def _advance(self, finite):
        scale, count = self._current_loss_scale, self._num_good_steps
        before = rule_lib.ScaleState(
            tf.convert_to_tensor(scale), tf.convert_to_tensor(count)
        )

        def count_on():
            # Incremented in place, so that threads that share the scale lose no step.
            return apply_lib.after([count.assign_add(1)], True)

        def move(moved):
            self._report(before, finite)
            return apply_lib.after([scale.assign(moved), count.assign(0)], False)

        if tf.executing_eagerly():
            # With NumPy numbers, since each operation on tensors costs more.
            numbers = rule_lib.ScaleState(*(tensor.numpy() for tensor in before))
            with np.errstate(over="ignore", invalid="ignore"):
                after = rule_lib.next_state(self._rule32, numbers, bool(finite))
            if after.count:
                count_on()
            else:
                move(after.scale)
            return None, finite
        moved = tf.cond(
            rule_lib.only_counts(self._rule, before, finite),
            count_on,
            lambda: move(
                rule_lib.moved_scale(self._rule, before.scale, finite, where=_where)
            ),
        )
        return moved.op, finite

    def _report(self, before, finite):
        """Warn of a scale that cannot shrink any more, or that is not usable."""
        usable = rule_lib.is_usable(before.scale)
        stuck = ~finite & usable & (before.scale <= self._rule.min_scale)
        # A count of 0 says that the step before was not finite either.
        times = tf.where(tf.equal(before.count, 0), _or_zero(self._times_stuck) + 1, 1)
        times = tf.where(stuck, times, 0)
        self._times_stuck.assign(times)
        report.first_of(
            (
                ~usable,
                "The loss scale was {}, which is no positive finite number (a damaged "
                f"checkpoint?). It returns to {self._rule.initial_scale}.",
                before.scale,
            ),
            (
                # At 1, 10, 100, ... so that a lost run does not fill the log.
                tf.reduce_any(tf.equal(times, [10**power for power in range(19)])),
                "The gradients were not finite although the loss scale is at its "
                "minimum, {} (steps in a row: {}). Scaling cannot help: look for NaN "
                "or infinity in the data and the loss, lower the learning rate, or set "
                "`min_scale` lower.",
                before.scale,
                times,
            ),
        )

    def __repr__(self):
        now = ""
        if tf.executing_eagerly():
            now = (
                f"current_loss_scale={self._current_loss_scale.numpy()!s}, "
                f"num_good_steps={self._num_good_steps.numpy()}, "
            )
        return (
            f"{type(self).__name__}({now}"
            f"initial_loss_scale={self.initial_loss_scale}, "
            f"increment_period={self.increment_period}, multiplier={self.multiplier})"
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal loss scale, a dict.

        The two limits appear only if they were set, so that TensorFlow's own classes
        can read the config too.
        """
        config = {
            "initial_loss_scale": self.initial_loss_scale,
            "increment_period": self.increment_period,
            "multiplier": self.multiplier,
        }
        if self.min_loss_scale != 1.0:
            config["min_loss_scale"] = self.min_loss_scale
        if self.max_loss_scale is not None:
            config["max_loss_scale"] = self.max_loss_scale
        return config
