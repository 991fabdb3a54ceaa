"""Old attributes and arguments for Keras 3's optimizers, and the newer ones of Keras 2.

Programs use them through a wrapper (`opt.inner_optimizer.lr`), or on an optimizer that
they did not wrap (`if use_float16: opt = LossScaleOptimizer(opt)`).
"""

import tensorflow as tf

from tf_lso import graphs, keras3_private, keras_versions, scheduled_rate
from tf_lso import variables as variables_lib
from tf_lso.optimizers import validation
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer


def _decayed(optimizer, learning_rate):
    """Return a learning rate divided by `1 + decay * iterations`, if there is a decay."""
    decay = getattr(optimizer, "decay", 0.0)
    if not decay:
        return learning_rate
    rate = tf.convert_to_tensor(learning_rate)
    steps = tf.cast(variables_lib.raw(optimizer.iterations), rate.dtype)
    return rate / (1.0 + tf.cast(decay, rate.dtype) * steps)


def _scheduled(optimizer, schedule):
    """Return a schedule's rate for the next step, which it gets as a float32."""
    # As in Keras 3: with gradient accumulation this counts micro-steps.
    steps = variables_lib.raw(keras3_private.iteration_variable(optimizer))
    return tf.convert_to_tensor(schedule(tf.cast(steps, tf.float32)))


def _is_schedule(rate):
    kerases = map(keras_versions.public, keras_versions.imported())
    schedules = [keras.optimizers.schedules for keras in kerases]
    return isinstance(rate, tuple(one.LearningRateSchedule for one in schedules))


# --- Attributes.


def _decayed_lr(self, var_dtype):
    """The learning rate of the next step, a tensor."""
    rate = keras3_private.learning_rate(self)  # the name is that of Keras 2, too
    if _is_schedule(rate):
        rate = _scheduled(self, rate)
    elif callable(rate):
        rate = rate()
    return tf.cast(_decayed(self, variables_lib.raw(rate)), var_dtype)


def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
    """Compute gradients of the loss and apply them, as TensorFlow 2.0-2.15 did.

    Raises:
      ValueError: if `loss` is a tensor and there is no `tape`.
    """
    del name
    validation.check_tape(loss, tape)
    tape = tf.GradientTape() if tape is None else tape
    return self.apply_gradients(
        variables_lib.with_gradients(loss, var_list, grad_loss, tape)
    )


def _get_weights(self):
    """The values of all variables, a list of arrays."""
    return [variables_lib.raw(variable).numpy() for variable in self.variables]


def _create_all_weights(self, var_list):
    """Create the variables of the optimizer for these model variables, once."""
    self.build(list(var_list))


def _create_hypers(self):
    """Do nothing: hyperparameters exist from the start."""


ATTRIBUTES = {
    "lr": property(
        lambda self: variables_lib.raw(self.learning_rate),
        lambda self, value: setattr(self, "learning_rate", value),
    ),
    "_decayed_lr": _decayed_lr,
    "minimize": minimize,
    "get_weights": _get_weights,
    "weights": property(lambda self: list(self.variables)),
    "_create_all_weights": _create_all_weights,
    "_create_slots": _create_all_weights,
    "_create_hypers": _create_hypers,
}


def add_attributes(keras, ledger):
    """Add what old programs use, where it is missing."""
    ledger.add_missing(keras.optimizers.Optimizer, ATTRIBUTES)


# --- Arguments. Some methods below are private: Keras has no public access between the
# learning rate and the update, and Keras 2 refuses the arguments before any public method
# runs. tests/patches/test_attributes.py fails when they move.


def _keep_decay_in_config(ledger, owner):
    """Make `get_config` of a class have `decay`, for `from_config`."""

    @ledger.around(owner, "get_config")
    def get_config(original, self):
        decay = getattr(self, "decay", 0.0)
        return {**original(self), **({"decay": decay} if decay else {})}


# Methods that Keras 2 called in each step, and that Keras 3 does not know. The first two
# are the update, which `update_step` is in Keras 3.
_UPDATES = ("_resource_apply_dense", "_resource_apply_sparse")
_OTHERS = (
    "_aggregate_gradients",
    "_compute_gradients",
    "_transform_gradients",
    "_transform_unaggregated_gradients",
    "get_gradients",
)


def _refuse_what_keras3_passes_over(cls):
    """Raise TypeError if a user's class has work in methods that are never called."""
    for base in cls.__mro__:
        if keras_versions.is_of_one(base) or issubclass(base, LossScaleOptimizer):
            return
        is_for_both = "update_step" in vars(base)
        methods = _OTHERS if is_for_both else (*_UPDATES, *_OTHERS)
        passed_over = [name for name in methods if name in vars(base)]
        if passed_over:
            raise TypeError(
                f"{base.__name__} overrides {', '.join(passed_over)}. Keras 3 does not "
                "call what optimizers of TensorFlow 2.0-2.15 had under these names, so it "
                "would train without it, in silence. Run the program with the Keras of "
                'its time, by `tf-lso run --like 2.4` or tf_lso.install(like="2.4"). '
                "For Keras 3, override update_step(gradient, variable, learning_rate). See "
                "`tf-lso help optimizer-methods`"
            )
        if is_for_both:
            return


def take_arguments(keras, ledger):
    """Take `lr`, `decay` and the arguments that `apply_gradients` had.

    Keras 3 refuses or ignores them. A class that overrides what only Keras 2 called is
    refused.
    """
    owner = keras.optimizers.Optimizer
    _keep_decay_in_config(ledger, owner)
    has_update = hasattr(owner, "_backend_update_step")  # not in the first Keras 3.0

    @ledger.around(owner, "__init__")
    def init(original, self, *args, **kwargs):
        validation.check_reduces(self)
        _refuse_what_keras3_passes_over(type(self))
        decay = kwargs.pop("decay", None)
        for name in ("jit_compile", "is_legacy_optimizer"):  # not of the updates
            kwargs.pop(name, None)
        if "lr" in kwargs:
            args, kwargs["learning_rate"] = args[1:], kwargs.pop("lr")
        if decay and not has_update:
            rate, args = (args or [kwargs.get("learning_rate")])[0], args[1:]
            schedules = keras.optimizers.schedules
            kwargs["learning_rate"] = schedules.InverseTimeDecay(rate, 1, decay)
        original(self, *args, **kwargs)
        if decay:
            self.decay = decay

    # Users' optimizers that override the method pass all arguments on.
    @ledger.around(owner, "apply_gradients")
    def apply_gradients(
        original,
        self,
        grads_and_vars,
        name=None,
        experimental_aggregate_gradients=True,
        skip_gradients_aggregation=False,
    ):
        if experimental_aggregate_gradients and not skip_gradients_aggregation:
            return original(self, grads_and_vars)
        keras3_private.sum_gradients_only_once(self)
        with keras3_private.already_summed():
            return original(self, grads_and_vars)

    if has_update:

        @ledger.around(owner, "_backend_update_step")
        def update_step(original, self, grads, trainable_variables, learning_rate):
            rate = _decayed(self, scheduled_rate.plain(learning_rate))
            return original(self, grads, trainable_variables, rate)


def call_schedules(keras, ledger):
    """Make `learning_rate` a schedule too, which gets a float32 step as in 2.0-2.10.

    Users' schedules take roots of the step, and TensorFlow's roots need floats.
    """
    owner, schedules = keras.optimizers.Optimizer, keras.optimizers.schedules

    @ledger.around(owner, "_get_current_learning_rate")
    def current_learning_rate(original, self):
        rate = keras3_private.learning_rate(self)
        is_schedule = isinstance(rate, schedules.LearningRateSchedule)
        return _scheduled(self, rate) if is_schedule else original(self)

    @ledger.around(owner, "learning_rate")
    def learning_rate(original, self):
        rate = keras3_private.learning_rate(self)
        return scheduled_rate.rate_of(rate, original(self))


# On while Keras 2 asks a schedule; on while it updates a variable.
_in_schedule, _in_update = graphs.ThreadSwitch(), graphs.ThreadSwitch()


def take_arguments_in_keras2(keras, ledger):
    """Take `lr` and `decay`, and call schedules with a float32 step."""
    owner = keras.optimizers.Optimizer
    _keep_decay_in_config(ledger, owner)

    @ledger.around(owner, "_process_kwargs")
    def process_kwargs(original, self, kwargs):
        # Keras 2 only warns about `lr`, and refuses `decay`.
        self.__dict__["_old_lr"] = kwargs.pop("lr", None)
        decay = kwargs.pop("decay", None)
        if decay:
            self.__dict__["decay"] = decay
        original(self, kwargs)

    @ledger.around(owner, "_build_learning_rate")
    def build_learning_rate(original, self, learning_rate):
        lr = self.__dict__.pop("_old_lr", None)
        learning_rate = learning_rate if lr is None else lr
        with _in_schedule.on():
            return original(self, learning_rate)

    @ledger.around(owner, "_compute_current_learning_rate")
    def compute_current_learning_rate(original, self):
        with _in_schedule.on():
            original(self)

    @ledger.around(owner, "iterations")
    def iterations(original, self):
        steps = original(self)
        return tf.cast(steps, tf.float32) if _in_schedule.is_on else steps

    @ledger.around(owner, "_update_step")
    def update_step(original, self, gradient, variable):
        with _in_update.on():
            original(self, gradient, variable)

    @ledger.around(owner, "learning_rate")
    def learning_rate(original, self):
        rate = original(self)
        return _decayed(self, rate) if _in_update.is_on else rate
