"""Old attributes and arguments for the newer optimizers of Keras 2.

In TensorFlow 2.12-2.15, and with TF_USE_LEGACY_KERAS=1, `tf.keras.optimizers` has these
optimizers, also for programs that were written before TensorFlow 2.11 made them the
default.
"""

import tensorflow as tf

from tf_lso import graphs, keras_versions
from tf_lso.patches import attributes

_at_step = graphs.ThreadSwitch()


def _scheduled(optimizer, schedule):
    """Return a schedule's rate for the next step, which it gets as a float32."""
    return tf.convert_to_tensor(schedule(tf.cast(optimizer.iterations, tf.float32)))


def _is_schedule(rate):
    kerases = map(keras_versions.public, keras_versions.imported_keras2())
    schedules = [keras.optimizers.schedules for keras in kerases]
    return isinstance(rate, tuple(one.LearningRateSchedule for one in schedules))


def _decayed_lr(self, var_dtype):
    """The learning rate of the next step, a tensor."""
    rate = self._learning_rate
    use = _scheduled if _is_schedule(rate) else attributes.decayed
    return tf.cast(use(self, rate), var_dtype)


ATTRIBUTES = {**attributes.ATTRIBUTES, "_decayed_lr": _decayed_lr}


def add_attributes(keras, ledger):
    """Add what old programs use, where it is missing."""
    attributes.add_missing(ledger, keras.optimizers.Optimizer, ATTRIBUTES)


# Private methods below, since the class refuses these arguments before any public method
# runs. tests/patches/test_attributes.py fails when they move.


def take_arguments(keras, ledger):
    """Take `lr` and `decay`, and call schedules with a float32 step."""
    owner = keras.optimizers.Optimizer
    attributes.keep_decay_in_config(ledger, owner)

    @ledger.around(owner, "_process_kwargs")
    def process_kwargs(original, self, kwargs):
        """Keep `lr`, which Keras 2 only warns about, and `decay`, which it refuses."""
        self.__dict__["_old_lr"] = kwargs.pop("lr", None)
        decay = kwargs.pop("decay", None)
        if decay:
            self.__dict__["decay"] = decay
        original(self, kwargs)

    @ledger.around(owner, "_build_learning_rate")
    def build_learning_rate(original, self, learning_rate):
        lr = self.__dict__.pop("_old_lr", None)
        learning_rate = learning_rate if lr is None else lr
        if not _is_schedule(learning_rate):
            return original(self, learning_rate)
        with tf.init_scope():
            rate, name = _scheduled(self, learning_rate), "current_learning_rate"
            self._current_learning_rate = tf.Variable(rate, trainable=False, name=name)
        return learning_rate

    @ledger.around(owner, "_compute_current_learning_rate")
    def compute_current_learning_rate(original, self):
        is_made = hasattr(self, "_current_learning_rate")
        if is_made and _is_schedule(self._learning_rate):
            self._current_learning_rate.assign(_scheduled(self, self._learning_rate))
        else:
            original(self)

    @ledger.around(owner, "_update_step")
    def update_step(original, self, gradient, variable):
        """Make the update, and nothing else, read the decayed learning rate."""
        with _at_step.on():
            original(self, gradient, variable)

    def read(self, rate):
        return attributes.decayed(self, rate) if _at_step.is_on else rate

    attributes.replace_rate(ledger, owner, read)
