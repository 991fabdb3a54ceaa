"""The forward pass: each call of a layer, with what came in and what went out."""

import contextlib
import dataclasses
import functools
import itertools
import threading
from typing import Any

import tensorflow as tf

from tf_lso.debugging import operations

# Passes replace `__call__` of a class, so only one may run at a time.
_one_at_a_time = threading.RLock()


@dataclasses.dataclass(eq=False)
class Call:
    """One call of a layer.

    Attributes:
      layer: the layer, or the operation of a functional model of Keras 3.
      path: str, the names of the layers that it stands in and its own, without the
        outermost, joined by "/".
      number: int, which call of the layer it is; 1 is the first.
      parent: the `Call` in which it happened, None for the model's own.
      start, end: int, when it began and ended, in the order of the pass.
      inputs, outputs: lists of the floating-point tensors that it got (before the
        layer casts them) and returned.
      input_values, output_values: `Values` of them.
      input_gradients, output_gradients, weight_gradients: lists of `Gradient`, after
        the backward pass; the last of the variables of the layer itself.
      overflowed: bool or None, whether the first operation in it that made a nonfinite
        value of finite ones overflowed; None if there is none. Calls in it count for
        themselves.
    """

    layer: Any
    path: str
    number: int
    parent: "Call | None"
    start: int
    end: int = -1
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    input_values: Any = None
    output_values: Any = None
    overflowed: bool | None = None
    input_gradients: list = dataclasses.field(default_factory=list)
    output_gradients: list = dataclasses.field(default_factory=list)
    weight_gradients: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        """The name of the layer."""
        return self.layer.name

    @property
    def is_container(self):
        """Whether the layer only calls others: Functional and Sequential models."""
        method = getattr(type(self.layer), "call", None)
        is_kerass = getattr(method, "__module__", "").startswith(
            ("keras.", "tf_keras.")
        )
        return is_kerass and hasattr(self.layer, "compile")


class Capture:
    """The calls of one pass of a model of a Keras, in the order in which they began."""

    def __init__(self, keras):
        self.calls = []
        self._keras = keras
        self._open = []
        self._moments = itertools.count()
        self._thread = threading.get_ident()

    @contextlib.contextmanager
    def running(self):
        """Record the calls of layers in this thread for a while."""
        # Not by the layers of a model: what it calls need not be an attribute of it.
        # An operation of Keras 3 is what its functional models call beside layers.
        classes = [self._keras.layers.Layer]
        if hasattr(self._keras, "Operation"):
            classes.append(self._keras.Operation)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_one_at_a_time)
            for cls in classes:
                stack.callback(setattr, cls, "__call__", cls.__call__)
                cls.__call__ = self._watching(cls, cls.__call__)
            stack.enter_context(operations.watched(self._tell))
            yield

    def _tell(self, overflowed):
        if self._open and self._open[-1].overflowed is None:
            self._open[-1].overflowed = overflowed

    def _watching(self, cls, original):
        @functools.wraps(original)
        def __call__(layer, *args, **kwargs):
            if self._sees(cls, layer, (args, kwargs)):
                return self._record(original, layer, args, kwargs)
            return original(layer, *args, **kwargs)

        return __call__

    def _sees(self, cls, layer, arguments):
        if threading.get_ident() != self._thread or not tf.executing_eagerly():
            return False
        base = self._keras.layers.Layer
        if cls is not base and isinstance(layer, base):
            return False  # its `__call__` came here, and is recorded
        if any(hasattr(one, "_keras_history") for one in tf.nest.flatten(arguments)):
            return False
        return not (self._open and self._is_own_cell(self._open[-1].layer))

    def _is_own_cell(self, outer):
        # Keras 3's LSTM calls its cell at each time step, tf_keras's does not. The
        # cell that a program gave to an RNN is a layer of the program.
        rnn = self._keras.layers.RNN
        return isinstance(outer, rnn) and type(outer) is not rnn

    def _record(self, original, layer, args, kwargs):
        parent = self._open[-1] if self._open else None
        above = "" if parent is None or parent.parent is None else f"{parent.path}/"
        call = Call(
            layer=layer,
            path=above + layer.name,
            number=1 + sum(call.layer is layer for call in self.calls),
            parent=parent,
            start=next(self._moments),
        )
        self.calls.append(call)
        # Each use of a tensor is another tensor, so that it has its own gradient.
        args, kwargs = _replaced((args, kwargs), call.inputs)
        call.input_values = operations.values_of(call.inputs)
        self._open.append(call)
        try:
            outputs = original(layer, *args, **kwargs)
        finally:
            self._open.pop()
        outputs = _replaced(outputs, call.outputs)
        call.output_values = operations.values_of(call.outputs)
        call.end = next(self._moments)
        return outputs


def _replaced(structure, tensors):
    """Return a structure with new tensors of floating point, also put into a list."""

    def replaced(one):
        if not isinstance(one, tf.Tensor) or not one.dtype.is_floating:
            return one
        new = tf.identity(one)
        vars(new).update(vars(one))  # Keras's mask is an attribute of the tensor
        tensors.append(new)
        return new

    return tf.nest.map_structure(replaced, structure)
