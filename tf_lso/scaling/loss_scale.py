"""The loss scales, as programs see them."""

import inspect
from typing import Any

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
import tensorflow as tf

from tf_lso.scaling import arguments, dynamic
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.any_loss_scale import LossScale


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

    Source: `tf.mixed_precision.experimental.FixedLossScale` of TensorFlow 2.1-2.8.
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

    @property
    def may_skip(self) -> bool:
        """Whether a subclass has an `update` that may skip a step."""
        return type(self).update is not FixedLossScale.update

    def __repr__(self):
        return f"{type(self).__name__}({self._loss_scale_value})"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal loss scale, a dict."""
        return {"loss_scale_value": self._loss_scale_value}


class DynamicLossScale(LossScale):
    """A loss scale that grows while gradients are finite and shrinks when not.

    After each step::

        if scale is not positive and finite:        # a damaged checkpoint
            scale, count = initial_loss_scale, 0
        elif all gradients are finite:              # the step is applied
            count += 1
            if count == increment_period:
                count = 0
                if scale * multiplier <= max_loss_scale:
                    scale *= multiplier
        else:                                       # the step is skipped
            count = 0
            if at least `hysteresis` steps in a row were skipped:
                scale = max(scale / multiplier, min_loss_scale)

    Args:
      initial_loss_scale: Python float. Choose it too high rather than too low: the scale
        shrinks at every step that overflows, but grows only once in `increment_period`
        steps.
      increment_period: Python int, consecutive finite steps before the scale grows.
      multiplier: Python float by which the scale grows and shrinks.
      backoff_factor: Python float less than 1 that the scale is multiplied by to shrink,
        or None to divide it by `multiplier` (keyword only, an addition).
      hysteresis: Python int, skipped steps in a row before the scale shrinks, so that
        one bad batch does not count as an overflow (keyword only, an addition).
      min_loss_scale: Python float, the scale does not shrink below it (keyword only, an
        addition; TensorFlow's class has 1).
      max_loss_scale: Python float, the scale does not grow above it, or None for the
        largest float32 (keyword only, an addition).

    Raises:
      ValueError: if an argument is not positive and finite, or `backoff_factor` is not
        less than 1.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> scale = tf_lso.DynamicLossScale(8., increment_period=2)
    >>> _, should_apply = scale.update([tf.constant(float("nan"))])
    >>> bool(should_apply), float(scale())
    (False, 4.0)

    Source: `tf.mixed_precision.experimental.DynamicLossScale` of TensorFlow 2.1-2.8.
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: int = 2000,
        multiplier: float = 2.0,
        *,
        backoff_factor: float | None = None,
        hysteresis: int = 1,
        min_loss_scale: float = 1.0,
        max_loss_scale: float | None = None,
    ) -> None:
        super().__init__()
        self._rule = arguments.checked_rule(
            initial_scale=("initial_loss_scale", initial_loss_scale),
            growth_steps=("increment_period", increment_period),
            growth_factor=("multiplier", multiplier),
            backoff_factor=("backoff_factor", backoff_factor),
            hysteresis=("hysteresis", hysteresis),
            min_scale=("min_loss_scale", min_loss_scale),
            max_scale=("max_loss_scale", max_loss_scale),
        )
        self._current_loss_scale = self._add_weight(
            "current_loss_scale", self._rule.initial_scale, tf.float32
        )
        self._num_good_steps = self._add_weight("good_steps", 0, tf.int64)
        self._mover = dynamic.Mover(
            self._rule, self._current_loss_scale, self._num_good_steps
        )

    def _dependencies(self, save_type, **kwargs):
        children = super()._dependencies(save_type, **kwargs)
        if save_type == "savedmodel":  # its traced steps use the variable
            children = {**children, "skipped_in_a_row": self._mover.in_a_row}
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
        return self._rule.growth_factor

    @property
    def backoff_factor(self) -> float | None:
        """The factor by which the scale shrinks, None to divide by `multiplier`."""
        return self._rule.backoff_factor

    @property
    def hysteresis(self) -> int:
        """Skipped steps in a row before the scale shrinks, a Python int."""
        return self._rule.hysteresis

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

    def assign(self, value: float) -> None:
        """Set the scale; the count of finite steps starts again. Traced steps see it.

        Args:
          value: number from `min_loss_scale` to `max_loss_scale`.

        Raises:
          TypeError: if `value` is no number.
          ValueError: if it is not within the limits.
          RuntimeError: in a graph of TensorFlow 1.
        """
        number = arguments.positive_number("loss_scale", value)
        if not self.min_loss_scale <= number <= self._rule.max_scale:
            raise ValueError(
                f"'loss_scale' must be from {self.min_loss_scale} to "
                f"{self._rule.max_scale}, the limits of this scale, but got: {value!r}."
            )
        self._mover.assign(number)

    @tf.autograph.experimental.do_not_convert
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the scale, depending on whether all replicas have finite gradients.

        Args:
          grads: as for `LossScale.update`.

        Returns:
          update_op: None in eager mode, an op in a graph.
          should_apply_gradients: scalar bool tensor, the same on every replica.
        """

        def judge(_, grads):
            verdict = finite_lib.known(finite_lib.agreed(grads))
            finite = tf.convert_to_tensor(self.advance(verdict, grads))
            return None if tf.executing_eagerly() else finite.op, finite

        grads = [g for g in tf.nest.flatten(grads) if g is not None]
        if not finite_lib.merging_is_needed():
            return judge(None, grads)
        return tf.distribute.get_replica_context().merge_call(judge, args=(grads,))

    @property
    def takes_verdicts(self):
        """Whether `advance` may replace `update`: not if a subclass has its own."""
        return type(self).update is DynamicLossScale.update

    def advance(self, verdict, of):
        """Move the scale by a verdict on the gradients, see `dynamic.Mover.advance`."""
        return self._mover.advance(verdict, of)

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return self._mover.stuck_steps()

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

        The additions appear only if they were set, so that TensorFlow's own classes
        can read the config too.
        """
        arguments = inspect.signature(DynamicLossScale).parameters.values()
        return {
            one.name: getattr(self, one.name)
            for one in arguments
            if one.kind is not one.KEYWORD_ONLY
            or getattr(self, one.name) != one.default
        }
