"""Record the calls of a model's layers in order, with the inputs and outputs of each call."""

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
    """One call of a layer in a forward pass.

    In a functional model of Keras 3, operations such as `keras.ops.exp` count as layers.
    """

    layer: Any
    # The names of the outer layers and of the layer itself, such as "outer/inner". The name of
    # the model is omitted, except in the call of the model itself.
    path: str
    # None for the call of the model.
    parent: "Call | None"
    # Only floating-point tensors. Keras has already cast the inputs to the layer's dtype.
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    input_values: Any = None
    output_values: Any = None

    def __str__(self):
        path = "" if self.path == self.layer.name else f", {self.path}"
        return f"layer '{self.layer.name}'{path}"

    @property
    def is_container(self):
        """Whether Keras's own code calls the inner layers, as in Functional and Sequential."""
        module = type(self.layer).call.__module__
        of_keras = module.startswith(("keras.", "tf_keras."))
        return of_keras and hasattr(self.layer, "compile")

    def weight_values(self):
        return [
            (variables_lib.name_of(weight), statistics.summarize([raw]))
            for weight in getattr(self.layer, "weights", ())
            # Skip the lookup tables of tf_keras, which are weights but not variables.
            if isinstance(raw := variables_lib.raw(weight), tf.Variable)
        ]


@contextlib.contextmanager
def observed(model, keras):
    """Yield a list that records the calls of a model's layers.

    A call appends (`Call`, True) when it begins, and (`Call`, False) when it ends. Keras looks
    up `call` on the layer object, so setting an attribute of the object is enough.
    """
    moments, open_calls = [], [None]

    def observing(layer, original):
        @functools.wraps(original)
        def call(*args, **kwargs):
            parent = open_calls[-1]
            above = f"{parent.path}/" if parent and parent.parent else ""
            seen = Call(layer, above + layer.name, parent)
            # Without copies, the tape would compute only one gradient for a tensor that several
            # layers receive.
            args, kwargs = _copied((args, kwargs), seen.inputs)
            seen.input_values = statistics.summarize(seen.inputs)
            moments.append((seen, True))
            open_calls.append(seen)
            outputs = _copied(original(*args, **kwargs), seen.outputs)
            seen.output_values = statistics.summarize(seen.outputs)
            moments.append((open_calls.pop(), False))
            return outputs

        return call

    with contextlib.ExitStack() as undo:
        for layer in _observable(model, keras):
            # Some layers, such as Keras 2's layer for `tf.exp`, already have an attribute
            # `call` of their own. ExitStack restores it after the `pop` below.
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
        found.update((id(item), item) for item in getattr(layer, "operations", ()))
        if isinstance(layer, keras.layers.RNN):
            # The layer calls its cell again for each time step.
            found.pop(id(layer.cell), None)
    return list(found.values())


def _copied(structure, copies):
    """Copy each floating-point tensor of a nested structure, and append it to `copies`."""

    def copied(value):
        if not isinstance(value, tf.Tensor) or not value.dtype.is_floating:
            return value
        copy = tf.identity(value)
        # Keras stores a tensor's mask as an attribute, which `tf.identity` does not copy.
        vars(copy).update(vars(value))
        copies.append(copy)
        return copy

    return tf.nest.map_structure(copied, structure)
