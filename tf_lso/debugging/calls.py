"""Observe the calls of a model's layers: their inputs and outputs, in order.

Keras looks up `call` on the layer itself, so `observed` shadows it by an attribute of each
layer and removes the attribute afterwards. No class of Keras changes.
"""

import contextlib
import dataclasses
import functools
from typing import Any

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso import wrapping
from tf_lso.debugging import statistics


@dataclasses.dataclass(eq=False)
class Call:
    """One call of a layer, or of an operation of a functional model of Keras 3."""

    layer: Any
    # The names of the layers around this one, without the model's, and its own name.
    path: str
    number: int  # 1 for the first call of the layer
    parent: "Call | None"  # the call around this one, None for the model's own
    arguments: tuple  # the positional and keyword arguments of `call`
    # Floating-point tensors, the inputs as Keras has cast them to the layer's dtype.
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    input_values: statistics.Values | None = None
    output_values: statistics.Values | None = None
    # Lists of `Gradient`, filled after the backward pass.
    input_gradients: list = dataclasses.field(default_factory=list)
    output_gradients: list = dataclasses.field(default_factory=list)

    def __str__(self):
        """Return what messages call it."""
        path = "" if self.path == self.layer.name else f" ({self.path})"
        times = "" if self.number == 1 else f", call {self.number}"
        return f"layer '{self.layer.name}'{path}{times}"

    @property
    def is_container(self):
        """Whether Keras's own code calls the layers in this one: Functional, Sequential."""
        module = type(self.layer).call.__module__
        of_keras = module.startswith(("keras.", "tf_keras."))
        return of_keras and hasattr(self.layer, "compile")

    def weight_values(self):
        """Return pairs of a name and `Values` of the layer's variables."""
        return [
            (variables_lib.name_of(weight), values_of([raw]))
            for weight in getattr(self.layer, "weights", ())
            # A lookup table of tf_keras is a weight, but not a variable.
            if isinstance(raw := variables_lib.raw(weight), tf.Variable)
        ]


@contextlib.contextmanager
def observed(model, keras):
    """Observe the calls of the layers of `model` while the context is open.

    Yields:
      A list that grows by the pair (`Call`, True) when a call begins, and (`Call`, False)
      when it ends.
    """
    moments, open_calls = [], [None]

    def observing(layer, original):
        @functools.wraps(original)
        def call(*args, **kwargs):
            seen = _new_call(layer, open_calls[-1], moments, (args, kwargs))
            # Each use of a tensor becomes another tensor, which has its own gradient.
            args, kwargs = _copied(seen.arguments, seen.inputs)
            seen.input_values = values_of(seen.inputs)
            moments.append((seen, True))
            open_calls.append(seen)
            outputs = _copied(original(*args, **kwargs), seen.outputs)
            seen.output_values = values_of(seen.outputs)
            moments.append((open_calls.pop(), False))
            return outputs

        return call

    with contextlib.ExitStack() as undo:
        for layer in _observable(model, keras):
            # Some layers, such as Keras 2's for `tf.exp`, have a `call` of their own.
            undo.callback(_restore_call, layer, vars(layer).get("call"))
            vars(layer)["call"] = observing(layer, layer.call)
        yield moments


def _restore_call(layer, before):
    if before is None:
        del vars(layer)["call"]
    else:
        vars(layer)["call"] = before


def _new_call(layer, parent, moments, arguments):
    above = f"{parent.path}/" if parent and parent.parent else ""
    earlier = sum(begins and call.layer is layer for call, begins in moments)
    return Call(layer, above + layer.name, earlier + 1, parent, arguments)


def _observable(model, keras):
    """Return the layers and operations in a model, without the cells inside an LSTM or GRU."""
    found = {}
    for layer in wrapping.all_layers(model):
        # A functional model of Keras 3 also has operations such as `keras.ops.exp`.
        for one in (layer, *getattr(layer, "operations", ())):
            found[id(one)] = one
    rnn = keras.layers.RNN
    for layer in list(found.values()):
        # These cells run once for each time step. A cell that the program passes to `RNN`
        # is a layer of the program.
        if isinstance(layer, rnn) and type(layer) is not rnn:
            found.pop(id(layer.cell), None)
    return list(found.values())


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
    """Return the `Values` of tensors or variables together; ignores integers."""
    arrays = [tensor.numpy() for tensor in tensors if tensor.dtype.is_floating]
    return statistics.values_of(*arrays)
