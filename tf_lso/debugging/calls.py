"""Observe the calls of a model's layers in order, with their inputs and outputs.

Keras looks up `call` on the layer itself. So `observed` sets an attribute `call` on each layer
and removes this attribute afterwards. `observed` changes no class of Keras.
"""

import contextlib
import dataclasses
import functools
from typing import Any

import tensorflow as tf

from tf_lso.debugging import statistics
from tf_lso.frameworks import layers as layers_lib
from tf_lso.frameworks import variables as variables_lib


@dataclasses.dataclass(eq=False)
class Call:
    """A call of a layer, or of an operation in a functional model of Keras 3."""

    layer: Any
    # The names of the outer layers, followed by the name of the layer itself. The path does not
    # contain the name of the model.
    path: str
    parent: "Call | None"  # the surrounding call, or None for the call of the model
    # The floating-point tensors. Keras has already cast the inputs to the layer's dtype.
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    input_values: Any = None  # `Values` of all inputs
    output_values: Any = None  # `Values` of all outputs

    def __str__(self):
        """Return the name of the layer for messages."""
        path = "" if self.path == self.layer.name else f", {self.path}"
        return f"layer '{self.layer.name}'{path}"

    @property
    def is_container(self):
        """Whether Keras's own code calls the inner layers, as in Functional and Sequential."""
        module = type(self.layer).call.__module__
        of_keras = module.startswith(("keras.", "tf_keras."))
        return of_keras and hasattr(self.layer, "compile")

    def weight_values(self):
        """Return the list of (name, `Values`) of the layer's variables."""
        return [
            (variables_lib.name_of(weight), statistics.values_of([raw]))
            for weight in getattr(self.layer, "weights", ())
            # In tf_keras a lookup table is a weight but not a variable.
            if isinstance(raw := variables_lib.raw(weight), tf.Variable)
        ]


@contextlib.contextmanager
def observed(model, keras):
    """Observe the calls of the layers of `model` while the context is open.

    Yields:
      A list. When a call begins, (`Call`, True) is appended. When a call ends, (`Call`,
      False) is appended.
    """
    moments, open_calls = [], [None]

    def observing(layer, original):
        @functools.wraps(original)
        def call(*args, **kwargs):
            parent = open_calls[-1]
            # The model itself has no parent, and paths do not contain the model's name.
            above = f"{parent.path}/" if parent and parent.parent else ""
            seen = Call(layer, above + layer.name, parent)
            # Copy tensors, so that each use of a tensor has its own gradient.
            args, kwargs = _copied((args, kwargs), seen.inputs)
            seen.input_values = statistics.values_of(seen.inputs)
            moments.append((seen, True))
            open_calls.append(seen)
            outputs = _copied(original(*args, **kwargs), seen.outputs)
            seen.output_values = statistics.values_of(seen.outputs)
            moments.append((open_calls.pop(), False))
            return outputs

        return call

    with contextlib.ExitStack() as undo:
        for layer in _observable(model, keras):
            # Some layers, such as Keras 2's layer for `tf.exp`, already have an attribute
            # `call`. Callbacks run from last to first. So the attribute that is set here
            # is removed first, and then the layer's own attribute is restored.
            own = {name: call for name, call in vars(layer).items() if name == "call"}
            undo.callback(vars(layer).update, own)
            vars(layer)["call"] = observing(layer, layer.call)
            undo.callback(vars(layer).pop, "call")
        yield moments


def _observable(model, keras):
    """Return the layers and operations of a model, except the cells of recurrent layers."""
    layers = list(layers_lib.all_layers(model))
    found = {id(layer): layer for layer in layers}
    for layer in layers:
        # A functional model of Keras 3 also has operations such as `keras.ops.exp`.
        found.update((id(item), item) for item in getattr(layer, "operations", ()))
        if isinstance(layer, keras.layers.RNN):
            found.pop(id(layer.cell), None)  # the cell runs once for each time step
    return list(found.values())


def _copied(structure, copies):
    """Return a structure with copies of its floating-point tensors.

    The copies are also appended to the list `copies`.
    """

    def copied(value):
        if not isinstance(value, tf.Tensor) or not value.dtype.is_floating:
            return value
        copy = tf.identity(value)
        vars(copy).update(vars(value))  # Keras's mask is an attribute of the tensor
        copies.append(copy)
        return copy

    return tf.nest.map_structure(copied, structure)
