"""Define the class LossScaleOptimizer with all its public methods.

The code that depends on the kind of the inner optimizer is in adapters, which are the
subclasses of `families.family.Family`. The module `scaling.step` runs a step. The module
`scaling.calls` decides whether the step divides its gradients by the loss scale.
"""

import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import (
    file_stores,
    graphs,
    hyperparameters,
    keras2_private,
    keras_versions,
    log,
    tf_private,
)
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import binding, validation
from tf_lso.optimizers import config as configs
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import state as state_lib
from tf_lso.optimizers.families.family import forwarded
from tf_lso.scaling import calls as calls_lib
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling import loss_scale_configs, skipped
from tf_lso.scaling import step as step_lib
from tf_lso.scaling.rule import ScaleRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tf_lso.frameworks import optimizer_table as table

MISSING: Any = binding.MISSING
_FLOAT16_LOSS = (
    "A float16 loss was scaled, and stays float16. If it exceeds 65504 after scaling, it "
    "becomes inf and the step is skipped. Cast the loss to float32 before "
    "get_scaled_loss(). See `tf-lso help float16-loss`"
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


# AutoGraph need not convert the methods that have this decorator.
_not_converted: Callable[[_Function], _Function]
_not_converted = tf.autograph.experimental.do_not_convert


def _of_inner(name: str, what: str) -> property:
    """Return a property for the inner optimizer's attribute `name`, which `what` describes."""

    def read(self):
        return None if self._family is None else getattr(self.inner_optimizer, name)

    def write(self, value):
        if self._family is None:
            return
        if not hasattr(self.inner_optimizer, name):
            raise AttributeError(
                f"{type(self.inner_optimizer).__name__!r} optimizer has no attribute "
                f"{name!r} to set to {value!r}."
            )
        self._warn_if_traced(name)
        setattr(self.inner_optimizer, name, value)

    return property(read, write, doc=f"{what}. Reads and sets the inner optimizer's.")


# Setting one of these attributes bypasses the `__setattr__` of all base classes, so that no
# base class tracks the value.
_OWN = frozenset(
    {"_calls", "_delegated", "_family", "_loss_scale", "_once", "_own_name", "_skipped"}
    | {"_state", "_trackable", "_traced"}
)


def _check_loss_scale(value):
    if not isinstance(value, loss_scale_lib.LossScale):
        raise TypeError(
            "The loss scale of an optimizer must be a tf_lso.LossScale. Derive your class "
            "from it, with __call__, update and get_config, and give an instance to the "
            f"experimental LossScaleOptimizer. Got: {value!r}."
        )


@keras_versions.named_in_files("tf_lso>LossScaleOptimizer")
class LossScaleOptimizer(tf_private.Dependencies):
    """An optimizer that scales the loss so that float16 gradients do not vanish.

    The loss is multiplied by the loss scale, and the gradients are divided by the loss
    scale. If a gradient is not finite, the step is skipped on all replicas and the scale is
    halved. A step with only finite gradients is called a finite step. After
    `dynamic_growth_steps` consecutive finite steps the scale is doubled. The arguments
    `growth_factor` and `backoff_factor` can set other factors.

    `isinstance` and `compile` treat a LossScaleOptimizer like its inner optimizer: as a
    Keras 3, a legacy Keras 2 or a newer Keras 2 optimizer. The hyperparameters of the inner
    optimizer, such as `lr` and `beta_1`, are also attributes of the LossScaleOptimizer.

    tf_lso adds the arguments `growth_factor`, `backoff_factor`, `min_scale` and `max_scale`.
    The LossScaleOptimizers of TensorFlow and Keras do not have these arguments.

    Args:
      optimizer: the optimizer to wrap, of Keras 3 or Keras 2 (tf_keras, and `tf.keras`
        of TensorFlow 2.12-2.15). It may also be passed as `inner_optimizer`, as in Keras 3.
      dynamic: bool, whether the scale changes. If False, the scale stays at `initial_scale`
        and no step is skipped.
      initial_scale: number, the first loss scale. Defaults to 2**15 for a dynamic scale. A
        fixed scale has no default.
      dynamic_growth_steps: int, the number of consecutive finite steps after which the scale
        grows. Defaults to 2000. Only a dynamic scale accepts this argument.
      name: str, the name of the optimizer. With Keras 3, Keras chooses the default. With
        Keras 2, the default is the name of the inner optimizer.
      growth_factor: number of at least 1. The scale is multiplied by this factor when it
        grows. Defaults to 2.
      backoff_factor: number below 1. The scale is multiplied by this factor when it
        shrinks. Defaults to 0.5.
      min_scale: number, the smallest scale. Defaults to 1.
      max_scale: number, the largest scale. Defaults to None, which allows all scales that
        float32 can represent.
      **keywords: arguments that configs of Keras 3 contain, such as `clipnorm`. Each
        argument must have its default value. Set other values on the inner optimizer.

    Raises:
      TypeError: if `optimizer` is not an optimizer or is a LossScaleOptimizer, `dynamic` is
        not a bool, or a keyword is unknown.
      ValueError: if another wrapper holds the optimizer, the current strategy is not
        supported, or a number is out of its range.

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

    _family_class: Any = None
    # The constructor of the base class reads attributes while `_family` is still None.
    _family: Any = None
    _own_name: str | None = None
    _delegated: frozenset[str] = frozenset()
    _traced = False
    _hidden_from_dir: frozenset[str] = frozenset()

    # --- Construction.

    def __init__(
        self,
        optimizer: Any = MISSING,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        inner_optimizer: Any = MISSING,
        name: str | None = None,
        growth_factor: float = ScaleRule.growth_factor,
        # The type of `ScaleRule.backoff_factor` allows None, so the default is repeated here.
        backoff_factor: float = 0.5,
        min_scale: float = ScaleRule.min_scale,
        max_scale: float | None = None,
        **keywords: "Unpack[table.Keras3Arguments]",
    ) -> None:
        inner = binding.the_inner(optimizer, inner_optimizer)
        validation.check_dynamic(dynamic)
        validation.check_keras3_arguments(keywords)
        arguments = {
            "initial_scale": initial_scale,
            "dynamic_growth_steps": dynamic_growth_steps,
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "min_scale": min_scale,
            "max_scale": max_scale,
        }
        self._start(inner, lambda: loss_scale_configs.make(dynamic, arguments), name)

    def __new__(cls, optimizer=MISSING, *args, inner_optimizer=MISSING, **kwargs):
        """Make an instance of the subclass of `cls` that fits the inner optimizer."""
        del args, kwargs
        inner = binding.the_inner(optimizer, inner_optimizer)
        return super().__new__(binding.bound_class(cls, inner))

    # Make Python's `inspect` and `help` show the signature of the constructor.
    __new__.__wrapped__ = __init__  # type: ignore[attr-defined]

    def _start(self, inner, make_loss_scale, name):
        """Wrap the inner optimizer. Call `make_loss_scale` only after the checks."""
        validation.check_strategy()
        validation.check_free(inner)
        if not keras_versions.is_keras2(self._family_class.package):
            validation.check_reduces(self, inner)
        family = self._family_class(inner)
        loss_scale = self._loss_scale = make_loss_scale()
        family.join(self, loss_scale, name)
        self._family = family
        self._calls, self._skipped = calls_lib.Calls(), skipped.Skipped(loss_scale)
        self._once = log.Once()
        self._state = state_lib.State(family, loss_scale, lambda: self.name)
        self._delegated = hyperparameters.delegated_names(inner)
        if name is not None:
            self.name = name
        dead = hyperparameters.dead_overrides(inner)
        if dead and not family.returns_operations:
            self._once.warn(
                f"{type(inner).__name__} overrides {', '.join(dead)}, which optimizers "
                "since TensorFlow 2.11 never call. Override update_step() instead, or "
                "derive the class from "
                f"{keras_versions.keras2_spelled(family.package)}.optimizers.legacy. See "
                "`tf-lso help never-called`"
            )
        keras2_private.mark(inner)

    if TYPE_CHECKING:
        # If a type checker saw the methods in the `else` branch, it would accept every
        # attribute name, even a misspelt one.
        beta: Any
        beta_1: Any
        beta_2: Any
        decay: Any
        l1_regularization_strength: Any
        l2_regularization_strength: Any
        learning_rate_power: Any
        momentum: Any
        rho: Any
    else:

        def __setattr__(self, name, value):
            if name in _OWN:
                if name == "_loss_scale":
                    _check_loss_scale(value)
                variables_lib.set_untracked(self, name, value)
            elif name in self._delegated and not hasattr(type(self), name):
                changed = hyperparameters.write(self.inner_optimizer, name, value)
                # Traced steps read a legacy optimizer's new value, which is in a variable.
                if changed and not self._family.returns_operations:
                    self._warn_if_traced(name)
            else:
                super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            if name in self._delegated:
                return hyperparameters.read(self.inner_optimizer, name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )

    def __dir__(self):
        return sorted({*super().__dir__(), *self._delegated} - self._hidden_from_dir)

    def __repr__(self):
        if self._family is None:
            return object.__repr__(self)
        shown = f"{type(self).__name__} around {type(self.inner_optimizer).__name__}"
        # A tensor of a graph has no known value.
        if tf.executing_eagerly():
            shown += f", loss_scale={float(self.loss_scale):g}"
            count = variables_lib.raw(self.dynamic_counter)
            if count is not None:
                shown += f", dynamic_counter={int(tf.convert_to_tensor(count))}"
            shown += "" if self.dynamic else ", fixed"
        return f"<{shown}>"

    def _warn_if_traced(self, name):
        if self._traced:
            self._once.warn(
                f"{name!r} was set after a step was traced (by tf.function or fit). Traced "
                "steps keep the old value. Create a new tf.function, or call "
                "model.make_train_function(force=True)."
            )

    # --- Scaling and unscaling.

    @overload
    def get_scaled_loss(
        self, loss: Callable[[], tf.Tensor]
    ) -> Callable[[], tf.Tensor]: ...

    @overload
    def get_scaled_loss(self, loss: tf.Tensor) -> tf.Tensor: ...

    @_not_converted
    def get_scaled_loss(
        self, loss: tf.Tensor | Callable[[], tf.Tensor]
    ) -> tf.Tensor | Callable[[], tf.Tensor]:
        """Multiply the loss by the loss scale. Call this method inside the `GradientTape`.

        Args:
          loss: tensor of any shape and float dtype, or a callable that returns such a
            tensor.

        Returns:
          A tensor of the same shape and dtype as the loss. If `loss` is a callable, the
          result is a callable that returns such a tensor. If the loss is float16 and the
          scaled loss exceeds 65504, the scaled loss becomes inf. So cast a float16 loss to
          float32 first.

        Raises:
          TypeError: if `loss` is neither a tensor nor callable.
          RuntimeError: if the loss is already scaled, or `scale_loss` has scaled a loss in
            the same step.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(
        ...     tf.keras.optimizers.SGD(0.1), initial_scale=4)
        >>> float(opt.get_scaled_loss(tf.constant(1.5)))
        6.0

        Source: TensorFlow 2.0-2.15.
        """
        self._calls.check_loss(loss, calls_lib.ScalingCall.GET_SCALED_LOSS)
        if callable(loss) and not hasattr(loss, "dtype"):

            def scaled():
                # AutoGraph may convert `loss`, but would only warn about tf_lso's own code.
                return self._scaled(loss())

        else:
            scaled = self._scaled(loss)
        self._calls.note_scaled(calls_lib.ScalingCall.GET_SCALED_LOSS, scaled)
        return scaled

    @_not_converted
    def _scaled(self, loss):
        if not hasattr(loss, "dtype"):
            raise TypeError(
                "'loss' must be a tensor or a callable that returns one, but got: "
                f"{loss!r}. Convert it with tf.convert_to_tensor()."
            )
        scaled = gradients_lib.scale_loss(loss, self._loss_scale._current())
        if loss.dtype == tf.float16 and not self._once.has_logged(_FLOAT16_LOSS):
            # In eager code this check waits for the device, so the first warning ends it.
            is_infinite = tf.reduce_any(
                tf.math.is_inf(scaled) & tf.math.is_finite(loss)
            )
            if not tf.executing_eagerly() or is_infinite:
                self._once.warn(_FLOAT16_LOSS)
        return scaled

    @_not_converted
    def get_unscaled_gradients(
        self, grads: Iterable[gradients_lib.Gradient]
    ) -> list[gradients_lib.Gradient]:
        """Divide gradients by the loss scale.

        Args:
          grads: iterable of tensors of any float dtype, `tf.IndexedSlices` and None.

        Returns:
          A list with one unscaled gradient for each element of `grads`. Each gradient keeps
          its dtype. `tf.IndexedSlices` stay `tf.IndexedSlices`, and None stays None. The
          division is done in float32 or a wider dtype.

        Raises:
          TypeError: if `grads` is not iterable, or an element is not a gradient.
          RuntimeError: if a gradient is already unscaled, because this method returned it.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(
        ...     tf.keras.optimizers.SGD(0.1), initial_scale=4)
        >>> [None if g is None else float(g)
        ...  for g in opt.get_unscaled_gradients([tf.constant(6.), None])]
        [1.5, None]

        Source: TensorFlow 2.0-2.15.
        """
        grads = validation.as_list("grads", grads)
        validation.check_gradients(grads)
        self._calls.check_gradients(grads)
        scale = self._loss_scale._current()
        unscaled = gradients_lib.unscale_gradients(grads, scale)
        quotients = [None] * len(unscaled)
        if gradients_lib.are_divided_late():
            quotients = [gradients_lib.quotient_of(grad, scale) for grad in grads]
        self._calls.note_unscaled(unscaled, quotients)
        return unscaled

    @_not_converted
    def scale_loss(self, loss: tf.Tensor | float) -> tf.Tensor:
        """Multiply the loss by the loss scale, in float32 or a wider dtype.

        Pass the gradients of the scaled loss to `apply_gradients` or `apply`. Both methods
        unscale the gradients. Keras 3's `fit` scales the loss by this method.

        Args:
          loss: tensor of any shape and float dtype, or a number.

        Returns:
          A tensor of the same shape as the loss. The dtype is float32 if the loss is
          float16 or bfloat16. Otherwise the dtype is the same as that of the loss.

        Raises:
          TypeError: if `loss` is None.
          RuntimeError: if the loss is already scaled, or `get_scaled_loss` has scaled a loss
            in the same step. With a Keras 3 optimizer, also if a subclass or the program
            overrides a method that `fit` of TensorFlow 2.4-2.15 called, because `fit` of
            Keras 3 does not call this method in the same way.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
        >>> x = tf.Variable(1.0)
        >>> with tf.GradientTape() as tape:
        ...     scaled_loss = opt.scale_loss(x ** 2)
        >>> opt.apply_gradients(zip(tape.gradient(scaled_loss, [x]), [x]))
        >>> float(x)
        0.5

        Source: Keras 3.
        """
        if loss is None:
            raise TypeError("'loss' must be a tensor or a number, but got: None.")
        self._family.refuse_overridden(self)
        self._calls.check_loss(loss, calls_lib.ScalingCall.SCALE_LOSS)
        loss = tf.convert_to_tensor(loss)
        is_wide = loss.dtype.is_floating or loss.dtype.is_complex
        if not is_wide or loss.dtype in (tf.float16, tf.bfloat16):
            loss = tf.cast(loss, tf.float32)
        scaled = gradients_lib.scale_loss(loss, self._loss_scale._current())
        self._calls.note_scaled(calls_lib.ScalingCall.SCALE_LOSS, scaled)
        return scaled

    # --- Applying.

    @_not_converted
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[gradients_lib.Gradient, Any]],
        name: Any = None,
        experimental_aggregate_gradients: bool = True,
        skip_gradients_aggregation: bool = False,
        **kwargs: Any,
    ) -> tf.Tensor | tf.Operation | None:
        """Apply gradients. If a gradient is not finite, skip the step instead.

        If `scale_loss` scaled the loss, this method first unscales the gradients. Then the
        gradients are aggregated over the replicas. If all aggregated gradients are finite,
        the inner optimizer updates the variables on every replica. Otherwise the step is
        skipped. In both cases the loss scale is updated, and `iterations` counts the step.

        Args:
          grads_and_vars: iterable of (gradient, variable) pairs. A variable whose gradient
            is None is not updated. If the iterable is empty, the method does nothing.
          name: str, the name of the operations. A value that is not a str is passed to the
            inner optimizer's own `apply_gradients` as the second argument, as in TensorFlow
            2.0-2.8.
          experimental_aggregate_gradients: bool, whether to aggregate over the replicas.
            Pass False if the gradients are already aggregated.
          skip_gradients_aggregation: bool. True has the effect of
            `experimental_aggregate_gradients=False`. TensorFlow 2.11-2.15 had this argument.
          **kwargs: further arguments for the inner optimizer's own `apply_gradients`.

        Returns:
          In eager mode, None. In a `tf.function`, a scalar bool tensor that is True if the
          step was applied. In a TensorFlow 1 graph, an op that runs the step.

        Raises:
          TypeError: if an element is not a gradient or a variable, or the inner optimizer
            does not accept a further argument.
          ValueError: if no variable has a gradient, the optimizer was built for other
            variables, the current strategy is not supported, or the method is called in a
            cross-replica context.
          RuntimeError: if the gradients may be either scaled or unscaled, because
            `scale_loss` and `get_scaled_loss` were called in different functions or
            threads.

        Source: TensorFlow 2.0-2.15.
        """
        grads, variables = validation.unzip(grads_and_vars)
        aggregate = experimental_aggregate_gradients and not skip_gradients_aggregation
        is_keras3 = self._family.name == "keras3"
        if is_keras3 and aggregate and not validation.is_of_tf_lso(type(self).apply):
            # `apply_gradients` of Keras 3 also calls the `apply` of a user's subclass.
            return self.apply(grads, variables)
        args = () if name is None or isinstance(name, str) else (name,)
        return self._apply(
            grads,
            variables,
            aggregate=aggregate,
            args=args,
            kwargs=kwargs if args else {"name": name, **kwargs},
        )

    @_not_converted
    def apply(
        self,
        grads: Iterable[gradients_lib.Gradient],
        trainable_variables: Iterable[Any] | None = None,
    ) -> None:
        """Apply a list of gradients, as `apply_gradients` does.

        Only one case differs: if no method of this optimizer has scaled a loss, `apply`
        unscales the gradients and `apply_gradients` does not.

        Args:
          grads: list with one gradient for each variable. A variable whose gradient is None
            is not updated.
          trainable_variables: list of variables, or None for the variables that were passed
            to `build`.

        Raises:
          TypeError, RuntimeError: in the same cases as `apply_gradients`.
          ValueError: in the same cases as `apply_gradients`, or if the two lists differ in
            length, or if `trainable_variables` is None and `build` was not called.

        Source: Keras 3.
        """
        gradients = validation.as_list("grads", grads)
        if trainable_variables is None:
            trainable_variables = self._family.built_variables()
            if gradients and not trainable_variables:
                raise ValueError(
                    "'trainable_variables' must be given until the optimizer is built: "
                    "pass them, or call build(trainable_variables) first."
                )
        variables = validation.as_list("trainable_variables", trainable_variables)
        if len(gradients) != len(variables):
            raise ValueError(
                f"'grads' has {len(gradients)} elements but there are {len(variables)} "
                "variables. Pass one gradient for each variable, or None for one without."
            )
        self._apply(gradients, variables, aggregate=True, unknown_is_scaled=True)

    def _apply(
        self,
        grads,
        variables,
        *,
        aggregate,
        args=(),
        kwargs=types.MappingProxyType({}),
        unknown_is_scaled=False,
    ):
        """Check the gradients and variables, and run one step.

        If no method of this optimizer has scaled a loss, `unknown_is_scaled` decides whether
        the step unscales the gradients.
        """
        validation.check_context()
        if not grads:
            return None
        validation.check_gradients(grads)
        pairs = list(zip(grads, variables))
        missing = [variables_lib.name_of(v) for g, v in pairs if g is None]
        if len(missing) == len(pairs):
            raise ValueError(
                f"No gradients provided for any variable: {missing}. The loss does not "
                "depend on them, or was computed outside the GradientTape."
            )
        further = {k: v for k, v in kwargs.items() if k != "name"}
        validation.check_inner_arguments(self.inner_optimizer, args, further)
        given = [(g, v) for g, v in pairs if g is not None]
        used = [v for _, v in given]
        self._family.prepare(self, variables, used)
        if missing:
            self._once.warn(f"Gradients do not exist for variables {missing}.")
        grads = [gradients_lib.with_dense_shape(g, v) for g, v in given]
        divides = self._calls.begin_step(grads, if_none_seen=unknown_is_scaled)
        if not divides:
            self._warn_if_forgotten()
        if not tf.executing_eagerly():
            self._traced = True
            tf_private.once_for_replicas(self._skipped.prepare, used)
        step = step_lib.Step(
            family=self._family,
            loss_scale=self._loss_scale,
            skipped=self._skipped,
            unscaled_gradients=self._calls.unscaled_gradients,
            divisor=self._loss_scale._current() if divides else None,
            update=lambda *pairs: self._family.apply(*pairs, *args, **kwargs),
            is_aggregated=not aggregate,
            variables=used,
        )
        if graphs.in_tensorflow_1() and not self._family.returns_operations:
            # A `tf.function` runs all operations that have side effects. A graph of
            # TensorFlow 1 would run only the operations on which the result depends.
            applied = tf.function(lambda: step.run(grads), autograph=False)()
            return applied.op if graphs.in_graph_of_tensorflow_1() else applied
        return step.run(grads)

    def _warn_if_forgotten(self):
        # A user's subclass may scale and unscale without the methods of tf_lso.
        forgotten = self._calls.warning_if_forgotten()
        methods = (type(self).get_scaled_loss, type(self).get_unscaled_gradients)
        if forgotten and all(map(validation.is_of_tf_lso, methods)):
            self._once.warn(forgotten)

    def minimize(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Any,
        grad_loss: tf.Tensor | None = None,
        name: str | None = None,
        tape: tf.GradientTape | None = None,
    ) -> tf.Tensor | tf.Operation | None:
        """Compute the gradients of the loss, unscale them, and apply them.

        Args:
          loss: callable that returns a scalar tensor. If `tape` is passed, `loss` may be a
            scalar tensor.
          var_list: list of variables, or a callable that returns such a list.
          grad_loss: tensor, the gradient of the loss. Defaults to ones.
          name: str, the name of the operations.
          tape: the `tf.GradientTape` that recorded `loss`. If `loss` is a tensor, `tape` must
            be passed.

        Returns:
          The result of `apply_gradients`.

        Raises:
          TypeError, RuntimeError: in the same cases as `get_scaled_loss`,
            `get_unscaled_gradients` and `apply_gradients`.
          ValueError: in the same cases as `apply_gradients`, or if `loss` is a tensor and
            `tape` is None.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
        >>> x = tf.Variable(1.0)
        >>> opt.minimize(lambda: x ** 2, [x])
        >>> float(x)
        0.5

        Source: TensorFlow 2.0-2.15.
        """
        pairs = self._compute_gradients(loss, var_list, grad_loss=grad_loss, tape=tape)
        return self.apply_gradients(pairs, name=name)

    def compute_gradients(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Any,
        tape: tf.GradientTape | None = None,
    ) -> list[tuple[gradients_lib.Gradient, Any]]:
        """Return a list of (unscaled gradient, variable) pairs for a loss.

        See `minimize` for the arguments.
        """
        return self._compute_gradients(loss, var_list, tape=tape)

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        validation.check_tape(loss, tape)
        validation.check_context()
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = self.get_scaled_loss(loss)
        pairs = self._family.compute_gradients(loss, var_list, grad_loss, tape)
        grads, variables = validation.unzip(pairs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

    def get_gradients(
        self, loss: tf.Tensor, params: Any
    ) -> list[gradients_lib.Gradient]:
        """Return the list of the unscaled gradients of a scalar `loss`.

        The list has one gradient for each variable in the list `params`. Call this method
        only in a graph of TensorFlow 1.

        Raises:
          ValueError: if a variable has no gradient.
        """
        params = tf.nest.flatten(params)
        grads = tf.gradients(
            self.get_scaled_loss(loss), [variables_lib.raw(p) for p in params]
        )
        for grad, param in zip(grads, params):
            if grad is None:
                raise ValueError(
                    f"Variable {variables_lib.name_of(param)} has `None` for gradient."
                )
        return self.get_unscaled_gradients(grads)

    def get_updates(self, loss: tf.Tensor, params: Any) -> list[tf.Operation]:
        """Return a list of one operation, which runs a step for the variables in `params`.

        The step applies the gradients that `get_gradients` returns.
        """
        grads = self.get_gradients(loss, params)
        return [self.apply_gradients(zip(grads, tf.nest.flatten(params)))]

    @_not_converted
    def check_finite(self, grads: Iterable[gradients_lib.Gradient]) -> tf.Tensor:
        """Return a scalar bool tensor that is True if all gradients in `grads` are finite.

        This method does not check the gradients of other replicas.
        """
        return finite_lib.all_finite(list(grads))

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> NoReturn:
        """Raise ValueError, because the TensorFlow backend does not support this method."""
        raise ValueError(
            "stateless_apply is not supported with the TensorFlow backend, whose "
            "optimizers hold their state in variables. Use apply() or apply_gradients()."
        )

    # --- Attributes of loss scaling.

    @property
    def dynamic(self) -> bool:
        """A bool that is True if the loss scale can change."""
        return not isinstance(self.loss_scale_state, loss_scale_lib.FixedLossScale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale as a float32 scalar tensor. A dynamic scale can be set.

        Raises:
          AttributeError: if the program sets a scale that is not dynamic.
        """
        return self.loss_scale_state._current()

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        loss_scale = self.loss_scale_state
        if not isinstance(loss_scale, loss_scale_lib.DynamicLossScale):
            raise AttributeError(
                f"'loss_scale' cannot be set, but got: {value!r}. The scale is a "
                f"{type(loss_scale).__name__}, which traced steps may hold as a "
                "constant. Create a new optimizer, or use a dynamic scale."
            )
        loss_scale.assign(value)

    @property
    def skipped_steps(self) -> tf.Tensor:
        """The number of steps that this process has skipped, as an int64 scalar tensor.

        Checkpoints do not contain this number.
        """
        self._skipped.report()
        return self._skipped.total()

    @property
    def consecutive_skipped_steps(self) -> tf.Tensor:
        """The number of steps skipped after the last applied step, as an int64 tensor.

        Only the steps of this process are counted.
        """
        self._skipped.report()
        return self._skipped.in_a_row()

    @property
    def last_step_skipped(self) -> tf.Tensor:
        """A scalar bool tensor that is True if this process skipped its last step."""
        return self.consecutive_skipped_steps > 0

    @property
    def last_overflow(self) -> list[skipped.Overflow]:
        """A list of the variables whose gradients were not finite in the last skipped step.

        Each element is an `Overflow`, which is a tuple `(variable, kind)`. `variable` is
        the path of the variable. `kind` says which values the aggregated gradient of the
        variable contained: "inf", "nan" or "inf, nan".

        Raises:
          RuntimeError: if the program reads this attribute in a `tf.function` or graph.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
        >>> x = tf.Variable([1.0, 2.0], name="x")
        >>> opt.apply_gradients([(tf.constant([1.0, float("inf")]), x)])
        >>> opt.last_overflow
        [Overflow(variable='x', kind='inf')]
        >>> int(opt.skipped_steps), bool(opt.last_step_skipped)
        (1, True)
        """
        if not tf.executing_eagerly():
            raise RuntimeError(
                "last_overflow can be read in eager code only: it is a list of names. "
                "Read it after the tf.function has returned."
            )
        self._skipped.report()
        return self._skipped.overflows()

    @property
    def dynamic_counter(self) -> tf.Variable | None:
        """The number of finite steps since the last skipped step or change of the scale.

        The value is an int64 variable. It is None if the scale is fixed, or if your own
        `LossScale` updates the scale.
        """
        return getattr(self.loss_scale_state, "_num_good_steps", None)

    @property
    def initial_scale(self) -> float:
        """The loss scale at construction, as a float."""
        if self.dynamic:
            return self.loss_scale_state.initial_loss_scale
        return self.loss_scale_state.get_config()["loss_scale_value"]

    @property
    def dynamic_growth_steps(self) -> int | None:
        """The number of consecutive finite steps after which the scale grows, as an int.

        If the scale is fixed, the value is None. Raises AttributeError if your own `LossScale`
        updates the scale and has no attribute `increment_period`.
        """
        return self.loss_scale_state.increment_period if self.dynamic else None

    @property
    def loss_scale_state(self) -> loss_scale_lib.LossScale:
        """The `tf_lso.LossScale` object that contains and updates the loss scale."""
        return self._loss_scale

    @property
    def inner_optimizer(self) -> Any:
        """The wrapped optimizer."""
        return self._family.inner

    @property
    def _optimizer(self):  # Some old programs read the inner optimizer as `_optimizer`.
        return self.inner_optimizer

    # --- Attributes that are read and set on the inner optimizer.

    clipnorm = _of_inner("clipnorm", "The largest norm of each gradient")
    clipvalue = _of_inner("clipvalue", "The largest absolute value in gradients")
    global_clipnorm = _of_inner(
        "global_clipnorm", "The largest norm of all gradients together"
    )
    weight_decay = _of_inner("weight_decay", "The weight decay")
    use_ema = _of_inner("use_ema", "Whether weights are averaged")
    ema_momentum = _of_inner("ema_momentum", "The momentum of the averages")
    ema_overwrite_frequency = _of_inner(
        "ema_overwrite_frequency",
        "The number of steps after which averages overwrite weights",
    )

    # Otherwise a program would call the methods that the wrapper inherits from Keras.
    add_optimizer_variables = forwarded("add_optimizer_variables")
    add_variable = forwarded("add_variable")
    add_variable_from_reference = forwarded("add_variable_from_reference")
    assign = forwarded("assign")
    assign_add = forwarded("assign_add")
    assign_sub = forwarded("assign_sub")
    exclude_from_weight_decay = forwarded("exclude_from_weight_decay")
    update_step = forwarded("update_step")

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer. It can be set.

        If the rate is a schedule, a legacy optimizer returns the schedule, as in TensorFlow
        2.0-2.10. Other optimizers return the rate of the next step.
        """
        return None if self._family is None else self._family.learning_rate()

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if self._family is not None:
            if callable(value):
                self._warn_if_traced("learning_rate")
            self.inner_optimizer.learning_rate = value

    @property
    def lr(self) -> Any:
        """The learning rate as a TensorFlow variable, because old programs expect one.

        `tf.keras.backend.set_value` accepts TensorFlow variables, but not Keras 3
        variables.
        """
        return variables_lib.raw(self.learning_rate)

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    @property
    def iterations(self) -> Any:
        """The number of applied and skipped steps as an int64 variable. It can be set."""
        return None if self._family is None else self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, value: Any) -> None:
        if self._family is not None:
            self._family.set_iterations(value)

    @property
    def name(self) -> Any:
        """The name that the program set, or the default name of the optimizer."""
        if self._own_name is None and self._family is not None:
            inner = self.inner_optimizer
            return getattr(inner, "name", None) or keras2_private.name_of(inner)
        return self._own_name

    @name.setter
    def name(self, value: Any) -> None:
        self._own_name = value

    # --- Variables and slots.

    @_not_converted
    def build(self, var_list: Iterable[Any]) -> None:
        """Create the inner optimizer's variables for a list of model variables.

        Raises:
          ValueError: if state was set before the build and does not fit the optimizer.
        """
        self._family.build(self, list(var_list))
        if self._family.built_variables():
            self._state.set_deferred()

    @property
    def variables(self) -> Any:
        """A list of the optimizer's variables, in the order in which Keras saves them.

        Old programs call `variables()`. This call returns the same list.
        """
        return variables_lib.CallableList(self._family.variables())

    @property
    def weights(self) -> list[Any]:
        """A list of the inner optimizer's variables: the step counter, then the slots."""
        return self._family.weights()

    @_not_converted
    def get_slot_names(self) -> list[str]:
        """Return a list of the names of the slots that the inner optimizer has built."""
        return self._family.slots.get_slot_names()

    @_not_converted
    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return the slot variable of a model variable.

        Args:
          var: the model variable.
          slot_name: str, one of `get_slot_names()`, for instance "momentum" or "m".

        Raises:
          KeyError: if the model variable has no such slot.
        """
        return self._family.slots.get_slot(var, slot_name)

    @_not_converted
    def add_slot(
        self, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None
    ) -> Any:
        """Return a model variable's slot variable. Make the slot if it does not exist.

        Only legacy optimizers use `shape`. With other optimizers, the slot variable has the
        shape of the model variable.
        """
        return self._family.slots.add_slot(var, slot_name, initializer, shape)

    def add_weight(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return a new variable of the inner optimizer.

        After `name`, this method accepts `shape`, `dtype` and `initializer`. By default, the
        new variable is a float32 scalar. If the inner optimizer is a legacy optimizer, this
        method accepts the arguments of the legacy optimizer's own `add_weight` instead.
        """
        return self._family.slots.add_weight(name, *args, **kwargs)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        """Overwrite model variables with their moving averages.

        If the inner optimizer computes no moving averages, nothing is changed.
        """
        finalize = getattr(self.inner_optimizer, "finalize_variable_values", None)
        if finalize is not None:
            finalize(var_list)

    def _decayed_lr(self, var_dtype):
        return self._family.decayed_lr(var_dtype)

    # Programs for TensorFlow 2.3-2.10 call these private methods to create the optimizer's
    # variables before they call `set_weights`.

    def _create_all_weights(self, var_list):
        self.build(var_list)

    _create_slots = _create_all_weights

    def _create_hypers(self):
        pass

    # --- State.

    def get_weights(self) -> list[np.ndarray]:
        """Return the whole state of the optimizer as a list of arrays.

        The list begins with the variables of the inner optimizer. The loss scale and the
        count of finite steps follow. TensorFlow 2.4-2.15 returned only the variables of the
        inner optimizer. If the program loaded the values of slots before the optimizer was
        built, the list includes these values.
        """
        return self._state.saved("weights")[1]

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Set the whole state of the optimizer to the arrays that `get_weights` returned.

        Args:
          weights: list of arrays. The lists of TensorFlow 2.4-2.15 contain neither the loss
            scale nor the count of finite steps. With such a list, both stay unchanged. With
            Keras 3, `weights` may also be the list of the values of `variables`.

        Raises:
          TypeError: if `weights` is not iterable, or an array does not contain numbers.
          ValueError: if the number of arrays or a shape does not fit. In this case nothing
            is set.
        """
        if state_lib.state_follows.is_on:
            return
        arrays = validation.as_list("weights", weights)
        _, layouts = self._state.layouts()
        if self._family.name == "keras3" and not self._family.built_variables():
            # Copy the arrays, because their file may be closed before the build.
            arrays = [np.array(array) for array in arrays]
            # With a schedule there are two layouts without the loss scale, and only the shapes
            # of the slots can tell which of them is right.
            whole = layouts if len(layouts) < 4 else [layouts[0], layouts[2]]
            if self._state.defer(arrays, whole):
                return
        self._state.set(arrays, layouts)

    def save_own_variables(self, store: Any) -> None:
        """Write the whole state of the optimizer into a .keras or .weights.h5 file.

        Args:
          store: the mapping to fill. It maps "0", "1", ... to arrays, and Keras writes them
            to the file.

        Raises:
          ValueError: if the optimizer is not built yet, and a file cannot contain the values
            of slots that the program has already set or restored.
        """
        for index, array in enumerate(self._state.saved_in_file()):
            store[str(index)] = array
        group = file_stores.group_of(store, self._family.package)
        manifest = self._state.manifest()
        if group is not None and manifest is not None:
            text = manifest_lib.to_json(manifest)
            file_stores.write_text(group, manifest_lib.NAME, text)

    def load_own_variables(self, store: Any) -> None:
        """Set the whole state of the optimizer from a .keras or .weights.h5 file.

        Slots that do not exist yet are set when the optimizer is built.

        Args:
          store: mapping of "0", "1", ... to arrays. If the file does not fit the optimizer,
            the method only warns, as Keras does. A file that tf_lso wrote names the slot and
            the model variable of each array. In other files the order of the arrays decides.
            Files that Keras 2 itself wrote contain no loss scale, and do not change it.

        Raises:
          TypeError, ValueError: if tf_lso did not write the file, the number of arrays fits,
            and an array does not fit its variable.
        """
        if state_lib.state_follows.is_on:
            return
        arrays = [np.array(store[str(index)]) for index in range(len(store.keys()))]
        group = file_stores.group_of(store, self._family.package)
        text = group and file_stores.read_text(group, manifest_lib.NAME)
        self._state.load(arrays, text and manifest_lib.from_json(text))

    # Keras 2.12 calls these private methods instead of the public ones.
    def _save_own_variables(self, store):
        self.save_own_variables(store)

    def _load_own_variables(self, store):
        self.load_own_variables(store)

    def _dependencies(self, save_type, **kwargs):
        children = super()._dependencies(save_type, **kwargs)
        if self._family is None:
            return children
        children = self._family.dependencies(children, save_type, **kwargs)
        if save_type != "checkpoint":
            if self._family.slots_wait():
                raise ValueError(state_lib.BUILD_FIRST)
            # A SavedModel contains traced steps. These steps write to the variables in which
            # tf_lso records skipped steps, so the SavedModel must contain these variables.
            children = {**children, **self._skipped.variables()}
        return self._state.dependencies(children)

    def _dependency(self, name, known):
        if self._family is None:
            return super()._dependency(name, known)
        manifest = self._state.dependency(name)
        if manifest is not None:
            return manifest
        return self._family.dependency(name, known or self._dependencies("checkpoint"))

    def _awaited_dependencies(self):
        # Until a variable is created, TensorFlow keeps its restored value in a dict of the
        # inner optimizer. The wrapper has no such dict.
        if self._family is None:
            return super()._awaited_dependencies()
        return tf_private.deferred(self.inner_optimizer)

    # --- Configs and copies.

    def get_config(self) -> dict[str, Any]:
        """Return a dict from which `from_config` makes an equal optimizer.

        The dict does not contain the state of the optimizer.
        """
        config = {"inner_optimizer": self._family.serialize()}
        config.update(loss_scale_configs.arguments_of(self.loss_scale_state))
        if self._own_name is not None:
            config["name"] = self._own_name
        return config

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Any:
        """Make an optimizer from the config of a LossScaleOptimizer of any version.

        Args:
          config: dict. The method does not change it. If the config contains a loss scale
            whose class is your own or whose multiplier is not 2, the result is an
            experimental LossScaleOptimizer.
          custom_objects: dict that maps names to your own classes of optimizers, learning
            rate schedules and loss scales.

        Raises:
          TypeError: if `config` is not a dict, or a value has the wrong type.
          ValueError: if a class is unknown, a key is missing, or the installed Keras does not
            support a key of the inner optimizer's config.
        """
        return configs.from_config(cls, config, custom_objects)

    def __deepcopy__(self, memo):
        """Return an independent optimizer with an equal state, including the slots.

        A legacy inner optimizer is copied by Python, with all its attributes. All others are
        made from their config, as Keras 3 copies its own optimizers.
        """
        built = self._family.built_variables()
        # The copied optimizer is for the same model, so the model variables are not copied.
        for variable in built:
            memo[id(variable)] = variable
        cls, state = self._described(self._family.deep_copied(memo))
        # The new variables must be created under the strategy of the original variables.
        strategy = variables_lib.strategy_of([*built, self._family.counter()])
        with variables_lib.scope_of(strategy):
            copied = memo[id(self)] = binding.unpickled(cls, state)
            if built:
                copied.build(built)
        return copied

    def __reduce_ex__(self, protocol):
        """Return the function and the arguments with which `pickle` makes a copy.

        The copy is made from the config, and gets its slots when it is built.
        """
        del protocol
        return binding.unpickled, self._described()

    def _described(self, copied_inner=None):
        """Return a pair (class, dict) from which `binding.unpickled` makes a copy."""
        if self._state.deferred is not None:
            raise ValueError(state_lib.BUILD_FIRST)
        manifest = self._state.manifest()
        state = {
            "scale": (type(self.loss_scale_state), self.loss_scale_state.get_config()),
            "name": self._own_name,
            "arrays": self._state.saved(),
            "manifest": manifest._replace(keys=None) if manifest.is_built else None,
        }
        if copied_inner is None:
            inner = self.inner_optimizer
            # The dict contains the learning rate schedule itself and not its config, because
            # Keras can make a schedule from a config only if its class is registered.
            config = binding.config_for_copy(inner) | self._family.schedules()
            state["inner"] = type(inner), config
        else:
            state["copied_inner"] = copied_inner
        return configs.unbound(type(self)), state


configs.CLASSES["stable"] = LossScaleOptimizer
