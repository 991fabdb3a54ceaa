"""The model variables into which the values of a file are restored."""

import collections
import contextlib
import re

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.optimizer_targets import Target, name_of
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.frameworks import layers as layers_lib
from tf_lso.frameworks import variables as variables_lib

# Keras 3 renamed this weight of DepthwiseConv1D and DepthwiseConv2D.
_TODAY = {"depthwise_kernel": "kernel"}

# .keras files of TensorFlow 2.12 store the layers of a model under this name.
_LAYERS_OF_2_12 = "_layer_checkpoint_dependencies"

_BETWEEN_WORDS = r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])"


class ModelTargets:
    """The variables of a built model, which can be found by path and by name."""

    def __init__(self, model):
        # Keras 2 raises an error for the weights of a model that is not built.
        variables = list(model.weights) if getattr(model, "built", True) else []
        if not variables:
            raise CheckpointError(
                f"'model' ({getattr(model, 'name', model)}) has no variables yet. Build "
                "it first: give it an Input, call it on a batch, or call model.build()."
            )
        self.targets = [Target(name_of(v), v) for v in variables]
        self._by_variable = {id(t.variable): t for t in self.targets}
        # `Variable.trainable` of Keras 2 does not say whether the layer is frozen.
        trainable = {id(variable) for variable in model.trainable_variables}
        self.trainable = [t for t in self.targets if id(t.variable) in trainable]
        self._model, self._found = model, {}

    def trained_layers(self):
        """Return `layouts.trained_layers` of the model's config, or [] without a config."""
        with contextlib.suppress(Exception):  # a user's own `get_config`
            return layouts.trained_layers({"config": self._model.get_config()})
        return []

    def at(self, path):
        """Return the `Target` to which one of `Entry.paths` leads, or None."""
        # Items of a dict are named by their classes in .keras files, by their keys elsewhere.
        is_keras_file = any(step.startswith(f"{layouts.VARS_STEP}:") for step in path)
        return self._by_variable.get(id(self._find(path, is_keras_file)))

    def named(self, name):
        """Return the `Target` that is called `name`, or None.

        If no variable has this full name, return the only one whose name ends with `name`.
        """
        whole = [t for t in self.targets if t.name == name]
        found = whole or [t for t in self.targets if t.name.endswith(f"/{name}")]
        return found[0] if len(found) == 1 else None

    def _find(self, path, is_keras_file):
        if not path:
            return self._model
        key = path, is_keras_file
        if key not in self._found:
            parent = self._find(path[:-1], is_keras_file)
            if parent is not None:
                parent = _child(parent, path[-1], is_keras_file)
            self._found[key] = parent
        return self._found[key]


def _child(parent, step, is_keras_file):
    """Return the object that one step of a path reaches from `parent`, or None."""
    if step == _LAYERS_OF_2_12:
        return _layers_of_2_12(parent)
    for prefix, listed in _LISTS.items():
        if step.startswith(prefix):
            return _by_number(listed(parent), prefix).get(step)
    if isinstance(parent, (list, tuple)):
        parent = _by_number(parent) | _by_class(parent)
    if isinstance(parent, dict):
        by_class = _by_class(parent.values()) if is_keras_file else {}
        return by_class.get(step, parent.get(step))
    own = layers_lib.own_variables(parent)
    for name in (step, _TODAY.get(step)):
        named = [v for v in own if layouts.last(variables_lib.name_of(v)) == name]
        if len(named) == 1:
            return named[0]
    return _attribute(parent, _TODAY.get(step, step))


def _by_number(listed, prefix=""):
    return {f"{prefix}{number}": item for number, item in enumerate(listed)}


def _by_class(layers):
    """Return {name in .keras files: layer}. Two Dense layers are `dense` and `dense_1`."""
    found, counts = {}, collections.Counter()
    for layer in layers:
        words = re.sub(_BETWEEN_WORDS, "_", type(layer).__name__)
        name = re.sub(r"\W", "", words).lower()
        found[f"{name}_{counts[name]}" if counts[name] else name] = layer
        counts[name] += 1
    return found


def _layers_of_2_12(model):
    """Return a list in which the index of a layer is its number in TensorFlow 2.12.

    In .keras files of this version, a layer with weights has two numbers. Its weights are
    stored under the first one.
    """
    return [part for part in _layers(model) for _ in range(2 if part.weights else 1)]


def _layers(model):
    layers = getattr(model, "layers", None)
    return layers if isinstance(layers, list) else []


def _attribute(parent, name):
    for spelling in (name, f"_{name}"):
        with contextlib.suppress(Exception):
            return getattr(parent, spelling)
    return None


def _weights(layer):
    """Return a layer's weights in the order of .h5 files of Keras 2.

    If the layer has weights of its own, those of its inner layers are omitted.
    """
    inside = {id(w) for part in _layers(layer) for w in part.weights}
    alone = [w for w in layer.weights if id(w) not in inside] if inside else []
    return alone or [*layer.trainable_weights, *layer.non_trainable_weights]


# Maps the prefix of a step to a function. For the object from which the step leads, the
# function returns the list in which the number of the step is an index.
_LISTS = {
    layouts.LAYER_STEP: lambda model: [part for part in _layers(model) if part.weights],
    layouts.WEIGHT_STEP: _weights,
    f"{layouts.VARS_STEP}:": layers_lib.own_variables,
}
