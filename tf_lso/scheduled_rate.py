"""The learning rate of an optimizer of Keras 3 that has a schedule.

`learning_rate` of an OptimizerV2 was the schedule itself, which programs call with a step
and check by `isinstance`; that of Keras 3 is the rate of the next step, a tensor.
"""

import keras
import tensorflow as tf

from tf_lso import as_tensor


class ScheduledRate(as_tensor.AsTensor):
    """The rate of a schedule when it was asked, which also serves as the schedule."""

    is_tensor_like = True  # `tf.is_tensor` and `tf.print` check it

    def __init__(self, schedule, rate):
        self._schedule, self._rate = schedule, tf.convert_to_tensor(rate)

    # This makes `isinstance` and Keras's serialization take it for the schedule.
    __class__ = property(lambda self: type(self._schedule))

    def __call__(self, step=None):
        """Return the schedule's rate for a step, or the current rate without a step."""
        return self._rate if step is None else self._schedule(step)

    def __getattr__(self, name):
        # Called only after ordinary lookup has failed. Special methods are not forwarded:
        # with the tensor's own, a copy would be a tensor.
        if name in ("_schedule", "_rate") or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no {name!r}")
        owner = self._schedule if hasattr(self._schedule, name) else self._rate
        return getattr(owner, name)

    def __reduce_ex__(self, protocol):
        # A copy is a schedule: a rate without its optimizer means nothing.
        return self._schedule.__reduce_ex__(protocol)

    def __bool__(self):
        return bool(self._rate)

    def __format__(self, spec):
        return format(self._rate, spec)

    def __repr__(self):
        return repr(self._rate)

    def __str__(self):
        return str(self._rate)


def rate_of(rate_or_schedule, rate):
    """Return what `learning_rate` of a Keras 3 optimizer, which has `rate`, should be."""
    schedule = rate_or_schedule
    if type(schedule) is ScheduledRate:
        schedule = schedule._schedule  # the rate of another optimizer was set here
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return rate
    return ScheduledRate(schedule, plain(rate))


def plain(rate):
    """Return a learning rate as Keras 3 itself returns it; `isinstance` cannot tell."""
    return rate() if type(rate) is ScheduledRate else rate
