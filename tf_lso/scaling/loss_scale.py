"""The loss scales as programs see them, and `get` of numbers, strings and configs."""

import abc
from typing import Any

from tf_lso import environment

environment.require_tensorflow()  # all that uses TensorFlow begins here

# ruff: noqa: E402
import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import as_tensor, options, scale_variables
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling.rule import ScaleRule

# The base classes are found by a call, so mypy does not know them.
_Trackable: Any = tf_private.trackable()


class LossScale(
    as_tensor.AsTensor, tf_private.Dependencies, _Trackable, metaclass=abc.ABCMeta
):
    """Base class of the loss scales.

    A loss scale is a factor. The loss is multiplied by it and the gradients are divided
    by it, so that small float16 gradients do not become zero in between. Calling an
    instance returns the factor; `update` moves it after each step.

    Subclasses define `__call__`, `update` and `get_config`. An instance also serves as a
    float32 scalar tensor of its current value.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> from tf_lso.keras.mixed_precision import experimental
    >>> class Constant(tf_lso.LossScale):
    ...     def __call__(self):
    ...         return tf.constant(64.0)
    ...     def update(self, grads):
    ...         return None, True
    ...     def get_config(self):
    ...         return {}
    >>> sgd = tf.keras.optimizers.SGD(0.1)
    >>> opt = experimental.LossScaleOptimizer(sgd, Constant())
    >>> float(opt.get_scaled_loss(tf.constant(2.0)))
    128.0

    Source: `tf.mixed_precision.experimental.LossScale` of TensorFlow 2.1-2.8.
    """

    def _add_weight(self, name, initial_value, dtype=None):
        """Add a variable that checkpoints store as `name`."""
        variable = scale_variables.local_variable(initial_value, name, dtype)
        tf_private.track(self, variable, name)
        return variable

    def named_variables(self) -> list[tuple[str, tf.Variable]]:
        """Return the (checkpoint name, variable) pairs of the state, a list."""
        return [(name, v) for name, v in sorted(tf_private.children(self).items())]

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

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return tf.constant(0, tf.int64)

    # Whether a step judges the gradients and then moves the `variables`. A class with an
    # `update` of its own does both in its own way.
    takes_verdicts = False

    @property
    def may_skip(self) -> bool:
        """Whether `update` may say that a step must be skipped."""
        return True

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

    Source: `tf.mixed_precision.experimental.FixedLossScale` of TensorFlow 2.1-2.8.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        is_number = isinstance(loss_scale_value, (int, float))
        if not is_number or loss_scale_value < 1:
            must = "at least 1" if is_number else "a Python int or float"
            raise ValueError(
                f"loss_scale_value must be {must}, but got: {loss_scale_value!r}."
            )
        self._loss_scale_value = options.positive_number(
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
        or None to divide it by `multiplier` (an addition by keyword, as the next three).
      hysteresis: Python int, skipped steps in a row before the scale shrinks, so that
        one bad batch does not count as an overflow. Defaults to 1.
      min_loss_scale: Python float, the scale does not shrink below it. Defaults to 1.
      max_loss_scale: Python float, the scale does not grow above it, or None for the
        largest float32.

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
        initial_loss_scale: float = ScaleRule.initial_scale,
        increment_period: int = ScaleRule.growth_steps,
        multiplier: float = ScaleRule.growth_factor,
        **additions: Any,
    ) -> None:
        super().__init__()
        for name in additions.keys() - set(options.names(options.DYNAMIC)):
            raise TypeError(
                f"DynamicLossScale got an unexpected keyword argument {name!r}."
            )
        first = (initial_loss_scale, increment_period, multiplier)
        given = dict(zip(options.names(options.DYNAMIC), first)) | additions
        self._rule = options.make_rule(options.DYNAMIC, given)
        self._current_loss_scale = self._add_weight(
            "current_loss_scale", self._rule.initial_scale, tf.float32
        )
        self._num_good_steps = self._add_weight("good_steps", 0, tf.int64)
        self.variables = scale_variables.ScaleVariables(
            self._rule, self._current_loss_scale, self._num_good_steps
        )

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

        Args:
          value: number from `min_loss_scale` to `max_loss_scale`.

        Raises:
          TypeError: if `value` is no number.
          ValueError: if it is not within the limits.
          RuntimeError: in a graph of TensorFlow 1.
        """
        number = options.positive_number("loss_scale", value)
        if not self.min_loss_scale <= number <= self._rule.max_scale:
            raise ValueError(
                f"'loss_scale' must be from {self.min_loss_scale} to "
                f"{self._rule.max_scale}, the limits of this scale, but got: {value!r}."
            )
        self.variables.assign(number)

    @tf.autograph.experimental.do_not_convert
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the scale, depending on whether all replicas have finite gradients.

        Arguments and results are those of `LossScale.update`. The second result is a
        tensor, the same on every replica.
        """

        def judge(_, grads):
            finite = finite_lib.agreed(grads)
            moved = self.variables.advance(finite)
            return None if tf.executing_eagerly() else moved.op, finite

        grads = [g for g in tf.nest.flatten(grads) if g is not None]
        if not finite_lib.merging_is_needed():
            return judge(None, grads)
        return tf.distribute.get_replica_context().merge_call(judge, args=(grads,))

    @property
    def takes_verdicts(self):
        """Whether a step may do without `update`: not if a subclass has its own."""
        return type(self).update is DynamicLossScale.update

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return self.variables.numbers_in_a_row()[1]

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
        config = options.arguments_of(self._rule, options.DYNAMIC)
        legacy = ("initial_loss_scale", "increment_period", "multiplier")
        first = {name: config[name] for name in legacy}
        return first | options.set_arguments_of(self._rule, options.DYNAMIC)


def _attribute(name):
    return property(
        lambda self: options.arguments_of(self._rule, options.DYNAMIC)[name],
        doc=f"`{name}`, as the constructor has it.",
    )


for _name in options.names(options.DYNAMIC):
    setattr(DynamicLossScale, _name, _attribute(_name))
DynamicLossScale.__signature__ = options.signature(DynamicLossScale, options.DYNAMIC)


def make(dynamic: bool, given: dict[str, Any]) -> LossScale:
    """Return the loss scale of a `LossScaleOptimizer`.

    Args:
      dynamic: whether it moves.
      given: dict of the arguments that are options. None for one of the first two means
        its default.

    Raises:
      TypeError, ValueError: if one is refused; the message has its name.
    """
    if dynamic:
        rule = options.make_rule(options.STABLE, given)
        if rule.growth_factor < 1:
            raise ValueError(
                "'growth_factor' must be at least 1, since the scale is multiplied by it "
                f"to grow, but got: {rule.growth_factor!r}."
            )
        return DynamicLossScale(**options.arguments_of(rule, options.DYNAMIC))
    if given.get("initial_scale") is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False: it is the scale. "
            "Got None."
        )
    for option in options.OPTIONS[1:]:
        default = option.default(options.STABLE)
        if given.get(option.stable, default) != default:
            raise ValueError(
                f"{option.stable!r} must not be given if 'dynamic' is False, since a fixed "
                f"scale never moves, but got: {given[option.stable]!r}."
            )
    return FixedLossScale.of(
        options.positive_number("initial_scale", given["initial_scale"])
    )


def arguments_of(loss_scale: Any) -> dict[str, Any]:
    """Return the arguments of `LossScaleOptimizer` that make an equal scale, a dict.

    Those that legacy configs lack are in it only if they were set.

    Args:
      loss_scale: a `FixedLossScale` or a `DynamicLossScale`.
    """
    if isinstance(loss_scale, FixedLossScale):
        scale = loss_scale.get_config()["loss_scale_value"]
        return {"dynamic": False, "initial_scale": scale, "dynamic_growth_steps": None}
    rule = loss_scale._rule
    first = {
        "initial_scale": rule.initial_scale,
        "dynamic_growth_steps": rule.growth_steps,
    }
    return {"dynamic": True, **first, **options.set_arguments_of(rule, options.STABLE)}


# The classes that a config may name. Users pass their own in `custom_objects`.
CLASSES = {cls.__name__: cls for cls in (FixedLossScale, DynamicLossScale)}


def get(
    identifier: Any, custom_objects: dict[str, Any] | None = None
) -> LossScale | None:
    """Return the loss scale that `identifier` stands for.

    Args:
      identifier: a `LossScale`, which is returned as it is; an int or float for a fixed
        one; "dynamic"; a config, as `serialize` returns; or None, which is returned.
      custom_objects: dict of names and further `LossScale` classes for a config.

    Returns:
      A `LossScale`, or None for None.

    Raises:
      ValueError: for anything else, or a number below 1.

    Example:
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


def serialize(loss_scale: LossScale | None) -> dict[str, Any] | None:
    """Return the config of a loss scale, a dict, or None for None."""
    if loss_scale is None:
        return None
    return {
        "class_name": type(loss_scale).__name__,
        "config": loss_scale.get_config(),
    }


def deserialize(
    config: dict[str, Any], custom_objects: dict[str, Any] | None = None
) -> LossScale:
    """Return the loss scale of a config that `serialize` returned.

    Args:
      config: dict, which is not changed.
      custom_objects: dict of names and further `LossScale` classes.

    Raises:
      ValueError: if it names no known class, or is no config.
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
