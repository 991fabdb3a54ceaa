"""The learning rate of an optimizer of Keras 3 that has a schedule.

An OptimizerV2 of TensorFlow 2.0-2.15 handed out the schedule, which programs call with a
step and look at by `isinstance`; one of Keras 3 hands out the rate of the next step, a
tensor. What is handed out here serves as both.
"""

import keras
import tensorflow as tf

from tf_lso.scaling import as_tensor

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class ScheduledRate(as_tensor.AsTensor):
    """The rate that a schedule gave, which also answers as the schedule.

    Args:
      schedule: the schedule.
      rate: what it gave when the optimizer was asked, a scalar tensor.
    """

    def __init__(self, schedule, rate):
        self._schedule = schedule
        self._rate = tf.convert_to_tensor(rate)

    is_tensor_like = True  # `tf.is_tensor` goes by it, and so does `tf.print`

    # By which `isinstance` and Keras's serialization take it for the schedule.
    __class__ = property(lambda self: type(self._schedule))

    def __call__(self, step=None):
        """Return what the schedule gives for a step; without one, the rate."""
        return self._rate if step is None else self._schedule(step)

    def __getattr__(self, name):
        # Reached only where ordinary lookup has failed. Special methods are the class's
        # own: the tensor's would make copies of it tensors.
        if name in ("_schedule", "_rate") or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no {name!r}")
        owner = self._schedule if hasattr(self._schedule, name) else self._rate
        return getattr(owner, name)

    def __reduce__(self):
        return _same, (self._schedule,)  # a rate without its optimizer means nothing

    def __bool__(self):
        return bool(self._rate)

    def __format__(self, spec):
        return format(self._rate, spec)

    def __repr__(self):
        return repr(self._rate)

    def __str__(self):
        return str(self._rate)


def _same(schedule):
    return schedule


def of(optimizer, rate):
    """Return what an optimizer of Keras 3 hands out as its learning rate.

    Args:
      optimizer: the optimizer.
      rate: its own learning rate.
    """
    # Keras has no public way to the schedule but the config, a copy of it.
    schedule = vars(optimizer).get("_learning_rate")
    if is_one(schedule):
        schedule = schedule._schedule  # another optimizer's was given to this one
    if not isinstance(schedule, _Schedule) or is_one(rate):
        return rate
    return ScheduledRate(schedule, rate)


def is_one(rate):
    """Whether it is a rate that also answers as a schedule."""
    return issubclass(type(rate), ScheduledRate)


def plain(rate):
    """Return a learning rate as Keras 3 hands it out."""
    return rate() if is_one(rate) else rate
