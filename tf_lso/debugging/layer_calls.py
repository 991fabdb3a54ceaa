"""The calls of layers in a forward pass: what came in and what went out."""

import contextlib
import dataclasses
import functools
from typing import Any

import tensorflow as tf

from tf_lso import tf_private
from tf_lso import variables as variables_lib
from tf_lso.debugging import statistics


@dataclasses.dataclass(eq=False)
class Call:
    """One call of a layer, or of an operation of a functional model of Keras 3."""

    layer: Any
    # The names, joined by "/", of the layers around it but the outermost, and its own.
    path: str
    number: int  # 1 for the first call of the layer
    parent: "Call | None"  # the call in which it happened, None for the model's own
    # Tensors of floating point: what it got, before the layer casts, and returned.
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    input_values: statistics.Values | None = None
    output_values: statistics.Values | None = None
    # Whether the first operation in it, and in no call in it, that made a nonfinite value
    # of finite ones made inf; None if there is none.
    overflowed: bool | None = None
    # Of `Gradient`, after the backward pass; weights are those of the layer itself.
    input_gradients: list = dataclasses.field(default_factory=list)
    output_gradients: list = dataclasses.field(default_factory=list)
    weight_gradients: list = dataclasses.field(default_factory=list)

    def weight_values(self):
        """Return pairs of a name and `Values`, of the layer's variables as they are."""
        return [
            (variables_lib.name_of(weight), _values_of([raw]))
            for weight in getattr(self.layer, "weights", ())
            # A lookup table of tf_keras is a weight, but no variable.
            if isinstance(raw := variables_lib.raw(weight), tf.Variable)
        ]

    @property
    def is_container(self):
        """Whether the layer only calls others: Functional and Sequential models."""
        method = getattr(type(self.layer), "call", None)
        of_keras = getattr(method, "__module__", "").startswith(("keras.", "tf_keras."))
        return of_keras and hasattr(self.layer, "compile")


@contextlib.contextmanager
def recorded(keras):
    """Record how calls of a Keras's layers begin and end: [(`Call`, whether it begins)]."""
    recorder = _Recorder(keras)
    callbacks = tf_private.op_callbacks()
    # Not the layers of a model: what the model calls need not be an attribute of it.
    # An operation of Keras 3 is what its functional models call beside layers.
    classes = [keras.layers.Layer]
    if hasattr(keras, "Operation"):
        classes.append(keras.Operation)
    with contextlib.ExitStack() as undo:
        for cls in classes:
            undo.callback(setattr, cls, "__call__", cls.__call__)
            cls.__call__ = recorder.recording(cls, cls.__call__)
        undo.callback(callbacks.remove_op_callback, recorder.see_operation)
        callbacks.add_op_callback(recorder.see_operation)
        yield recorder.moments


class _Recorder:
    """Records the calls of one pass."""

    def __init__(self, keras):
        self.moments = []
        self._keras = keras
        self._open = [None]

    def see_operation(self, op_type, inputs, attrs, outputs, op_name=None, graph=None):
        """Note what the first nonfinite value in the innermost call was."""
        # The outputs do not tell: a softmax in the same layer makes NaN of an overflow.
        call = self._open[-1]
        if graph is None and call is not None and call.overflowed is None:
            made = _values_of(outputs)
            if made.nonfinite and not _values_of(inputs).nonfinite:
                call.overflowed = made.infinite > 0

    def recording(self, cls, original):
        """Return a `__call__` for a class that records and calls the `original`."""

        @functools.wraps(original)
        def __call__(layer, *args, **kwargs):
            if not self._is_of_interest(cls, layer):
                return original(layer, *args, **kwargs)
            call = self._begin(layer)
            # Each use of a tensor is another tensor, so that it has its own gradient.
            args, kwargs = _copied((args, kwargs), call.inputs)
            call.input_values = _values_of(call.inputs)
            outputs = _copied(original(layer, *args, **kwargs), call.outputs)
            call.output_values = _values_of(call.outputs)
            self.moments.append((self._open.pop(), False))
            return outputs

        return __call__

    def _is_of_interest(self, cls, layer):
        if not tf.executing_eagerly():
            return False
        base, rnn = self._keras.layers.Layer, self._keras.layers.RNN
        if cls is not base and isinstance(layer, base):
            return False  # the `__call__` of a layer came here, and is recorded
        # Keras 3's LSTM calls its cell at each time step, tf_keras's does not. The
        # cell that a program gave to an RNN is a layer of the program.
        outer = self._open[-1] and self._open[-1].layer
        return not isinstance(outer, rnn) or type(outer) is rnn

    def _begin(self, layer):
        parent = self._open[-1]
        above = f"{parent.path}/" if parent and parent.parent else ""
        earlier = [call for call, begins in self.moments if begins]
        number = 1 + sum(call.layer is layer for call in earlier)
        call = Call(layer, above + layer.name, number, parent)
        self.moments.append((call, True))
        self._open.append(call)
        return call


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


def _values_of(tensors):
    arrays = [tensor.numpy() for tensor in tensors if tensor.dtype.is_floating]
    return statistics.values_of(*arrays)
