"""The loss-scale classes, and the functions that make them from arguments and configs."""

import abc
import dataclasses
from typing import Any, TypeAlias

from tf_lso.frameworks import environment

# `require_tensorflow` must be called before the first import of TensorFlow.
environment.require_tensorflow()

# ruff: noqa: E402
import tensorflow as tf

from tf_lso.frameworks import graphs, tf_private
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import options, scale_variables
from tf_lso.scaling.as_tensor import AsTensor
from tf_lso.scaling.rule import ScaleRule

_Dict: TypeAlias = dict[str, Any]
# The base class of `LossScale` is the result of a function call, so mypy cannot infer it.
_Trackable: Any = tf_private.trackable()

# This is the default rule of `DynamicLossScale`. To shrink the scale, the rule divides the
# scale by the multiplier, as TensorFlow's `DynamicLossScale` does.
_DIVIDING = ScaleRule(backoff_factor=None)
# The fields that each config of a `DynamicLossScale` contains. Each config of an optimizer
# with such a scale contains only the first two fields.
_IN_CONFIGS = ("initial_scale", "growth_steps", "growth_factor")


class LossScale(AsTensor, tf_private.Dependencies, _Trackable, metaclass=abc.ABCMeta):
    """Base class of the loss scales.

    The loss is multiplied by the scale and the gradients are divided by the scale, so that
    small float16 gradients do not become zero. An instance can be used as a float32 scalar
    tensor. Subclasses define `__call__`, `update` and `get_config`.

    >>> import tensorflow as tf
    >>> import tf_lso
    >>> class Constant(tf_lso.LossScale):
    ...     __call__ = lambda self: tf.constant(64.0)
    ...     update = lambda self, grads: (None, True)
    ...     get_config = lambda self: {}
    >>> float(Constant() * 2)
    128.0

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
        """Return the current loss scale as a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Update the loss scale from the gradients of a step.

        This method may be called in replica context and in cross-replica context.

        Args:
          grads: nested structure, such as a list. Each element is an unscaled gradient, a
            per-replica value that holds one for each replica, or None.

        Returns:
          A pair. In a graph the first value is the op that updates the scale. In eager mode it
          is None or a tensor. The second value is a bool or a scalar bool tensor, and is False
          if the caller must skip the step.
        """

    # --- A step calls the next three methods. Subclasses with their own `update` need not
    # override these methods.

    def _judge(self, gradients, are_equal):
        """Return the `finite.Verdict` that says whether to apply the step.

        `gradients` is a list of unscaled gradients or per-replica values. Duplicate rows of
        the gradients are already summed. `are_equal` says whether all replicas have the
        same gradients.
        """
        del are_equal
        moved, should_apply = self.update(gradients)
        moved = graphs.known_operations([moved])
        # In a graph of TensorFlow 1 an operation runs only if a result depends on it. So make
        # `should_apply` depend on the update of the scale.
        if moved and graphs.in_graph_of_tensorflow_1():
            with tf.control_dependencies(moved):
                should_apply = tf.identity(should_apply)
        return finite_lib.Verdict(should_apply)

    def _advance(self, finite):
        """Update the scale after a step.

        Return a tensor that depends on the update, or None. `finite` is the field of that
        name in the step's `Verdict`. The method of this base class does nothing,
        because `_judge` has already called `update`, and `update` changes the scale.
        """
        del finite

    def _is_at_minimum(self):
        """Return a bool or a bool tensor. It is True if the scale cannot shrink further."""
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
        is_number = isinstance(value, (int, float))
        if not is_number or value < 1:
            must = "at least 1" if is_number else "a Python int or float"
            raise ValueError(f"{name} must be {must}, but got: {value!r}.")
        self._loss_scale_value = options.positive_number(name, value)

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
        # Make a new tensor at each call, since an older tensor could belong to another
        # graph.
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

    The last four arguments are passed by keyword. TensorFlow's class does not have them.

    Args:
      initial_loss_scale: Python float. Choose a value that is too high rather than too low,
        because the scale shrinks at once but grows only once in `increment_period` steps.
      increment_period: Python int, the number of consecutive finite steps after which the
        scale grows.
      multiplier: Python float. The scale is multiplied by this number to grow, and divided
        by this number to shrink.
      backoff_factor: Python float less than 1 by which the scale is multiplied to shrink,
        or None to divide the scale by `multiplier`.
      hysteresis: Python int, the number of consecutive skipped steps after which the scale
        shrinks. With a value above 1, one bad batch does not lower the scale.
      min_loss_scale: Python float, the smallest scale.
      max_loss_scale: Python float, the largest scale, or None for the largest float32.

    Raises:
      ValueError: if a number is not positive and finite, or `backoff_factor` is not less
        than 1.

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
        hysteresis: int = ScaleRule.hysteresis,
        min_loss_scale: float = ScaleRule.min_scale,
        max_loss_scale: float | None = None,
    ) -> None:
        super().__init__()
        rule = self._rule = options.checked_rule(
            options.OF_DYNAMIC_LOSS_SCALE,
            _DIVIDING,
            ("backoff_factor", "max_scale"),
            initial_scale=initial_loss_scale,
            growth_steps=increment_period,
            growth_factor=multiplier,
            backoff_factor=backoff_factor,
            hysteresis=hysteresis,
            min_scale=min_loss_scale,
            max_scale=max_loss_scale,
        )
        scale = self._add_weight("current_loss_scale", rule.initial_scale, tf.float32)
        count = self._add_weight("good_steps", 0, tf.int64)
        self._current_loss_scale, self._num_good_steps = scale, count
        self._variables = scale_variables.ScaleVariables(rule, scale, count)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # If a subclass defines its own `update`, a step must call this method.
        # `DynamicLossScale._judge` does not call `update`, but `LossScale._judge` does. So give
        # the subclass `_judge` and `_advance` of `LossScale`.
        if "update" in vars(cls):
            for name in ("_judge", "_advance"):
                setattr(cls, name, getattr(LossScale, name))

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
    def hysteresis(self) -> int:
        """The number of consecutive skipped steps after which the scale shrinks."""
        return self._rule.hysteresis

    @property
    def min_loss_scale(self) -> float:
        """The smallest scale."""
        return self._rule.min_scale

    @property
    def max_loss_scale(self) -> float | None:
        """The largest scale, or None if the scale may grow to the largest float32."""
        largest = ScaleRule.max_scale
        return None if self._rule.max_scale == largest else self._rule.max_scale

    def _dependencies(self, save_type, **kwargs):
        children = super()._dependencies(save_type, **kwargs)
        if save_type == "savedmodel":
            # The traced steps in a SavedModel use the variable `skipped_in_a_row`, so a
            # SavedModel must contain the variable. Checkpoints omit the variable.
            children = {**children, "skipped_in_a_row": self._variables.skipped}
        return children

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
        number = options.positive_number("loss_scale", value)
        low, high = self._rule.min_scale, self._rule.max_scale
        if not low <= number <= high:
            raise ValueError(
                f"'loss_scale' must be from {low} to {high}, but got: {value!r}."
            )
        self._variables.assign(number)

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
        moved = self._variables.advance(finite)
        return None if tf.executing_eagerly() else moved.op, finite

    def _judge(self, gradients, are_equal):
        """Return the `finite.Verdict` on the gradients of all replicas.

        The base class describes the arguments.
        """
        return finite_lib.agreed(gradients, are_equal)

    def _advance(self, finite):
        """Update the scale after a step, as `LossScale._advance` describes."""
        return self._variables.advance(finite)

    def _is_at_minimum(self):
        """Return a scalar bool tensor. It is True if the scale is at `min_loss_scale`."""
        return self._variables.is_at_minimum()

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
        return options.arguments_of(
            self._rule, options.OF_DYNAMIC_LOSS_SCALE, _DIVIDING, always=_IN_CONFIGS
        )


def make(dynamic: bool, arguments: _Dict) -> LossScale:
    """Return the loss scale for the given arguments of a `LossScaleOptimizer`.

    `arguments` is a dict. Its keys are argument names that `options.OF_OPTIMIZER` lists.
    Missing arguments get their defaults. Error messages name the optimizer's arguments.
    """
    names = options.OF_OPTIMIZER
    given = {f: arguments[name] for f, name in names.items() if name in arguments}
    if not dynamic:
        return _make_fixed(given)
    optional = ("initial_scale", "growth_steps", "max_scale")
    rule = options.checked_rule(names, ScaleRule(), optional, **given)
    if rule.growth_factor < 1:
        raise ValueError(
            f"'growth_factor' must be at least 1, but got: {rule.growth_factor!r}."
        )
    return DynamicLossScale(
        rule.initial_scale,
        rule.growth_steps,
        rule.growth_factor,
        backoff_factor=rule.backoff_factor,
        hysteresis=rule.hysteresis,
        min_loss_scale=rule.min_scale,
        max_loss_scale=rule.max_scale,
    )


def _make_fixed(given):
    scale = given.pop("initial_scale", None)
    if scale is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False, but got: None."
        )
    defaults = dataclasses.asdict(ScaleRule()) | {
        "growth_steps": None,
        "max_scale": None,
    }
    for field, value in given.items():
        if value != defaults[field]:
            raise ValueError(
                f"{options.OF_OPTIMIZER[field]!r} must not be given if 'dynamic' is False, "
                f"but got: {value!r}."
            )
    return FixedLossScale.of(options.positive_number("initial_scale", scale))


def arguments_of(loss_scale: Any) -> _Dict:
    """Return the arguments of `LossScaleOptimizer` that make a scale equal to `loss_scale`.

    The result is a dict that maps the name of each argument to its value.
    """
    if isinstance(loss_scale, FixedLossScale):
        scale = loss_scale.get_config()["loss_scale_value"]
        return {"dynamic": False, "initial_scale": scale, "dynamic_growth_steps": None}
    rule = loss_scale._rule
    if rule.backoff_factor is None and rule.growth_factor == 2:
        # To shrink, this scale is divided by 2. A multiplication by 0.5 gives the same result.
        # The factor 0.5 is the default of `LossScaleOptimizer`, so the returned dict omits the
        # factor.
        rule = dataclasses.replace(rule, backoff_factor=0.5)
    arguments = options.arguments_of(
        rule, options.OF_OPTIMIZER, ScaleRule(), always=_IN_CONFIGS[:2]
    )
    return {"dynamic": True, **arguments}


# Maps the names that a config may contain to the classes of tf_lso. Users pass their own
# classes as `custom_objects`.
CLASSES = {cls.__name__: cls for cls in (FixedLossScale, DynamicLossScale)}


def get(identifier: Any, custom_objects: _Dict | None = None) -> LossScale | None:
    """Return the loss scale that `identifier` stands for.

    Args:
      identifier: a `LossScale` or None is returned unchanged. An int or float of at least 1
        gives a fixed scale. "dynamic" gives a dynamic scale. A dict is passed to
        `deserialize`.
      custom_objects: dict that maps names in configs to further `LossScale` classes.

    Raises:
      ValueError: for any other identifier.

    >>> from tf_lso.scaling import loss_scale
    >>> loss_scale.get(128)
    FixedLossScale(128.0)

    Source: `get` of TensorFlow 2.0-2.8's loss_scale module.
    """
    if identifier is None or isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, (int, float)):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    if isinstance(identifier, dict):
        return deserialize(identifier, custom_objects)
    raise ValueError(
        f"Could not interpret loss scale identifier: {identifier!r}. Pass 'dynamic', a "
        "Python int or float of at least 1, or a LossScale such as "
        "DynamicLossScale(initial_loss_scale=2**15)."
    )


def serialize(loss_scale: LossScale | None) -> _Dict | None:
    """Return the config of a loss scale as a dict. For None return None."""
    if loss_scale is None:
        return None
    return {"class_name": type(loss_scale).__name__, "config": loss_scale.get_config()}


def deserialize(config: _Dict, custom_objects: _Dict | None = None) -> LossScale:
    """Return the loss scale for a config that `serialize` returned.

    `custom_objects` is a dict that maps names in configs to further `LossScale` classes.

    Raises:
      ValueError: if `config` is not a config of a loss scale, or names an unknown class.
    """
    try:
        name, arguments = config["class_name"], dict(config["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "A loss scale's config must have the keys 'class_name' and 'config', but "
            f"got: {config!r}."
        ) from error
    known = {**CLASSES, **(custom_objects or {})}
    if name not in known:
        raise ValueError(
            f"Unknown loss scale: {name!r}. Known are {sorted(known)}; pass a class of "
            "your own in `custom_objects`."
        )
    return known[name].from_config(arguments)
