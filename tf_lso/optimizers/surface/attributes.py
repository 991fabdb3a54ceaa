"""The attributes of loss-scaled optimizers, and the delegation of hyperparameters."""

from typing import Any

import tensorflow as tf

from tf_lso.optimizers import table
from tf_lso.optimizers import variables as variables_lib
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling import skipped


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


def method_of_inner(name):
    """Return a property that returns a method of the inner optimizer."""
    return property(
        lambda self: getattr(self.inner_optimizer, name),
        doc=f"`{name}` of the inner optimizer.",
    )


class Attributes:
    """What a program reads and sets on a loss-scaled optimizer."""

    def __repr__(self):
        if not {"_inner", "_loss_scale"} <= self.__dict__.keys():
            return object.__repr__(self)  # it is being made
        shown = f"{type(self).__name__} around {type(self.inner_optimizer).__name__}"
        if tf.executing_eagerly():  # elsewhere the values are not known
            shown += f", loss_scale={float(self.loss_scale):g}"
            count = variables_lib.raw(self.dynamic_counter)
            if count is not None:
                shown += f", dynamic_counter={int(tf.convert_to_tensor(count))}"
            shown += "" if self.dynamic else ", fixed"
        return f"<{shown}>"

    # --- Attributes of loss scaling.

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale moves, a bool."""
        return not isinstance(self.loss_scale_state, loss_scale_lib.FixedLossScale)

    @property
    def loss_scale(self) -> Any:
        """The current loss scale, a float32 scalar tensor read at this call.

        It may be set.

        Raises:
          AttributeError: when it is set, if the scale is not dynamic.
        """
        return tf.convert_to_tensor(self.loss_scale_state())

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        loss_scale = self.loss_scale_state
        if not isinstance(loss_scale, loss_scale_lib.DynamicLossScale):
            raise AttributeError(
                f"'loss_scale' cannot be set, but got: {value!r}. The scale is a "
                f"{type(loss_scale).__name__}, which traced steps may hold as a "
                "constant. Make a new optimizer, or use a dynamic scale."
            )
        loss_scale.assign(value)

    @property
    def skipped_steps(self) -> tf.Tensor:
        """Steps skipped so far, an int64 scalar tensor.

        It starts at 0 with each process. No checkpoint and no config holds it. With a
        fixed scale, which skips no step, it stays 0.
        """
        self._tell_if_stuck()
        return self._skipped.total()

    @property
    def consecutive_skipped_steps(self) -> tf.Tensor:
        """Steps skipped since the last applied one, an int64 scalar tensor.

        It starts at 0 with each process. No checkpoint and no config holds it.
        """
        self._tell_if_stuck()
        return self._skipped.in_a_row(variables_lib.raw(self._counter()))

    @property
    def last_step_skipped(self) -> tf.Tensor:
        """Whether the last step was skipped, a bool scalar tensor.

        It is False at the start of each process. No checkpoint and no config holds it.
        """
        return self.consecutive_skipped_steps > 0

    @property
    def last_overflow(self) -> list[skipped.Overflow]:
        """The variables whose gradients caused the last skip, a list.

        Each item is a tuple `(variable, kind)`: the path of the variable, and what its
        aggregated gradient held: "inf", "nan" or "inf, nan". The list is empty before
        the first skipped step of a process. Read it in eager code.

        Raises:
          RuntimeError: in a `tf.function` or a graph.

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
        self._tell_if_stuck()
        return self._skipped.overflows()

    def _tell_if_stuck(self):
        self._skipped.tell()

    @property
    def dynamic_counter(self) -> tf.Variable | None:
        """Finite steps since the scale last moved, an int64 variable. None if fixed."""
        return getattr(self.loss_scale_state, "_num_good_steps", None)

    @property
    def initial_scale(self) -> float:
        """The loss scale at the start, a float."""
        if self.dynamic:
            return self.loss_scale_state.initial_loss_scale
        return self.loss_scale_state.get_config()["loss_scale_value"]

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Consecutive finite steps before the scale doubles, an int. None if fixed."""
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
    def _optimizer(self):  # the name that some programs of old use
        return self.inner_optimizer

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
    add_optimizer_variables = method_of_inner("add_optimizer_variables")
    add_variable = method_of_inner("add_variable")
    add_variable_from_reference = method_of_inner("add_variable_from_reference")
    assign = method_of_inner("assign")
    assign_add = method_of_inner("assign_add")
    assign_sub = method_of_inner("assign_sub")
    exclude_from_weight_decay = method_of_inner("exclude_from_weight_decay")
    update_step = method_of_inner("update_step")

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
        return variables_lib.raw(self.learning_rate)

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    @property
    def iterations(self) -> Any:
        """Steps so far, skipped ones included, an int64 variable. May be set."""
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
            own = self._inner_name
        return own

    @name.setter
    def name(self, value: Any) -> None:
        self.__dict__["_own_name"] = value

    def __getattr__(self, name: str) -> Any:
        # Called only after ordinary lookup has failed.
        inner = self.__dict__.get("_inner")
        if inner is not None and name in self._delegated:
            return self._get_hyperparameter(table.ALIASES.get(name, name))
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    def __setattr__(self, name, value):
        if (
            "_inner" in self.__dict__
            and name in self._delegated
            and not hasattr(type(self), name)
        ):
            self._set_hyperparameter(table.ALIASES.get(name, name), value)
        else:
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *self.__dict__.get("_delegated", ())})

    def _warn_if_traced(self, name):
        if self.__dict__.get("_traced"):
            self._once.warn(
                f"{name!r} was set after a step was traced (by tf.function or fit). Steps "
                "traced before keep the old value: make the tf.function anew, or call "
                "model.make_train_function(force=True)."
            )
