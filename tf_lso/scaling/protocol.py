"""Find out whether the gradients of a step must still be unscaled, and by what.

Legacy programs call `get_scaled_loss` and `get_unscaled_gradients`. Keras 3 programs call
`scale_loss` only, and `apply` unscales their gradients. One object serves both, so it
must know what the current step has done, and with which scale.

Three sources tell it, the surest first:

1. Tensors that `get_unscaled_gradients` has returned are known by identity.
2. A record of the calls, one for each thread of eager code and for each graph. Python
   writes it, so a traced step writes it once, while it is traced. It holds the very
   scale that the loss was multiplied by.
3. If one function scales and another applies: a variable (`in_flight.InFlight`).

If two of them disagree, the step is refused.
"""

import contextlib
import threading

import tensorflow as tf

from tf_lso.scaling import in_flight
from tf_lso.scaling import returned as returned_lib
from tf_lso.scaling import steps as steps_lib
from tf_lso.scaling.steps import KERAS3, LEGACY

_EXAMPLE = """
    with tf.GradientTape() as tape:
      loss = loss_fn()
      scaled_loss = opt.get_scaled_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, vars)
    grads = opt.get_unscaled_gradients(scaled_grads)
    opt.apply_gradients(zip(grads, vars))"""

_FORGOTTEN = {
    (False, False): "get_scaled_loss() and get_unscaled_gradients() were not called",
    (False, True): "get_unscaled_gradients() was called but get_scaled_loss() was not",
    (True, False): "get_scaled_loss() was called but get_unscaled_gradients() was not",
}

_AMBIGUOUS = (
    "apply_gradients() cannot know whether, or by which scale, these gradients are still "
    "scaled: {}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in the function that calls apply_gradients()."
)


class Protocol:
    """The record of the scaling calls of one optimizer."""

    def __init__(self):
        self._steps = steps_lib.Steps()
        self._thread = threading.local()  # what `counted_as` and `dividing_by` say
        self._ever_scaled = False
        self._ever_unscaled = False
        self._passes_on = False  # whether a traced function reads what is in flight
        self._losses = returned_lib.Returned()
        self.unscaled_gradients = returned_lib.Returned()
        # In a graph of TensorFlow 1 Python sees all calls, so no variable is needed.
        with tf.init_scope():
            self.in_flight = in_flight.InFlight() if tf.executing_eagerly() else None

    def __deepcopy__(self, memo):
        return type(self)()

    def __reduce__(self):
        return type(self), ()

    # --- Scaling.

    @contextlib.contextmanager
    def counted_as(self, method):
        """Count scaling calls in this block as calls of `method`."""
        self._thread.counted_as = method
        try:
            yield
        finally:
            self._thread.counted_as = None

    @contextlib.contextmanager
    def dividing_by(self, divisor):
        """Make unscaling calls in this block divide by `divisor`."""
        self._thread.divisor = divisor
        try:
            yield
        finally:
            self._thread.divisor = None

    @property
    def calls(self):
        """How many scaling and unscaling calls were noted so far."""
        return self._steps.calls

    @property
    def loss(self):
        """The loss that the step at hand has scaled, as it was, or None."""
        loss = self._steps.own().loss
        return None if loss is None else loss()

    @loss.setter
    def loss(self, value):
        self._steps.own().loss = returned_lib.held(value)

    @property
    def scale(self):
        """The scale of the step at hand, a float32 scalar tensor or None."""
        scale = self._steps.own().scale
        return None if scale is None else scale()

    @scale.setter
    def scale(self, value):
        self._steps.own().scale = returned_lib.held(value)

    def refuse_scaled(self, loss, method):
        """Raise RuntimeError if this optimizer has returned `loss` as scaled."""
        step = self._steps.own()
        by_other = step.scaled_by not in (None, method) and not step.applied
        # Where the other method has scaled it, `scaled` has more to say.
        if not by_other and self._losses.any_of([loss]):
            raise RuntimeError(
                f"The loss {loss!r} is scaled already: get_scaled_loss() or scale_loss() "
                "has returned it. Pass the loss of the model, and scale it once."
            )

    def scaled(self, method, scale, result):
        """Note that `method` has scaled a loss.

        Args:
          method: `LEGACY` or `KERAS3`.
          scale: float32 scalar tensor that the loss was multiplied by.
          result: what the method returns.

        Raises:
          RuntimeError: if the other method has scaled a loss in this step, or in another
            function whose gradients have not been applied.
        """
        method = getattr(self._thread, "counted_as", None) or method
        step = self._steps.begin(self._was_applied_elsewhere)
        if step.scaled_by not in (None, method):
            step.ended = True
            raise RuntimeError(
                f"{method}() was called in a step in which {step.scaled_by}() has scaled "
                "the loss already; scaling it twice gives wrong gradients. Keras 3's `fit` "
                "calls scale_loss() itself: do not call get_scaled_loss() inside it. In a "
                "custom loop use either get_scaled_loss() with get_unscaled_gradients(), "
                "or scale_loss() alone."
            )
        if step.losses and tf.executing_eagerly() and step.scale is not None:
            step.scales_differ |= float(step.scale()) != float(scale)
        step.scaled_by, step.unscaled = method, False
        step.scale = returned_lib.held(scale)
        step.losses += 1
        self._ever_scaled = True
        self._tell_others(step, scale)
        self._losses.note([result], [None], scale)

    def _tell_others(self, step, scale):
        """Tell functions that only apply what a step has scaled."""
        if self.in_flight is None:
            return
        if tf.executing_eagerly() and not self._passes_on:
            return  # no function asks
        other = (not step.must_unscale) in self._steps.kinds_left_open()
        if self._passes_on and other and not tf.executing_eagerly():
            step.ended = True
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
        if step.before is None:
            if tf.executing_eagerly():
                there = self._elsewhere()
                if there.is_open:
                    self._refuse_others(step, there, lambda step: step.divisor)
            step.before = returned_lib.held(self.in_flight.read())
        self.in_flight.add(scale, step.must_unscale)

    # --- Unscaling.

    def scale_of_gradients(self, gradients, loss_scale):
        """Return the scale by which to unscale gradients: that of their own loss.

        Args:
          gradients: list of gradients.
          loss_scale: float32 scalar tensor, the scale as it is now.

        Raises:
          RuntimeError: if `get_unscaled_gradients` has returned one of them, or the
            scale cannot be known.
        """
        if self.unscaled_gradients.any_of(gradients):
            raise RuntimeError(
                "get_unscaled_gradients() got gradients that it has returned, which are "
                "unscaled already. Call it once for each gradient."
            )
        divisor = getattr(self._thread, "divisor", None)
        if divisor is not None:
            return divisor
        step = self._source(lambda step: (step.scale, step.must_unscale))
        if step.is_elsewhere and not tf.executing_eagerly():
            return self.in_flight.scale(otherwise=loss_scale)
        return loss_scale if step.scale is None else step.scale()

    def unscaled(self, gradients, sources, scale):
        """Note that the caller has unscaled gradients.

        Args:
          gradients: list of the unscaled gradients, and None.
          sources: list of what each was before.
          scale: float32 scalar tensor that they were divided by.
        """
        self.unscaled_gradients.note(gradients, sources, scale)
        step = self._steps.begin(self._was_applied_elsewhere)
        is_told = step.before is not None and step.must_unscale
        step.unscaled = True
        self._ever_unscaled = True
        if is_told or (step.scaled_by is None and self._others_matter()):
            self.in_flight.unscaled()
            step.scale = step.scale or returned_lib.held(scale)

    # --- Applying.

    @tf.autograph.experimental.do_not_convert
    def divisor(self, gradients):
        """Return what the gradients must still be divided by.

        Args:
          gradients: list of gradients, without None.

        Returns:
          A float32 scalar tensor, or None if they are unscaled.

        Raises:
          RuntimeError: if that cannot be known.
        """
        return self._step_to_apply(gradients).divisor

    def apply(self, gradients):
        """Return the `divisor`, and note that the gradients are applied."""
        step = self._step_to_apply(gradients)
        divisor = step.divisor
        step.applied += 1
        if step.must_unscale and step.losses:
            self._ever_unscaled = True
        if step.before is not None:
            if not step.is_open or not tf.executing_eagerly():
                self.in_flight.set(step.before())
        elif step.is_elsewhere or step.scaled_by is None:
            if step.is_elsewhere and tf.executing_eagerly():
                # A second apply of the same gradients finds it here.
                self._steps.keep(step)
            if self._others_matter():
                self.in_flight.close()
        return divisor

    def _step_to_apply(self, gradients):
        if gradients and self.unscaled_gradients.all_of(gradients):
            own = self._steps.own()
            return steps_lib.Step(unscaled=True) if own.must_unscale else own
        return self._source(lambda step: step.divisor)

    # --- Which step gradients belong to.

    def _source(self, what):
        """Return the step that gradients belong to.

        Args:
          what: callable that takes a step and returns what matters of it: a tensor, a
            callable that returns one, or None.
        """
        if tf.executing_eagerly():
            return self._eager_source(what)
        return self._traced_source()

    def _traced_source(self):
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
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
        if not inner:
            self._tell_of_eager_step()
        self._ever_unscaled |= True in kinds
        return self._elsewhere()

    def _eager_source(self, what):
        own = self._steps.own()
        kinds = self._steps.kinds_left_open()
        if not own.is_open and len(kinds) == 2:
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
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
            _AMBIGUOUS.format("losses of different scales or protocols wait")
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

    def _others_matter(self):
        """Whether another function may have scaled, or may apply."""
        if self.in_flight is None:
            return False
        if not tf.executing_eagerly():
            return True
        return self._passes_on or bool(self._steps.kinds_left_open())

    def _tell_of_eager_step(self):
        """Let a function being traced know what eager code has scaled so far."""
        step = self._steps.newest_eager()
        if not self._passes_on and step.scaled_by is not None:
            with tf.init_scope():
                there = self._elsewhere()
                if there.is_open and step.is_open:
                    self._refuse_others(step, there, lambda step: step.divisor)
                elif step.is_open or not there.in_use:
                    step.before = returned_lib.held(self.in_flight.read())
                    self.in_flight.add(step.scale(), step.must_unscale)
        self._passes_on = True

    def _was_applied_elsewhere(self, step):
        """Whether a traced function has applied what an eager step has scaled."""
        if step.before is None or not tf.executing_eagerly() or not self._passes_on:
            return False
        if not self._elsewhere().applied:
            return False
        step.applied = step.losses
        return True

    def forgotten(self):
        """Return a warning if scaling or unscaling was forgotten, else None.

        As in TensorFlow 2.2-2.15 this looks at all calls so far, since scaling,
        unscaling and applying may happen in different functions.
        """
        what = _FORGOTTEN.get((self._ever_scaled, self._ever_unscaled))
        if what is None:
            return None
        return (
            f"{what} before apply_gradients(), so the gradients are not what they should "
            f"be and the model will likely be worse. Call each once:{_EXAMPLE}"
        )


def _number(value):
    """What can be compared of a tensor, of a callable that returns it, or of None."""
    if isinstance(value, tuple):
        return tuple(map(_number, value))
    value = value() if callable(value) else value
    return 1.0 if value is None else float(value)
