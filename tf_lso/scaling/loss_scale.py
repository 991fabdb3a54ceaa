"""The loss-scale classes. `loss_scale_configs.py` makes them from arguments and configs."""

import abc
import dataclasses
from typing import Any, TypeAlias

import numpy as np

from tf_lso.frameworks import environment

environment.require_tensorflow()

# ruff: noqa: E402
import tensorflow as tf

from tf_lso.frameworks import graphs, tf_private
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.as_tensor import AsTensor
from tf_lso.scaling.rule import ScaleRule

_Dict: TypeAlias = dict[str, Any]
# The base class of `LossScale` is the result of a function call, so mypy cannot infer it.
_Trackable: Any = tf_private.trackable()

_DIVIDING = ScaleRule(backoff_factor=None)
# Every config of a `DynamicLossScale` contains these fields. Every config of an optimizer with
# such a scale contains the first two.
IN_CONFIGS = ("initial_scale", "growth_steps", "growth_factor")


class LossScale(AsTensor, tf_private.Dependencies, _Trackable, metaclass=abc.ABCMeta):
    """Base class of the loss scales.

    The loss is multiplied by the scale and the gradients are divided by the scale, so that
    small float16 gradients do not become zero. An instance converts to a float32 scalar
    tensor and to a float. Subclasses define `__call__`, `update` and `get_config`.

    >>> import tensorflow as tf
    >>> import tf_lso
    >>> class Constant(tf_lso.LossScale):
    ...     __call__ = lambda self: tf.constant(64.0)
    ...     update = lambda self, grads: (None, True)
    ...     get_config = lambda self: {}
    >>> float(Constant())
    64.0

    Source: `tf.mixed_precision.experimental.LossScale` of TensorFlow 2.1-2.8.
    """

    def _add_weight(self, name, initial_value, dtype=None):
        """Return a new variable that checkpoints store under `name`."""
        variable = graphs.local_variable(initial_value, name, dtype)
        tf_private.track(self, variable, name)
        return variable

    def named_variables(self) -> list[tuple[str, tf.Variable]]:
        """Return the whole state as a list of pairs (name in checkpoints, variable)."""
        return sorted(tf_private.children(self).items())

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale.

        The value may be whatever `tf.convert_to_tensor` converts to a float32 scalar: a
        tensor, a variable, or a number.
        """

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Update the loss scale from the gradients of a step.

        This method may be called in replica context and in cross-replica context.

        Args:
          grads: nested structure, such as a list. Each element is an unscaled gradient, a
            per-replica value with a gradient for each replica, or None.

        Returns:
          A pair. In a graph the first value is the op that updates the scale. In eager mode the
          first value is None or a tensor. The second value is a bool or a scalar bool tensor,
          which is False if the caller must skip the step.
        """

    # --- A step calls these private methods. Subclasses need not override them.

    def _current(self):
        """Return the current loss scale as a float32 scalar tensor."""
        return tf.convert_to_tensor(self(), tf.float32)

    def _judge(self, gradients, are_equal):
        """Return the `finite.Verdict` that says whether to apply the step.

        In `gradients`, which may contain quotients, duplicate rows are already summed.
        `are_equal` says whether all replicas have the same gradients.
        """
        del are_equal
        moved, should_apply = self.update(gradients_lib.divided(gradients))
        moved = graphs.known_operations([moved])
        # In a graph of TensorFlow 1 an operation runs only if a result depends on it.
        if moved and graphs.in_graph_of_tensorflow_1():
            with tf.control_dependencies(moved):
                should_apply = tf.identity(should_apply)
        return finite_lib.Verdict(should_apply)

    def _advance(self, finite):
        """Update the scale after a step. Return a tensor that depends on the update, or None.

        In this base class `_judge` has already called `update`, which changes the scale.
        """
        del finite

    def _is_at_minimum(self):
        return False

    @abc.abstractmethod
    def get_config(self) -> _Dict:
        """Return a dict of the constructor arguments that make an equal loss scale."""

    @classmethod
    def from_config(cls, config: _Dict) -> "LossScale":
        """Return a loss scale made from a dict of constructor arguments."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A loss scale that never changes and never skips a step.

    Args:
      loss_scale_value: Python float or int, finite and at least 1.

    Raises:
      ValueError: if the value is not a Python number, not finite, or less than 1.

    >>> import tf_lso
    >>> float(tf_lso.FixedLossScale(128))
    128.0

    Source: `tf.mixed_precision.experimental.FixedLossScale` of TensorFlow 2.1-2.8.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        name, value = "loss_scale_value", loss_scale_value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or value < 1:
            must = "at least 1" if is_number else "a Python int or float"
            raise ValueError(f"{name} must be {must}, but got: {value!r}.")
        self._loss_scale_value = rule_lib.positive_number(name, value)

    @classmethod
    def of(cls, value):
        """Return a fixed scale of `value`, which may be less than 1.

        The optimizers of TensorFlow 2.4-2.15 allowed such scales.
        """
        scale = cls(1)
        scale._loss_scale_value = value
        return scale

    def __call__(self) -> tf.Tensor:
        """Return the loss scale as a float32 scalar tensor."""
        # Make a new tensor in each call, because an earlier one may belong to another graph.
        return tf.constant(self._loss_scale_value, tf.float32)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Return a no-op and True, since the scale never changes and no step is skipped."""
        return tf.no_op(), True

    def __repr__(self):
        return f"{type(self).__name__}({self._loss_scale_value})"

    def get_config(self) -> _Dict:
        """Return a dict of the constructor arguments that make an equal loss scale."""
        return {"loss_scale_value": self._loss_scale_value}


class DynamicLossScale(LossScale):
    """A loss scale that grows while gradients are finite and shrinks when they are not.

    A step with finite gradients is applied. After `increment_period` such steps in a row,
    the scale is multiplied by `multiplier` if the product is at most `max_loss_scale`. A
    step with nonfinite gradients is skipped, and the scale is divided by `multiplier`.

    The last three arguments are passed by keyword. TensorFlow's class does not have them.

    Args:
      initial_loss_scale: Python float. Choose a value that is too high rather than too low,
        because the scale shrinks at once but grows only once in `increment_period` steps.
      increment_period: Python int, the number of consecutive finite steps after which the
        scale grows.
      multiplier: Python float. The scale is multiplied by this number to grow, and divided
        by this number to shrink.
      backoff_factor: Python float less than 1 by which the scale is multiplied to shrink,
        or None to divide the scale by `multiplier`.
      min_loss_scale: Python float, the smallest scale.
      max_loss_scale: Python float, the largest scale, or None for the largest float32.

    Raises:
      TypeError: if a value is not a number.
      ValueError: if a number is not positive and finite, `backoff_factor` is not less than 1,
        or `initial_loss_scale` is not between `min_loss_scale` and `max_loss_scale`.

    >>> import tensorflow as tf
    >>> import tf_lso
    >>> scale = tf_lso.DynamicLossScale(8.)
    >>> _, should_apply = scale.update([tf.constant(float("nan"))])
    >>> bool(should_apply), float(scale())
    (False, 4.0)

    Source: `tf.mixed_precision.experimental.DynamicLossScale` of TensorFlow 2.1-2.8.
    """

    def __init__(
        self,
        initial_loss_scale: float = ScaleRule.initial_scale,
        increment_period: int = ScaleRule.growth_steps,
        multiplier: float = ScaleRule.growth_factor,
        *,
        backoff_factor: float | None = None,
        min_loss_scale: float = ScaleRule.min_scale,
        max_loss_scale: float | None = None,
    ) -> None:
        super().__init__()
        rule = self._rule = rule_lib.checked_rule(
            rule_lib.OF_DYNAMIC_LOSS_SCALE,
            _DIVIDING,
            ("backoff_factor", "max_scale"),
            initial_scale=initial_loss_scale,
            growth_steps=increment_period,
            growth_factor=multiplier,
            backoff_factor=backoff_factor,
            min_scale=min_loss_scale,
            max_scale=max_loss_scale,
        )
        # Eager steps compute with NumPy numbers, because tensors would take longer. The numbers
        # in this rule are float32, so that eager steps round in the same way as graphs.
        floats = {
            n: np.float32(x) for n, x in vars(rule).items() if isinstance(x, float)
        }
        self._numpy_rule = dataclasses.replace(rule, **floats)
        self._current_loss_scale = self._add_weight(
            "current_loss_scale", rule.initial_scale, tf.float32
        )
        self._num_good_steps = self._add_weight("good_steps", 0, tf.int64)

    @property
    def initial_loss_scale(self) -> float:
        """The scale before the first step."""
        return self._rule.initial_scale

    @property
    def increment_period(self) -> int:
        """The number of consecutive finite steps after which the scale grows."""
        return self._rule.growth_steps

    @property
    def multiplier(self) -> float:
        """The factor by which the scale is multiplied when it grows."""
        return self._rule.growth_factor

    @property
    def backoff_factor(self) -> float | None:
        """The factor by which the scale is multiplied when it shrinks.

        None means that the scale is divided by `multiplier` instead.
        """
        return self._rule.backoff_factor

    @property
    def min_loss_scale(self) -> float:
        """The smallest scale."""
        return self._rule.min_scale

    @property
    def max_loss_scale(self) -> float | None:
        """The largest scale, or None if the scale may grow to the largest float32."""
        largest = ScaleRule.max_scale
        return None if self._rule.max_scale == largest else self._rule.max_scale

    def __call__(self) -> tf.Tensor:
        """Return the current loss scale as a float32 scalar tensor."""
        return tf.convert_to_tensor(self._current_loss_scale)

    def assign(self, value: float) -> None:
        """Set the scale to `value`, and set the count of finite steps to 0.

        Functions that were traced before this call use the new scale too.

        Raises:
          TypeError: if `value` is not a number.
          ValueError: if `value` is not between `min_loss_scale` and `max_loss_scale`.
          RuntimeError: in a graph of TensorFlow 1.
        """
        number = rule_lib.positive_number("loss_scale", value)
        low, high = self._rule.min_scale, self._rule.max_scale
        if not low <= number <= high:
            raise ValueError(
                f"'loss_scale' must be from {low} to {high}, but got: {value!r}."
            )
        if graphs.in_tensorflow_1():
            # In a graph of TensorFlow 1 no session would run the assignment.
            raise RuntimeError(
                f"'loss_scale' cannot be set in a graph of TensorFlow 1, but got: "
                f"{value!r}. Pass the scale to the constructor."
            )
        self._current_loss_scale.assign(number)
        self._num_good_steps.assign(0)

    @tf.autograph.experimental.do_not_convert
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Update the scale as `LossScale.update` describes.

        All replicas get the same result.
        """
        grads = [g for g in tf.nest.flatten(grads) if g is not None]
        if not finite_lib.merging_is_needed():
            return self._judge_and_advance(None, grads)
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(self._judge_and_advance, args=(grads,))

    def _judge_and_advance(self, strategy, grads):
        del strategy
        finite = finite_lib.agreed(grads).finite
        moved = self._move_after(finite)
        return None if tf.executing_eagerly() else moved.op, finite

    def _has_users_update(self):
        return getattr(self.update, "__func__", None) is not _OWN_UPDATE

    def _judge(self, gradients, are_equal):
        if self._has_users_update():
            return super()._judge(gradients, are_equal)
        return finite_lib.agreed(gradients, are_equal)

    def _advance(self, finite):
        return None if self._has_users_update() else self._move_after(finite)

    def _is_at_minimum(self):
        return tf.convert_to_tensor(self._current_loss_scale) <= self._rule.min_scale

    def _move_after(self, finite):
        """Update the scale. In a graph, return a tensor that depends on the update."""
        scale, count = self._current_loss_scale, self._num_good_steps
        if tf.executing_eagerly():
            state = rule_lib.ScaleState(scale.numpy(), count.numpy())
            if rule_lib.only_counts(self._numpy_rule, state, bool(finite)):
                count.assign_add(1, read_value=False)
            else:
                self._move(self._numpy_rule, state, np.bool_(finite), rule_lib.select)
            return None
        state = rule_lib.ScaleState(*map(tf.convert_to_tensor, (scale, count)))
        return tf.cond(
            rule_lib.only_counts(self._rule, state, finite),
            # Change the count in one atomic operation, so that every step is counted even if
            # several threads share the scale.
            lambda: graphs.value_after([count.assign_add(1, read_value=False)], 1),
            fast.seldom(
                lambda: graphs.value_after(
                    self._move(self._rule, state, finite, tf.where), 1
                )
            ),
        )

    def _move(self, rule, state, finite, where):
        warned = graphs.plain_or_compiled(
            lambda: _warn_if_unusable(state.scale, rule.initial_scale),
            lambda: tf.constant(True),  # XLA cannot print
        )
        with np.errstate(over="ignore", invalid="ignore"):
            moved = rule_lib.next_state(rule, state, finite, where)
        # Make the assignments depend on the values in `state`. Otherwise a graph of TensorFlow
        # 1 could assign the new value of a variable before it reads the old one.
        with tf.control_dependencies(graphs.known_operations([*state, warned])):
            return [
                self._current_loss_scale.assign(moved.scale, read_value=False),
                self._num_good_steps.assign(moved.count, read_value=False),
            ]

    def __repr__(self):
        now = ""
        if tf.executing_eagerly():
            scale = self._current_loss_scale.numpy()
            count = self._num_good_steps.numpy()
            now = f"current_loss_scale={scale!s}, num_good_steps={count}, "
        return (
            f"{type(self).__name__}({now}"
            f"initial_loss_scale={self.initial_loss_scale}, "
            f"increment_period={self.increment_period}, multiplier={self.multiplier})"
        )

    def get_config(self) -> _Dict:
        """Return a dict of the constructor arguments that make an equal loss scale."""
        return rule_lib.arguments_of(
            self._rule, rule_lib.OF_DYNAMIC_LOSS_SCALE, _DIVIDING, always=IN_CONFIGS
        )


_OWN_UPDATE = DynamicLossScale.update


def _warn_if_unusable(scale, initial_scale):
    graphs.warn(
        ~rule_lib.is_usable(scale),
        "The loss scale was {}, which is not a positive finite number (a damaged "
        f"checkpoint?). It is reset to {initial_scale}.",
        scale,
    )
    return tf.constant(True)
