"""Find out which step gradients belong to, among functions, graphs and threads.

If losses wait whose gradients need different divisors, nothing tells them apart. Then the
step is refused.
"""

import tensorflow as tf

from tf_lso import pages
from tf_lso.scaling import in_flight
from tf_lso.scaling import returned as returned_lib
from tf_lso.scaling import steps as steps_lib
from tf_lso.scaling.steps import KERAS3, LEGACY

_AMBIGUOUS = (
    "apply_gradients() cannot know whether, or by which scale, these gradients are still "
    "scaled: {}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in the function that calls apply_gradients(). "
    f"See {pages.troubleshooting('waiting-gradients')}"
)


class Origin:
    """Finds the step of gradients for one optimizer.

    Args:
      steps: the optimizer's `Steps`.

    Attributes:
      in_flight: what passes from one function to another, an `InFlight`, or None in a
        graph of TensorFlow 1, where Python sees all calls.
    """

    def __init__(self, steps):
        self._steps = steps
        self._is_asked = False  # whether a traced function reads what is in flight
        with tf.init_scope():
            self.in_flight = in_flight.InFlight() if tf.executing_eagerly() else None

    def tell(self, step, scale):
        """Tell functions that only apply that a step has scaled a loss.

        Args:
          step: the `Step`.
          scale: float32 scalar tensor that the loss was multiplied by.

        Raises:
          RuntimeError: if gradients wait that need another divisor.
        """
        if self.in_flight is None:
            return
        if tf.executing_eagerly() and not self._is_asked:
            return  # no function asks
        other = (not step.must_unscale) in self._steps.kinds_left_open()
        if self._is_asked and other and not tf.executing_eagerly():
            step.ended = True
            raise RuntimeError(_AMBIGUOUS.format("both methods have scaled losses"))
        if step.before is None:
            if tf.executing_eagerly():
                there = self._elsewhere()
                if there.is_open:
                    self._refuse_others(step, there, lambda step: step.divisor)
            step.before = returned_lib.held(self.in_flight.read())
        self.in_flight.add(scale, step.must_unscale)

    def of_gradients(self, what):
        """Return the step that gradients belong to.

        Args:
          what: callable that takes a step and returns what matters of it: a tensor, a
            callable that returns one, or None.

        Raises:
          RuntimeError: if that cannot be known.
        """
        if tf.executing_eagerly():
            return self._of_eager_gradients(what)
        return self._of_traced_gradients()

    def _of_traced_gradients(self):
        own = self._steps.own()
        if own.is_open or self.in_flight is None:
            return own
        inner = self._steps.left_open_within()
        if own.in_use and not inner:
            return own
        kinds = {step.must_unscale for step in inner}
        if not inner:
            eager = self._steps.eager_and_open()
            kinds = self._steps.kinds_left_open() | {s.must_unscale for s in eager}
        if len(kinds) == 2:
            raise RuntimeError(_AMBIGUOUS.format("both methods have scaled losses"))
        if not inner:
            self._tell_of_eager_step()
        step = self._elsewhere()
        step.losses = int(True in kinds)
        return step

    def _of_eager_gradients(self, what):
        own = self._steps.own()
        kinds = self._steps.kinds_left_open()
        if not own.is_open and len(kinds) == 2:
            raise RuntimeError(_AMBIGUOUS.format("both methods have scaled losses"))
        here = own
        if own.previous and own.previous.is_open and not own.is_open:
            self._refuse_others(own, own.previous, what)
        for step in self._steps.open_in_other_threads():
            if not here.is_open:
                here = step
            elif not step.thread.is_alive():
                # Its thread has ended, so only another thread can apply its gradients.
                self._refuse_others(here, step, what)
        if here.is_open and here.scales_differ:
            self._refuse(here)
        if not kinds or self.in_flight is None:
            return here if here.is_open else own
        there = self._elsewhere()
        if there.is_open and here.is_open:
            self._refuse_others(here, there, what)
        if here.is_open:
            return here
        if there.is_open and there.scales_differ:
            self._refuse(there)
        return own if own.in_use and there.applied else there

    def _refuse_others(self, here, there, what):
        """Refuse steps that wait together unless the same is to be done with both."""
        equal = _number(what(here)) == _number(what(there))
        if not equal or here.scales_differ or there.scales_differ:
            self._refuse(here, there)

    def _refuse(self, *steps):
        for step in steps:
            step.ended = True
            if step.is_elsewhere:
                self.in_flight.close()
        raise RuntimeError(
            _AMBIGUOUS.format("losses of different scales or methods wait")
        )

    def _elsewhere(self):
        """The step of another function, as the variable has it."""
        if not tf.executing_eagerly():
            return steps_lib.Step(
                scaled_by=KERAS3,
                scale=returned_lib.held(self.in_flight.divisor()),
                is_elsewhere=True,
            )
        pending = self.in_flight.pending()
        step = steps_lib.Step(is_elsewhere=True, applied=int(not pending.is_open))
        if pending.is_mixed:
            step.scales_differ = True
        if pending.scale or pending.is_mixed:
            step.scaled_by = KERAS3 if pending.scale > 0 else LEGACY
            step.unscaled = pending.scale < 0
            step.losses = 1
            step.scale = returned_lib.held(tf.constant(abs(pending.scale)))
        return step

    def others_matter(self):
        """Whether another function may have scaled, or may apply."""
        if self.in_flight is None:
            return False
        if not tf.executing_eagerly():
            return True
        return self._is_asked or bool(self._steps.kinds_left_open())

    def _tell_of_eager_step(self):
        """Let a function being traced know what eager code has scaled so far."""
        step = self._steps.newest_eager()
        if not self._is_asked and step.scaled_by is not None:
            with tf.init_scope():
                there = self._elsewhere()
                if there.is_open and step.is_open:
                    self._refuse_others(step, there, lambda step: step.divisor)
                elif step.is_open or not there.in_use:
                    step.before = returned_lib.held(self.in_flight.read())
                    self.in_flight.add(step.scale(), step.must_unscale)
        self._is_asked = True

    def was_applied_elsewhere(self, step):
        """Whether a traced function has applied what an eager step has scaled."""
        if step.before is None or not tf.executing_eagerly() or not self._is_asked:
            return False
        if not self._elsewhere().applied:
            return False
        step.applied = step.losses
        return True


def _number(value):
    """What can be compared of a tensor, of a callable that returns it, or of None."""
    if isinstance(value, tuple):
        return tuple(map(_number, value))
    value = value() if callable(value) else value
    return 1.0 if value is None else float(value)
