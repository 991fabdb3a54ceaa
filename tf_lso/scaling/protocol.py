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

`origin.py` asks the last two. If two of them disagree, the step is refused.
"""

import contextlib
import threading

import tensorflow as tf

from tf_lso import pages, thread_switch
from tf_lso.scaling import origin
from tf_lso.scaling import returned as returned_lib
from tf_lso.scaling import steps as steps_lib
from tf_lso.scaling.steps import KERAS3 as KERAS3
from tf_lso.scaling.steps import LEGACY as LEGACY

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


class Protocol:
    """The record of the scaling calls of one optimizer."""

    def __init__(self):
        self._steps = steps_lib.Steps()
        self._origin = origin.Origin(self._steps)
        self.in_flight = self._origin.in_flight
        self._thread = threading.local()  # what `dividing_by` says
        # On while `scale_loss` calls a user's `get_scaled_loss`.
        self.by_keras3 = thread_switch.ThreadSwitch()
        self._ever_scaled = False
        self._ever_unscaled = False
        self._losses = returned_lib.Returned()
        self.unscaled_gradients = returned_lib.Returned()

    def __deepcopy__(self, memo):
        return type(self)()

    def __reduce__(self):
        return type(self), ()

    # --- Scaling.

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
        method = KERAS3 if self.by_keras3.is_on else method
        step = self._steps.begin(self._origin.was_applied_elsewhere)
        if step.scaled_by not in (None, method):
            step.ended = True
            raise RuntimeError(
                f"{method}() was called in a step in which {step.scaled_by}() has scaled "
                "the loss already; scaling it twice gives wrong gradients. Keras 3's `fit` "
                "calls scale_loss() itself: do not call get_scaled_loss() inside it. In a "
                "custom loop use either get_scaled_loss() with get_unscaled_gradients(), "
                "or scale_loss() alone. See "
                f"{pages.troubleshooting('two-protocols')}"
            )
        if step.losses and tf.executing_eagerly() and step.scale is not None:
            step.scales_differ |= float(step.scale()) != float(scale)
        step.scaled_by, step.unscaled = method, False
        step.scale = returned_lib.held(scale)
        step.losses += 1
        self._ever_scaled = True
        self._origin.tell(step, scale)
        self._losses.note([result], [None], scale)

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
        step = self._origin.of_gradients(lambda step: (step.scale, step.must_unscale))
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
        step = self._steps.begin(self._origin.was_applied_elsewhere)
        is_told = step.before is not None and step.must_unscale
        step.unscaled = True
        self._ever_unscaled = True
        if is_told or (step.scaled_by is None and self._origin.others_matter()):
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
            if self._origin.others_matter():
                self.in_flight.close()
        return divisor

    def _step_to_apply(self, gradients):
        if gradients and self.unscaled_gradients.all_of(gradients):
            own = self._steps.own()
            return steps_lib.Step(unscaled=True) if own.must_unscale else own
        return self._origin.of_gradients(lambda step: step.divisor)

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
            f"be and the model will likely be worse. Call each once:{_EXAMPLE}\n"
            f"See {pages.troubleshooting('forgotten')}"
        )
