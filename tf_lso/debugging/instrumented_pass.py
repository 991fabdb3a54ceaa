"""One forward and backward pass of a model, of which each layer's call is recorded."""

import bisect
import contextlib
import dataclasses
import functools
import math
from typing import Any

import tensorflow as tf

from tf_lso import tf_private
from tf_lso import variables as variables_lib
from tf_lso.debugging import report, restored_state, statistics, validation
from tf_lso.scaling import gradients as gradients_lib

# Where the search for a scale ends. At a smaller one what is not finite by itself may
# become 0 and seem to fit; a larger one leaves no room in float32.
_ENDS = 2.0**-14, 2.0**100


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
def _recorded(keras):
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
        earlier = sum(begins and call.layer is layer for call, begins in self.moments)
        call = Call(layer, above + layer.name, earlier + 1, parent)
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


def run(model, keras, x, y, loss, scale):
    """Return what `_recorded` has, the loss, `VariableGradient`s, the fitting scale."""
    weights = list(model.trainable_variables)
    raw_weights = [variables_lib.raw(variable) for variable in weights]
    tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
    with restored_state.restored(model):
        # What is a `tf.function` in the model is seen into.
        tf.config.run_functions_eagerly(True)
        with tape:
            tape.watch(raw_weights)
            with _recorded(keras) as moments:
                outputs = validation.outputs_of(model, x)
            value = validation.loss_of(model, keras, x, y, outputs, loss)
        calls = [call for call, begins in moments if begins]
        tensors = [t for call in calls for t in (*call.inputs, *call.outputs)]
        gradients, fitting = _gradients(tape, value, [*raw_weights, *tensors], scale)
    for call in calls:
        call.input_gradients = [g for t in call.inputs if (g := gradients.get(id(t)))]
        call.output_gradients = [g for t in call.outputs if (g := gradients.get(id(t)))]
    variables, owners = [], _owners(calls)
    for variable, raw in zip(weights, raw_weights):
        owner, gradient = owners.get(id(variable)), gradients.get(id(raw))
        for call in calls:
            if gradient and owner and owner.layer is call.layer:
                call.weight_gradients.append(gradient)
        name = variables_lib.name_of(variable)
        variables.append(report.VariableGradient(name, owner and owner.path, gradient))
    return moments, float(value), variables, fitting


def _owners(calls):
    """Return id of a variable -> the first call of the innermost layer that has it."""
    first = [call for call in calls if call.number == 1]
    found = {}
    # What comes last stays: the layer with the fewest variables, and the inner of two.
    for call in sorted(first, key=lambda call: -len(_trainable(call))):
        found.update(dict.fromkeys(map(id, _trainable(call)), call))
    return found


def _trainable(call):
    return getattr(call.layer, "trainable_variables", ())


def _gradients(tape, loss, sources, scale):
    """Return {id of a source: `Gradient`}, and the largest scale that fits, if any."""

    def gradients_at(scale):
        # What the gradient of `loss * scale` begins with, in the dtype of the loss.
        seed = tf.cast(tf.constant(scale, tf.float32), loss.dtype)
        return dense(tape.gradient(loss, sources, output_gradients=seed))

    at_scale = gradients_at(scale)
    fitting = _fitting_scale(gradients_at, scale, at_scale)
    at_fitting = at_scale if fitting is None else gradients_at(fitting)
    found = {
        id(source): statistics.gradient_of(
            g.numpy(), scale, best.numpy(), fitting or scale
        )
        for source, g, best in zip(sources, at_scale, at_fitting)
        if g is not None
    }
    return found, fitting


def dense(gradients):
    """Return gradients as tensors: of slices their summed rows, and None as it is."""
    summed = gradients_lib.with_summed_rows(gradients)
    return [g if g is None else gradients_lib.values_of([g])[0] for g in summed]


def _fitting_scale(gradients_at, scale, gradients):
    """Return the largest `scale * 2**n` at which all gradients are finite, or None."""
    smallest, largest = (math.floor(math.log2(end / scale)) for end in _ENDS)
    fits = _all_finite(gradients)
    powers = range(0, max(largest, 0) + 1) if fits else range(smallest + 1, 0)

    def overflows(power):
        return not _all_finite(gradients_at(math.ldexp(scale, power)))

    fitting = bisect.bisect_left(powers, True, key=overflows)
    return math.ldexp(scale, powers[fitting - 1]) if fitting else None


def _all_finite(gradients):
    found = [tf.math.is_finite(one) for one in gradients if one is not None]
    return all(bool(tf.reduce_all(one)) for one in found)
