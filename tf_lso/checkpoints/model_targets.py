"""The variables of a model that a file is restored into, and their paths."""

import collections
import dataclasses
import re
from typing import Any

import tensorflow as tf

from tf_lso import keras_versions as kerases
from tf_lso import variables as variables_lib
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.source import LAYER_STEP, VARS_STEP, WEIGHT_STEP

# The attribute with the layers in .keras files of TensorFlow 2.12.
_ALIASES = {"_layer_checkpoint_dependencies": "layers"}

# Weights that Keras 3 has renamed, in DepthwiseConv1D and DepthwiseConv2D.
_RENAMED = {"depthwise_kernel": "kernel"}

_VARIABLE = (
    tf.Variable,
    tf.distribute.DistributedValues,
    *([kerases.variable_of_keras3()] if kerases.has_keras3() else []),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A variable to restore a value of the file into."""

    name: str  # in messages
    variable: Any

    @property
    def shape(self):
        """Its shape, a tuple of int."""
        return tuple(self.variable.shape)

    @property
    def dtype(self):
        """The name of its dtype, a str."""
        return tf.as_dtype(self.variable.dtype).name


def problem(entry, target):
    """Return why an `Entry` does not fit a `Target`, None if it does."""
    if entry.shape != target.shape:
        return f"shape {entry.shape}, not {target.shape}"
    dtypes = {entry.dtype, target.dtype}
    if len(dtypes) > 1 and dtypes != {"int32", "int64"}:
        return f"dtype {entry.dtype}, not {target.dtype}"
    return None


def is_variable(value):
    """Whether `value` is a variable of TensorFlow or of Keras 3."""
    return isinstance(value, _VARIABLE)


class ModelTargets:
    """The variables of a built model, by their paths and by their names."""

    def __init__(self, model):
        self.model = model
        # A model of Keras 2 that is not built raises an error for its weights.
        variables = list(model.weights) if getattr(model, "built", True) else []
        if not variables:
            raise CheckpointError(
                f"'model' ({getattr(model, 'name', model)}) has no variables yet. Build "
                "it before: give it an Input, call it on a batch, or call model.build()."
            )
        self.targets = [Target(_name(v), v) for v in variables]
        self._by_variable = {id(t.variable): t for t in self.targets}
        self._objects = {(): model}

    def of(self, variable):
        """Return the `Target` of a variable, None if it is not the model's."""
        return self._by_variable.get(id(variable))

    def at(self, path):
        """Return the `Target` at a path of a file, None if there is none."""
        owner = self._object(tuple(path[:-1]))
        if owner is None:
            return None
        return self.of(_own_variable(owner, path[-1]))

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


def _name(variable):
    return variables_lib.name_of(variable).split(":")[0]


def _child(parent, step):
    """Return the object that a step of a path leads to, or None."""
    if step.startswith(LAYER_STEP):
        number = step.removeprefix(LAYER_STEP)
        layers = [layer for layer in _layers(parent) if layer.weights]
        known = number.isdigit() and int(number) < len(layers)
        return layers[int(number)] if known else None
    if isinstance(parent, dict):
        return parent.get(step)
    if isinstance(parent, (list, tuple)):
        if not step.isdigit():
            return _by_class(parent).get(step)
        return parent[int(step)] if int(step) < len(parent) else None
    return _attribute(parent, _ALIASES.get(step, step))


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


def _own_variable(owner, step):
    """Return the variable that a step names in a layer, a list or a dict, or None."""
    if step.startswith(WEIGHT_STEP):
        weights = weights_of(owner)
        number = int(step.removeprefix(WEIGHT_STEP))
        return weights[number] if number < len(weights) else None
    if step.startswith(f"{VARS_STEP}:"):
        own, number = _made_by(owner), int(step.split(":")[1])
        return own[number] if number < len(own) else None
    if not isinstance(owner, (dict, list, tuple)):
        for name in (step, _RENAMED.get(step)):
            own = [v for v in _made_by(owner) if _name(v).split("/")[-1] == name]
            if len(own) == 1:
                return own[0]
    found = _child(owner, step)
    return found if is_variable(found) else None


def _made_by(layer):
    """Return the variables that a layer itself made, a list."""
    of_keras_3 = ("_trainable_variables", "_non_trainable_variables")
    of_keras_2 = ("_trainable_weights", "_non_trainable_weights")
    held = [_attribute(layer, name) or [] for name in (*of_keras_3, *of_keras_2)]
    return [one for variables in held for one in variables if is_variable(one)]


def weights_of(layer):
    """Return the weights of a layer in the order of .h5 files of Keras 2, a list.

    For a model these are the weights that it made itself.
    """
    if _layers(layer) and layer.weights:
        inside = {id(w) for part in _layers(layer) for w in part.weights}
        alone = [w for w in layer.weights if id(w) not in inside]
        if alone:
            return alone
    return [*layer.trainable_weights, *layer.non_trainable_weights]
