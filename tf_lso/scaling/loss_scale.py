"""The loss scales as programs see them, and `get` of numbers, strings and configs."""

import abc
import functools
from typing import Any, TypeAlias

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
import tensorflow as tf

from tf_lso import graphs, tf_private
from tf_lso.as_tensor import AsTensor
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import options, scale_variables
from tf_lso.scaling.options import DYNAMIC, STABLE
from tf_lso.scaling.rule import ScaleRule

_Dict: TypeAlias = dict[str, Any]
# The base classes are found by a call, so mypy does not know them.
_Trackable: Any = tf_private.trackable()


class LossScale(AsTensor, tf_private.Dependencies, _Trackable, metaclass=abc.ABCMeta):
    """Base class of the loss scales.

    The loss is multiplied by the scale and the gradients are divided by it, so that small
    float16 gradients do not become zero. An instance also serves as a float32 scalar
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
        """Add a variable that checkpoints store as `name`."""
        variable = graphs.local_variable(initial_value, name, dtype)
        tf_private.track(self, variable, name)
        return variable

    def named_variables(self) -> list[tuple[str, tf.Variable]]:
        """Return the (checkpoint name, variable) pairs of the state, a list."""
        return sorted(tf_private.children(self).items())

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale, a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the loss scale after a step, in replica or cross-replica context.

        `grads` is a nested structure of unscaled gradients, per-replica values and None.
        The first result is an op that moves the scale in a graph, None or a tensor in
        eager mode; the second a scalar bool tensor or bool, False to skip the step.
        """

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return tf.constant(0, tf.int64)

    @property
    def takes_verdicts(self) -> bool:
        """Whether a step judges the gradients and moves the `variables`, not `update`."""
        return type(self).update is DynamicLossScale.update

    @abc.abstractmethod
    def get_config(self) -> _Dict:
        """Return the arguments that make an equal loss scale, a dict."""

    @classmethod
    def from_config(cls, config: _Dict) -> "LossScale":
        """Make a loss scale from the arguments in `config`, which is not changed."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A loss scale that never changes, and never skips a step.

    Args:
      loss_scale_value: Python float or int, at least 1 and finite; else a ValueError.

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
        return tf.no_op(), True

    def __repr__(self):
        return f"{type(self).__name__}({self._loss_scale_value})"

    def get_config(self) -> _Dict:
        """Return the arguments that make an equal loss scale, a dict."""
        return {"loss_scale_value": self._loss_scale_value}


class DynamicLossScale(LossScale):
    """A loss scale that grows while gradients are finite and shrinks when not.

    A step with finite gradients is applied. Each `increment_period`-th of them in a row
    multiplies the scale by `multiplier`, if the product is at most `max_loss_scale`. Any
    other step is skipped and divides the scale by `multiplier`.

    Args:
      initial_loss_scale: Python float. Choose it too high rather than too low: the scale
        shrinks at once, and grows only once in `increment_period` steps.
      increment_period: Python int, consecutive finite steps before the scale grows.
      multiplier: Python float by which the scale grows and shrinks.
      backoff_factor: Python float less than 1 that the scale is multiplied by to shrink,
        or None to divide it by `multiplier` (an addition by keyword, as the next three).
      hysteresis: Python int, skipped steps in a row before the scale shrinks. Above 1,
        one bad batch does not count as an overflow.
      min_loss_scale: Python float, the scale does not shrink below it.
      max_loss_scale: Python float, or None for the largest float32: the scale does not
        grow above it.

    Raises:
      ValueError: if one is not positive and finite, or `backoff_factor` not below 1.

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
        **additions: Any,
    ) -> None:
        super().__init__()
        names = options.names(DYNAMIC)
        for name in additions.keys() - set(names):
            raise TypeError(f"DynamicLossScale got an unexpected argument {name!r}.")
        first = (initial_loss_scale, increment_period, multiplier)
        given = dict(zip(names, first)) | additions
        rule = self._rule = options.make_rule(DYNAMIC, given)
        scale = self._add_weight("current_loss_scale", rule.initial_scale, tf.float32)
        count = self._add_weight("good_steps", 0, tf.int64)
        self._current_loss_scale, self._num_good_steps = scale, count
        self.variables = scale_variables.ScaleVariables(rule, scale, count)

    def _dependencies(self, save_type, **kwargs):
        children = super()._dependencies(save_type, **kwargs)
        if save_type == "savedmodel":  # its traced steps use the variable
            children = {**children, "skipped_in_a_row": self.variables.in_a_row}
        return children

    def __call__(self) -> tf.Tensor:
        """Return the current loss scale, a float32 scalar tensor, read at this call."""
        return tf.convert_to_tensor(self._current_loss_scale)

    def assign(self, value: float) -> None:
        """Set the scale; the count of finite steps starts again. Traced steps see it.

        TypeError or ValueError for anything but a number from `min_loss_scale` to
        `max_loss_scale`; RuntimeError in a graph of TensorFlow 1.
        """
        number = options.positive_number("loss_scale", value)
        low, high = self._rule.min_scale, self._rule.max_scale
        if not low <= number <= high:
            raise ValueError(
                f"'loss_scale' must be from {low} to {high}, but got: {value!r}."
            )
        self.variables.assign(number)

    @tf.autograph.experimental.do_not_convert
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the scale, see `LossScale.update`. All replicas get the same verdict."""

        def judge(_, grads):
            finite = finite_lib.agreed(grads)
            moved = self.variables.advance(finite)
            return None if tf.executing_eagerly() else moved.op, finite

        grads = [g for g in tf.nest.flatten(grads) if g is not None]
        if not finite_lib.merging_is_needed():
            return judge(None, grads)
        return tf.distribute.get_replica_context().merge_call(judge, args=(grads,))

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return self.variables.numbers_in_a_row()[1]

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
        """Return the arguments that make an equal loss scale, a dict."""
        return options.config_of(self._rule, DYNAMIC)


def _argument(loss_scale, name):
    return options.arguments_of(loss_scale._rule, DYNAMIC)[name]


for _name in options.names(DYNAMIC):
    _doc = f"`{_name}`, as the constructor has it."
    _attribute: Any = property(functools.partial(_argument, name=_name), doc=_doc)
    _attribute.__set_name__(DynamicLossScale, _name)
    setattr(DynamicLossScale, _name, _attribute)
DynamicLossScale.__signature__ = options.signature(DynamicLossScale, DYNAMIC)


def make(dynamic: bool, given: _Dict) -> LossScale:
    """Return the loss scale of a `LossScaleOptimizer`; errors name its argument."""
    if dynamic:
        rule = options.make_rule(STABLE, given)
        if rule.growth_factor < 1:
            raise ValueError(
                f"'growth_factor' must be at least 1, but got: {rule.growth_factor!r}."
            )
        return DynamicLossScale(**options.arguments_of(rule, DYNAMIC))
    scale = given.get("initial_scale")
    if scale is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False, but got: None."
        )
    for option in options.OPTIONS[1:]:
        default = option.default(STABLE)
        if given.get(option.stable, default) != default:
            raise ValueError(
                f"{option.stable!r} must not be given if 'dynamic' is False, but got: "
                f"{given[option.stable]!r}."
            )
    return FixedLossScale.of(options.positive_number("initial_scale", scale))


def arguments_of(loss_scale: Any) -> _Dict:
    """Return the arguments of `LossScaleOptimizer` that make an equal scale, a dict."""
    if isinstance(loss_scale, FixedLossScale):
        scale = loss_scale.get_config()["loss_scale_value"]
        return {"dynamic": False, "initial_scale": scale, "dynamic_growth_steps": None}
    return {"dynamic": True, **options.config_of(loss_scale._rule, STABLE)}


# The classes that a config may name. Users pass their own in `custom_objects`.
CLASSES = {cls.__name__: cls for cls in (FixedLossScale, DynamicLossScale)}


def get(identifier: Any, custom_objects: _Dict | None = None) -> LossScale | None:
    """Return the loss scale that `identifier` stands for.

    It is a `LossScale` or None, which is returned; an int or float of at least 1, for a
    fixed scale; "dynamic"; or a config, see `deserialize`. Else a ValueError.

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
    """Return the config of a loss scale, a dict, or None for None."""
    if loss_scale is None:
        return None
    return {"class_name": type(loss_scale).__name__, "config": loss_scale.get_config()}


def deserialize(config: _Dict, custom_objects: _Dict | None = None) -> LossScale:
    """Return the loss scale of a config that `serialize` returned, which is not changed.

    `custom_objects` is a dict of names and further `LossScale` classes. ValueError if the
    config names no known class, or is no config.
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
