"""The attributes that every face shares, and the delegation of hyperparameters."""

from typing import Any

import tensorflow as tf

from tf_lso.optimizers import checks
from tf_lso.optimizers.surface import hyperparameters
from tf_lso.scaling import loss_scale as loss_scale_lib


def _of_inner(name, what):
    """Return a property that reads and sets `name` on the inner optimizer."""

    def read(self):
        inner = self.__dict__.get("_inner")
        # Without it the family's constructor is running, and uses its own attribute.
        return getattr(inner, name) if inner is not None else self.__dict__.get(name)

    def write(self, value):
        inner = self.__dict__.get("_inner")
        if inner is None:
            self.__dict__[name] = value
        elif not hasattr(inner, name):
            raise AttributeError(
                f"{type(inner).__name__!r} optimizer has no attribute {name!r} to set to "
                f"{value!r}."
            )
        else:
            self._warn_if_traced(name)
            setattr(inner, name, value)

    return property(read, write, doc=f"{what}, of the inner optimizer; may be set.")


def _method_of_inner(name):
    """Return a property that returns a method of the inner optimizer."""
    return property(
        lambda self: getattr(self.inner_optimizer, name),
        doc=f"`{name}` of the inner optimizer.",
    )


class Attributes:
    """What a program reads and sets on a loss-scaled optimizer."""

    # --- Attributes of loss scaling.

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale moves, a bool."""
        return not isinstance(self.loss_scale_state, loss_scale_lib.FixedLossScale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale, a float32 scalar tensor read at this call."""
        return tf.convert_to_tensor(self.loss_scale_state())

    @loss_scale.setter
    def loss_scale(self, value: Any) -> None:
        raise AttributeError(
            f"'loss_scale' cannot be set, but got: {value!r}. Pass it to the constructor: "
            "tf_lso.LossScaleOptimizer(optimizer, initial_scale=...) for the start of a "
            "dynamic scale, and also dynamic=False for a fixed one."
        )

    @property
    def dynamic_counter(self) -> tf.Variable | None:
        """Finite steps since the scale last moved: int64 variable, None if fixed."""
        return getattr(self.loss_scale_state, "_num_good_steps", None)

    @property
    def initial_scale(self) -> float:
        """The loss scale at the start, a float."""
        if self.dynamic:
            return self.loss_scale_state.initial_loss_scale
        return self.loss_scale_state.get_config()["loss_scale_value"]

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Consecutive finite steps before the scale doubles: int, None if fixed."""
        return self.loss_scale_state.increment_period if self.dynamic else None

    @property
    def loss_scale_state(self) -> loss_scale_lib.LossScale:
        """The `tf_lso.LossScale` that holds the scale and moves it."""
        return self.__dict__["_loss_scale"]

    @property
    def inner_optimizer(self) -> Any:
        """The wrapped optimizer."""
        return self.__dict__["_inner"]

    @property
    def _optimizer(self):
        return self.__dict__["_inner"]

    # --- Attributes of the inner optimizer.

    clipnorm = _of_inner("clipnorm", "The norm each gradient is clipped to")
    clipvalue = _of_inner("clipvalue", "The value gradients are clipped to")
    global_clipnorm = _of_inner("global_clipnorm", "The norm all are clipped to")
    weight_decay = _of_inner("weight_decay", "The weight decay")
    use_ema = _of_inner("use_ema", "Whether weights are averaged")
    ema_momentum = _of_inner("ema_momentum", "The momentum of the averages")
    ema_overwrite_frequency = _of_inner(
        "ema_overwrite_frequency", "Steps between overwriting weights by averages"
    )

    # Methods of the families' base classes; those would change only the wrapper.
    add_optimizer_variables = _method_of_inner("add_optimizer_variables")
    add_variable = _method_of_inner("add_variable")
    add_variable_from_reference = _method_of_inner("add_variable_from_reference")
    assign = _method_of_inner("assign")
    assign_add = _method_of_inner("assign_add")
    assign_sub = _method_of_inner("assign_sub")
    exclude_from_weight_decay = _method_of_inner("exclude_from_weight_decay")
    update_step = _method_of_inner("update_step")

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer; may be set."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        inner = self.__dict__.get("_inner")
        if inner is not None:
            if callable(value):
                self._warn_if_traced("learning_rate")
            inner.learning_rate = value

    @property
    def lr(self) -> Any:
        """The learning rate, as the TensorFlow variable that old programs expect.

        `tf.keras.backend.set_value` takes it; it does not take variables of Keras 3.
        """
        return checks.raw(self.learning_rate)

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    @property
    def iterations(self) -> Any:
        """Steps so far, skipped ones included: int64 variable; may be set."""
        return self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, value: Any) -> None:
        if "_inner" in self.__dict__:
            self._set_iterations(value)

    @property
    def name(self) -> Any:
        """The name given to the constructor, or its default."""
        own = self.__dict__.get("_own_name")
        if own is None and "_inner" in self.__dict__:
            own = getattr(self._inner, "_name", None) or self._inner.name
        return own

    @name.setter
    def name(self, value: Any) -> None:
        self.__dict__["_own_name"] = value

    @property
    def weights(self) -> list[Any]:
        """The variables of the inner optimizer, a list."""
        return list(checks.called(self.inner_optimizer.variables))

    def __getattr__(self, name: str) -> Any:
        # Called only after ordinary lookup has failed.
        inner = self.__dict__.get("_inner")
        if inner is not None and name in self._delegated:
            return self._get_hyperparameter(hyperparameters.ALIASES.get(name, name))
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    def __setattr__(self, name, value):
        if (
            "_inner" in self.__dict__
            and name in self._delegated
            and not hasattr(type(self), name)
        ):
            self._set_hyperparameter(hyperparameters.ALIASES.get(name, name), value)
        else:
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *self.__dict__.get("_delegated", ())})

    def _get_hyperparameter(self, name):
        if name == "decay" and not hasattr(self.inner_optimizer, name):
            return 0.0  # the default of legacy optimizers; those since 2.11 have none
        return getattr(self.inner_optimizer, name)

    def _set_hyperparameter(self, name, value):
        if name == "decay" and not hasattr(self.inner_optimizer, name):
            if value != 0:
                raise ValueError(
                    f"'decay' cannot be set to {value!r}: optimizers since TensorFlow "
                    "2.11 have none. Give the optimizer the learning rate "
                    "InverseTimeDecay(learning_rate, decay_steps=1, decay_rate=decay) of "
                    "its Keras's optimizers.schedules, which computes the same."
                )
            return
        self._warn_if_traced(name)
        setattr(self.inner_optimizer, name, value)

    def _warn_if_traced(self, name):
        if self.__dict__.get("_traced"):
            self._once.warn(
                f"{name!r} was set after a step was traced (by tf.function or fit). Steps "
                "traced before keep the old value: make the tf.function anew, or call "
                "model.make_train_function(force=True)."
            )
