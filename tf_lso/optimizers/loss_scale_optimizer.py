"""The one optimizer class, and the face that serves each optimizer family."""

import inspect
import types
from typing import Any

from tf_lso import environment, events, kerases

environment.require_tensorflow()  # before a Keras that does not fit fails

# ruff: noqa: E402
from tf_lso.optimizers import overrides, validation
from tf_lso.optimizers.configs import wrappers as configs
from tf_lso.optimizers.faces import face as face_lib
from tf_lso.optimizers.faces import families
from tf_lso.optimizers.surface import legacy as surface
from tf_lso.scaling import calls, options, report, skipped
from tf_lso.scaling import loss_scale as loss_scale_lib

_MISSING: Any = object()

_bound_classes: dict[tuple[type, type], type] = {}


def is_optimizer(value):
    """Whether `value` is an optimizer of Keras 3 or Keras 2, wrapped or not."""
    return families.of(value) is not None


def face_of(optimizer):
    """Return the class of the face that serves `optimizer`.

    Raises:
      TypeError: if `optimizer` is no optimizer.
    """
    face = families.of(optimizer)
    if face is not None:
        return face
    got = optimizer if inspect.isclass(optimizer) else type(optimizer)
    remedy = (
        f"Pass an instance: {got.__name__}(...)."
        if inspect.isclass(optimizer)
        else "Pass for instance tf.keras.optimizers.SGD(0.1)."
    )
    raise TypeError(
        "'optimizer' must be an instance of a Keras 3 or Keras 2 optimizer, but got "
        f"{optimizer!r} of type {got.__module__}.{got.__qualname__}. {remedy}"
    )


def _bound(cls, optimizer):
    """Return the class that wraps `optimizer`: `cls` with the face of its family."""
    face = face_of(optimizer)
    if issubclass(cls, face):
        return cls
    if issubclass(cls, face_lib.Face):
        raise TypeError(
            f"'optimizer' must be of the family that this class was made for, but got "
            f"{optimizer!r} of type {type(optimizer).__module__}."
            f"{type(optimizer).__qualname__}. Call tf_lso.LossScaleOptimizer instead."
        )
    if (cls, face) not in _bound_classes:
        namespace = {
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "_unbound": cls,  # what programs call, and pickle finds by its name
        }
        bound = types.new_class(
            cls.__name__, (cls, face), exec_body=lambda body: body.update(namespace)
        )
        face._bound_to(cls, bound)
        _bound_classes[cls, face] = bound
    return _bound_classes[cls, face]


def _the_inner(optimizer, inner_optimizer):
    given = [o for o in (optimizer, inner_optimizer) if o is not _MISSING]
    if len(given) != 1:
        raise TypeError(
            "LossScaleOptimizer takes one optimizer, as its first argument 'optimizer' "
            f"or as 'inner_optimizer', but got {len(given)}."
        )
    return given[0]


def shown_as_in_legacy(cls):
    """Hide from `inspect.signature` of a class what TensorFlow 2.0-2.15 did not have."""
    signature = options.signature(cls, options.STABLE, hidden=("inner_optimizer",))
    cls.__signature__ = signature.replace(
        parameters=[
            one.replace(default=one.empty) if one.default is _MISSING else one
            for one in signature.parameters.values()
        ]
    )
    return cls


@shown_as_in_legacy
@kerases.registered("tf_lso")  # `load_model` finds it by this
class LossScaleOptimizer(surface.Surface):
    """An optimizer that scales the loss so that float16 gradients do not vanish.

    Wraps an optimizer of Keras 3 or Keras 2; the latter is tf_keras, and the `tf.keras` of
    TensorFlow 2.12-2.15. The loss is multiplied by the loss scale, and the gradients are
    divided by it. If a gradient is not finite, the step is skipped on all replicas and
    the scale is halved. After `dynamic_growth_steps` finite steps the scale is doubled.

    The result is an instance of this class, of the optimizer base class of the inner
    optimizer's family, and of that family's own LossScaleOptimizer. Its hyperparameters
    (`learning_rate`, `lr`, `beta_1`, ...) are those of the inner optimizer.

    Args:
      optimizer: the optimizer to wrap, of Keras 3 or Keras 2. The keyword
        `inner_optimizer`, as in Keras 3, is accepted too.
      dynamic: bool, whether the scale moves. If False it stays at `initial_scale` and
        no step is skipped.
      initial_scale: number, the first loss scale. Defaults to 2**15 if the scale is
        dynamic; a fixed scale must be given.
      dynamic_growth_steps: int, finite steps in a row before the scale doubles.
        Defaults to 2000. Only for a dynamic scale.
      inner_optimizer: Keras 3's name for `optimizer`; pass one of the two.
      name: str, the optimizer's name. Defaults to the name that Keras 3 chooses, or
        around Keras 2's optimizers to the inner optimizer's name.
      growth_factor: number, at least 1, by which the scale is multiplied to grow.
        Defaults to 2 (an addition, as are the next four).
      backoff_factor: number, less than 1, by which the scale is multiplied to shrink.
        Defaults to 0.5.
      hysteresis: int, skipped steps in a row before the scale shrinks, so that one bad
        batch does not count as an overflow. Defaults to 1.
      min_scale: number, the scale does not shrink below it. Defaults to 1.
      max_scale: number, the scale does not grow above it. Defaults to None: growth stops
        before infinity.
      **keras3_arguments: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`,
        `use_ema`, `ema_momentum`, `ema_overwrite_frequency`, `loss_scale_factor` and
        `gradient_accumulation_steps`, which configs of Keras 3 carry. Only their
        defaults are accepted: set them on the inner optimizer.

    Raises:
      TypeError: if `optimizer` is no optimizer or is a LossScaleOptimizer, if both or
        neither of `optimizer` and `inner_optimizer` are given, if `dynamic` is no bool,
        or if a keyword is unknown.
      ValueError: if another wrapper holds the optimizer, the strategy in scope is not
        supported, a number is not in its range, or a keyword of Keras 3 has
        another value than its default.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
    >>> x = tf.Variable(1.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = x ** 2
    ...     scaled_loss = opt.get_scaled_loss(loss)
    >>> scaled_grads = tape.gradient(scaled_loss, [x])
    >>> grads = opt.get_unscaled_gradients(scaled_grads)
    >>> opt.apply_gradients(zip(grads, [x]))
    >>> float(x), float(opt.loss_scale)
    (0.5, 32768.0)

    Source: `tf.keras.mixed_precision.LossScaleOptimizer` of TensorFlow 2.4-2.15 and
    `keras.optimizers.LossScaleOptimizer` of Keras 3. The technique: Micikevicius et
    al., "Mixed Precision Training", 2018, https://arxiv.org/abs/1710.03740.
    """

    def __new__(cls, optimizer=_MISSING, *args, inner_optimizer=_MISSING, **kwargs):
        """Make an instance of the class that serves the family of the optimizer."""
        del args, kwargs
        inner = _the_inner(optimizer, inner_optimizer)
        return super().__new__(_bound(cls, inner))

    def __init__(
        self,
        optimizer: Any = _MISSING,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        inner_optimizer: Any = _MISSING,
        name: str | None = None,
        **keywords: Any,
    ) -> None:
        inner = _the_inner(optimizer, inner_optimizer)
        validation.check_dynamic(dynamic)
        scale = {
            "initial_scale": initial_scale,
            "dynamic_growth_steps": dynamic_growth_steps,
        }
        names = keywords.keys() & set(options.names(options.STABLE))
        scale |= {option: keywords.pop(option) for option in names}
        validation.check_keras3_arguments(keywords)
        self._start(inner, lambda: loss_scale_lib.make(dynamic, scale), name)

    def _start(self, inner, make_loss_scale, name):
        """Wrap `inner`. The loss scale is made last, after all checks have passed."""
        validation.check_strategy()
        validation.check_free(inner)
        self._check_inner(inner)
        loss_scale = make_loss_scale()
        self._initialize_family(name)
        state = {
            "_loss_scale": loss_scale,
            "_calls": calls.Calls(),
            "_skipped": skipped.Skipped(loss_scale),
            "_once": report.Once(),
            "_traced": False,
            "_checked": {},
            "_delegated": self._hyperparameters_of(inner),
            "_inner": inner,
        }
        # Attribute assignment would not do: the base class of each family tracks or
        # delegates it in its own way.
        self.__dict__.update(state)
        dead = overrides.dead_overrides(inner)
        if dead and not self._returns_operations:
            self._once.warn(
                f"{type(inner).__name__} overrides {', '.join(dead)}, which optimizers "
                "since TensorFlow 2.11 never call. Override update_step() instead, or "
                "derive the class from "
                f"{kerases.keras2_spelled(self._package)}.optimizers.legacy."
            )
        if name is not None:
            self.name = name
        self._wrap_inner()
        inner.__dict__[validation.MARK] = True
        events.optimizer_wrapped.happened(self._package)

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Any:
        """Make an optimizer from a config that `get_config` returned.

        Args:
          config: dict, which is not changed. Configs of Keras 3's, tf_keras's and
            TensorFlow 2.0-2.15's own LossScaleOptimizers are read too, for this class
            and for the experimental one. If the loss scale is of a class of your own, or
            has another multiplier than 2, the result is an experimental optimizer, a
            subclass of this one.
          custom_objects: dict of names and classes of your own: optimizers, learning
            rate schedules, loss scales.

        Returns:
          A new optimizer. Its loss scale starts at `initial_scale`.

        Raises:
          TypeError: if `config` is no dict, or a value is of the wrong type.
          ValueError: if a class is not known, a key is missing, or the inner
            optimizer's Keras cannot do what a key of its config says.
        """
        return configs.from_config(cls, config, custom_objects)
