"""Old attributes and arguments for Keras 3's optimizers.

Programs use them through a wrapper (`opt.inner_optimizer.lr`), or on an optimizer that
they did not wrap (`if use_float16: opt = LossScaleOptimizer(opt)`).
"""

import tensorflow as tf

from tf_lso import keras3_private, keras_versions, scheduled_rate
from tf_lso import variables as variables_lib
from tf_lso.optimizers import validation
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.patches import attributes


def _decayed_lr(self, var_dtype):
    """The learning rate of the next step, a tensor."""
    rate = tf.convert_to_tensor(self.learning_rate)
    return tf.cast(attributes.decayed(self, rate), var_dtype)


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


# Name -> attribute that the class gets if it has none of that name.
ATTRIBUTES = {
    "lr": property(
        lambda self: variables_lib.raw(self.learning_rate),
        lambda self, value: setattr(self, "learning_rate", value),
    ),
    "_decayed_lr": _decayed_lr,
    "minimize": minimize,
    **attributes.ATTRIBUTES,
}


def add_attributes(keras, ledger):
    """Add what old programs use, where it is missing."""
    attributes.add_missing(ledger, keras.optimizers.Optimizer, ATTRIBUTES)


# Methods that Keras 2 called in each step, and that Keras 3 does not know. The first two
# are the update, which `update_step` is in Keras 3.
_UPDATES = ("_resource_apply_dense", "_resource_apply_sparse")
_PASSED_OVER = (
    *_UPDATES,
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
        own = vars(base)
        is_for_both = "update_step" in own
        passed_over = [
            name
            for name in _PASSED_OVER
            if name in own and not (is_for_both and name in _UPDATES)
        ]
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


# Some methods below are private, since Keras has no public access between the learning
# rate and the update. tests/patches/test_attributes.py fails when they move.


def take_arguments(keras, ledger):
    """Take `lr`, `decay` and the arguments that `apply_gradients` had.

    Keras 3 refuses or ignores them. A class that overrides what only Keras 2 called is
    refused.
    """
    owner = keras.optimizers.Optimizer
    attributes.keep_decay_in_config(ledger, owner)
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
            rate = attributes.decayed(self, scheduled_rate.plain(learning_rate))
            return original(self, grads, trainable_variables, rate)


def call_schedules(keras, ledger):
    """Make `learning_rate` a schedule too, which gets a float32 step as in 2.0-2.10.

    Users' schedules take roots of the step, and TensorFlow's roots need floats.
    """
    owner = keras.optimizers.Optimizer

    @ledger.around(owner, "_get_current_learning_rate")
    def current_learning_rate(original, self):
        rate = keras3_private.learning_rate(self)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            # As in Keras 3: with gradient accumulation this counts micro-steps.
            steps = keras3_private.iteration_variable(self)
            return rate(tf.cast(variables_lib.raw(steps), tf.float32))
        return original(self)

    def read(self, rate):
        return scheduled_rate.rate_of(keras3_private.learning_rate(self), rate)

    attributes.replace_rate(ledger, owner, read)
