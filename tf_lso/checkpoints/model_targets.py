"""The variables of a model that a file is restored into, and their paths."""

import collections
import dataclasses
import re
from typing import Any

import tensorflow as tf

from tf_lso import variables as variables_lib
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.source import LAYER_STEP, VARS_STEP, WEIGHT_STEP

# The attribute with the layers in .keras files of TensorFlow 2.12.
_ALIASES = {"_layer_checkpoint_dependencies": "layers"}

# Weights that Keras 3 has renamed, in DepthwiseConv1D and DepthwiseConv2D.
_RENAMED = {"depthwise_kernel": "kernel"}

# Attributes with the variables that a layer itself made: of Keras 3, and of Keras 2.
_OWN = (
    *("_trainable_variables", "_non_trainable_variables"),
    *("_trainable_weights", "_non_trainable_weights"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A variable to restore a value of the file into."""

    name: str  # in messages
    variable: Any
    # As in `source.Entry`, of a variable of the optimizer. `of` is a `Target`.
    slot: str | None = None
    of: Any = None

    @property
    def shape(self):
        """Its shape, a tuple of int."""
        return tuple(self.variable.shape)

    @property
    def dtype(self):
        """The name of its dtype, a str."""
        return tf.as_dtype(self.variable.dtype).name

    def problem(self, entry):
        """Return why an `Entry` does not fit, None if it does."""
        if entry.shape != self.shape:
            return f"shape {entry.shape}, not {self.shape}"
        dtypes = {entry.dtype, self.dtype}
        if len(dtypes) > 1 and dtypes != {"int32", "int64"}:
            return f"dtype {entry.dtype}, not {self.dtype}"
        return None


def is_variable(value):
    """Whether `value` is a variable of TensorFlow or of Keras 3."""
    return callable(getattr(value, "assign", None))


def name_of(variable):
    """Return the name of a variable without the number that graphs added."""
    return variables_lib.name_of(variable).split(":")[0]


class ModelTargets:
    """The variables of a built model, by their paths and by their names."""

    def __init__(self, model):
        # A model of Keras 2 that is not built raises an error for its weights.
        variables = list(model.weights) if getattr(model, "built", True) else []
        if not variables:
            raise CheckpointError(
                f"'model' ({getattr(model, 'name', model)}) has no variables yet. Build "
                "it before: give it an Input, call it on a batch, or call model.build()."
            )
        self.targets = [Target(name_of(v), v) for v in variables]
        self._by_variable = {id(t.variable): t for t in self.targets}
        self._objects = {(): model}

    def at(self, path):
        """Return the `Target` at a path of a file, None if there is none."""
        owner = self._object(path[:-1]) if path else None
        found = None if owner is None else _variable(owner, path[-1])
        return self._by_variable.get(id(found))

    def named(self, name):
        """Return the `Target` of a name: whole, or its last part if that is unique."""
        whole = [t for t in self.targets if t.name == name]
        found = whole or [t for t in self.targets if t.name.endswith(f"/{name}")]
        return found[0] if len(found) == 1 else None

    def _object(self, path):
        if path not in self._objects:
            parent = self._object(path[:-1])
            self._objects[path] = None if parent is None else _child(parent, path[-1])
        return self._objects[path]


def _child(parent, step):
    """Return the object that a step of a path leads to, or None."""
    if step.startswith(LAYER_STEP):
        layers = [layer for layer in _layers(parent) if layer.weights]
        return _element(layers, step.removeprefix(LAYER_STEP))
    if isinstance(parent, dict):
        return parent.get(step)
    if isinstance(parent, (list, tuple)):
        return _element(parent, step) if step.isdigit() else _by_class(parent).get(step)
    return _attribute(parent, _ALIASES.get(step, step))


def _element(listed, number):
    """Return the element of a list with a number that is a text, or None."""
    known = number.isdigit() and int(number) < len(listed)
    return listed[int(number)] if known else None


def _by_class(layers):
    """Return {name in .keras files: layer} for a list of layers: dense, dense_1, ..."""
    found, counts = {}, collections.Counter()
    for layer in layers:
        name = _snake_case(type(layer).__name__)
        found[f"{name}_{counts[name]}" if counts[name] else name] = layer
        counts[name] += 1
    return found


def _snake_case(name):
    words = re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"\W", "", words).lower()


def _layers(model):
    layers = getattr(model, "layers", None)
    return layers if isinstance(layers, list) else []


def _attribute(parent, name):
    """Return an attribute, which may have an underscore before it today, or None."""
    for spelling in (name, f"_{name}"):
        try:
            return getattr(parent, spelling)
        except Exception:
            continue
    return None


def _variable(owner, step):
    """Return the variable that a step names in a layer, a list or a dict, or None."""
    if step.startswith(WEIGHT_STEP):
        return _element(_weights(owner), step.removeprefix(WEIGHT_STEP))
    if step.startswith(f"{VARS_STEP}:"):
        return _element(_own_variables(owner), step.split(":")[1])
    if not isinstance(owner, (dict, list, tuple)):
        own = _own_variables(owner)
        for name in (step, _RENAMED.get(step)):
            named = [v for v in own if name_of(v).split("/")[-1] == name]
            if len(named) == 1:
                return named[0]
    return _child(owner, step)


def _own_variables(layer):
    """Return the variables that a layer itself made, a list."""
    lists = [_attribute(layer, name) or [] for name in _OWN]
    return [one for variables in lists for one in variables if is_variable(one)]


def _weights(layer):
    """Return the weights of a layer in the order of .h5 files of Keras 2, a list.

    For a model these are the weights that it made itself.
    """
    if _layers(layer) and layer.weights:
        inside = {id(w) for part in _layers(layer) for w in part.weights}
        alone = [w for w in layer.weights if id(w) not in inside]
        if alone:
            return alone
    return [*layer.trainable_weights, *layer.non_trainable_weights]
