"""The calls of layers in a forward pass: what came in and what went out."""

import contextlib
import dataclasses
import functools
import itertools
import threading
from typing import Any

import tensorflow as tf

from tf_lso import tf_private
from tf_lso import variables as variables_lib
from tf_lso.debugging import statistics

# A recorder replaces `__call__` of a class, so only one may run at a time.
_one_at_a_time = threading.RLock()

# Operations that make inf of finite values without being too large for their dtype:
# they divide by zero, or take the logarithm of zero.
_SINGULAR = frozenset(
    ("Div", "FloorDiv", "Inv", "Log", "Pow", "RealDiv", "Reciprocal", "Rsqrt", "Xdivy")
)


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
      overflowed: bool or None, whether the first operation in it that made a nonfinite
        value of finite ones overflowed; None if there is none. Calls in it count for
        themselves.
      input_gradients, output_gradients, weight_gradients: lists of `Gradient`, after
        the backward pass; the last of the variables of the layer itself.
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
    def compute_dtype(self):
        """The dtype that the layer computes in, a str; None for an operation."""
        return getattr(self.layer, "compute_dtype", None)

    def weight_values(self):
        """Return pairs of a name and `Values`, of the layer's variables as they are."""
        return [
            (variables_lib.name_of(weight), values_of([raw]))
            for weight in getattr(self.layer, "weights", ())
            # A lookup table of tf_keras is a weight, but no variable.
            if isinstance(raw := variables_lib.raw(weight), tf.Variable)
        ]

    @property
    def is_container(self):
        """Whether the layer only calls others: Functional and Sequential models."""
        method = getattr(type(self.layer), "call", None)
        is_kerass = getattr(method, "__module__", "").startswith(
            ("keras.", "tf_keras.")
        )
        return is_kerass and hasattr(self.layer, "compile")


@contextlib.contextmanager
def recorded(keras):
    """Record the calls of a Keras's layers in this thread, in a list of `Call`.

    The calls stand in the order in which they began.
    """
    recorder = _Recorder(keras)
    callbacks = tf_private.op_callbacks()
    # Not the layers of a model: what the model calls need not be an attribute of it.
    # An operation of Keras 3 is what its functional models call beside layers.
    classes = [keras.layers.Layer]
    if hasattr(keras, "Operation"):
        classes.append(keras.Operation)
    with contextlib.ExitStack() as undo:
        undo.enter_context(_one_at_a_time)
        for cls in classes:
            undo.callback(setattr, cls, "__call__", cls.__call__)
            cls.__call__ = recorder.recording(cls, cls.__call__)
        undo.callback(callbacks.remove_op_callback, recorder.see_operation)
        callbacks.add_op_callback(recorder.see_operation)
        yield recorder.calls


class _Recorder:
    """Records the calls of one pass."""

    def __init__(self, keras):
        self.calls = []
        self._keras = keras
        self._open = []
        self._moments = itertools.count()
        self._thread = threading.get_ident()

    def see_operation(self, op_type, inputs, attrs, outputs, op_name=None, graph=None):
        """Note in the innermost call which operation first made a nonfinite value.

        The outputs of a layer do not tell: where a product overflows, the softmax after
        it in the same layer makes NaN of it.
        """
        del attrs, op_name
        if graph is None and self._open and self._open[-1].overflowed is None:
            made = values_of(outputs)
            if made.nonfinite and not values_of(inputs).nonfinite:
                overflowed = made.infinite > 0 and op_type not in _SINGULAR
                self._open[-1].overflowed = overflowed

    def recording(self, cls, original):
        """Return a `__call__` for a class that records and calls the `original`."""

        @functools.wraps(original)
        def __call__(layer, *args, **kwargs):
            if self._is_of_interest(cls, layer):
                return self._record(original, layer, args, kwargs)
            return original(layer, *args, **kwargs)

        return __call__

    def _is_of_interest(self, cls, layer):
        if threading.get_ident() != self._thread or not tf.executing_eagerly():
            return False
        base, rnn = self._keras.layers.Layer, self._keras.layers.RNN
        if cls is not base and isinstance(layer, base):
            return False  # the `__call__` of a layer came here, and is recorded
        # Keras 3's LSTM calls its cell at each time step, tf_keras's does not. The
        # cell that a program gave to an RNN is a layer of the program.
        outer = self._open[-1].layer if self._open else None
        return not isinstance(outer, rnn) or type(outer) is rnn

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
        args, kwargs = _copied((args, kwargs), call.inputs)
        call.input_values = values_of(call.inputs)
        self._open.append(call)
        try:
            outputs = original(layer, *args, **kwargs)
        finally:
            self._open.pop()
        outputs = _copied(outputs, call.outputs)
        call.output_values = values_of(call.outputs)
        call.end = next(self._moments)
        return outputs


def _copied(structure, copies):
    """Return a structure with copies of its floating-point tensors, also put in a list."""

    def copied(one):
        if not isinstance(one, tf.Tensor) or not one.dtype.is_floating:
            return one
        copy = tf.identity(one)
        vars(copy).update(vars(one))  # Keras's mask is an attribute of the tensor
        copies.append(copy)
        return copy

    return tf.nest.map_structure(copied, structure)


def values_of(tensors):
    """Return the `Values` of those tensors together that are of floating point."""
    arrays = [tensor.numpy() for tensor in tensors if tensor.dtype.is_floating]
    return statistics.values_of(*arrays)
