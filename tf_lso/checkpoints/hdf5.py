"""Reads .h5 files of Keras 2: whole models, and weights alone."""

import contextlib
import json

import h5py
import numpy as np

from tf_lso.checkpoints import layouts, names
from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.checkpoints.source import Entry, ModelVariable, OptimizerState, Slot, Source

# Step of a path to a weight of a layer: its number in the order of Keras follows.
WEIGHT = "#"

# Step of a path to a layer, as in checkpoints: its number among layers with weights follows.
LAYER = "layer_with_weights-"

# The group for what `keras_patches.loading_keras2` adds.
OWN_GROUP = "tf_lso_loss_scale"

# The group for weights that the model itself has (since TensorFlow 2.6).
_OF_THE_MODEL = "top_level_model_weights"


def opened(path, file=None):
    """Return an open `h5py.File` of a path, or of the file object `file`."""
    with refusing(f"{path}: no HDF5 file that can be read"):
        return h5py.File(path if file is None else file, "r")


class Reader:
    """The datasets of an open file; links to other files are refused."""

    def __init__(self, path, file):
        self.path = path
        self.file = file

    def _reached(self, parent, key, kind):
        """Return what a key leads to below `parent`, of the class `kind`."""
        what, name = ("group", "group") if kind is h5py.Group else ("key", "array")
        for part in key.split("/"):
            with refusing(f"{self.path}: the {what} {key} is missing or damaged"):
                link = parent.get(part, getlink=True)
                parent = parent[part]
            if not isinstance(link, h5py.HardLink):
                raise CheckpointError(
                    f"{self.path}: the {what} {key} is a link ({type(link).__name__}), "
                    "which Keras never writes and which is not followed."
                )
        if not isinstance(parent, kind):
            raise CheckpointError(f"{self.path}: the {what} {key} is no {name}.")
        return parent

    def group(self, parent, name):
        """Return the group `name` below `parent`."""
        return self._reached(parent, name, h5py.Group)

    def dataset(self, key):
        """Return the dataset at `key`, or raise: its values must be in this file."""
        found = self._reached(self.file, key, h5py.Dataset)
        if found.external or found.is_virtual:
            raise CheckpointError(
                f"{self.path}: the values of {key} are in another file, which is not "
                "opened."
            )
        return found

    def entry(self, key, name):
        """Return the `Entry` of a key, for a variable called `name`."""
        dataset = self.dataset(key)
        return Entry(key, name, tuple(dataset.shape), dataset.dtype.name)

    def read(self, entry):
        """Return the value of an `Entry`, a NumPy array."""
        what = f"{self.path}: the key {entry.key} cannot be read, the file is damaged"
        with refusing(what):
            return np.asarray(self.dataset(entry.key)[()])

    def attribute(self, group, name):
        """Return an attribute of a group, None if there is none.

        Keras stores lists of more than 64 kB in parts: name0, name1, and so on.
        """
        with refusing(f"{self.path}: the attribute {name} of {group.name} is damaged"):
            if name in group.attrs:
                return group.attrs[name]
            parts = []
            while f"{name}{len(parts)}" in group.attrs:
                parts.append(group.attrs[f"{name}{len(parts)}"])
            return np.concatenate(parts) if parts else None

    def texts(self, group, name):
        """Return a list attribute as a list of str."""
        values = self.attribute(group, name)
        if values is None:
            raise CheckpointError(
                f"{self.path}: {group.name} has no attribute {name}, so this is no file "
                "of a Keras 2 model."
            )
        return [_text(value) for value in np.ravel(values)]

    def keys(self):
        """Return the keys of all datasets, a list."""
        found = {}
        self.file.visititems(found.__setitem__)
        return [key for key, item in found.items() if isinstance(item, h5py.Dataset)]


@contextlib.contextmanager
def source(path):
    """Return a context with the `Source` of an .h5 file of Keras 2."""
    with opened(path) as file:
        with refusing(f"{path}: the file is damaged"):
            found = _source(Reader(path, file))
        yield found


def _source(reader):
    whole = "model_weights" in reader.file
    root = reader.group(reader.file, "model_weights") if whole else reader.file
    variables = _variables(reader, root)
    state = None
    if "optimizer_weights" in reader.file:
        group = reader.group(reader.file, "optimizer_weights")
        state = _optimizer(reader, group, variables, *class_of(_training(reader)))
        if OWN_GROUP in reader.file:
            _read_own_group(reader, state)
    return Source(
        path=reader.path,
        layout="h5",
        variables=variables,
        optimizer=state,
        keys=reader.keys(),
        read=reader.read,
    )


def _variables(reader, root):
    layers = reader.texts(root, "layer_names")
    variables, number = [], 0
    for layer in layers:
        group = reader.group(root, layer)
        keys = _weights(reader, group)
        for place, (key, name) in enumerate(keys):
            if "/" not in name:  # in files of Keras 3.0
                name = f"{layer}/{name}"
            path = (f"{LAYER}{number}", f"{WEIGHT}{place}")
            variables.append(ModelVariable(reader.entry(key, name), (path,)))
        number += bool(keys)
    if _OF_THE_MODEL in root:
        group = reader.group(root, _OF_THE_MODEL)
        for place, (key, name) in enumerate(_weights(reader, group)):
            path = (f"{WEIGHT}{place}",)
            variables.append(ModelVariable(reader.entry(key, name), (path,)))
    return variables


def _weights(reader, group):
    """Return the (key, name) pairs of the weights that a group lists."""
    texts = reader.texts(group, "weight_names")
    prefix = group.name.strip("/")
    return [
        (f"{prefix}/{text}" if prefix else text, names.plain(text)) for text in texts
    ]


def _optimizer(reader, group, variables, class_name, config):
    state = OptimizerState(layouts.family_of_config(config), class_name, config)
    for number, (key, name) in enumerate(_weights(reader, group)):
        entry = reader.entry(key, name)
        last = name.split("/")[-1]
        # A wrapper of Keras 3 has a counter and a rate that mean nothing, before its own.
        if number == 0 or last == "iteration":
            state.iterations = entry
        elif last == "learning_rate" and not entry.shape:
            state.hyperparameters[last] = entry
        elif last in ("step_counter", "dynamic_scale") and not entry.shape:
            setattr(state, "count" if last == "step_counter" else "scale", entry)
        else:
            _add(state, entry, last, variables)
    if state.hyperparameters:  # Keras 2 does not save it
        state.family = "keras3"
    return state


def _add(state, entry, last, variables):
    slot = names.slot_of(entry.name, state.class_name)
    state.listed.append(entry)
    if last in layouts.SCALARS:
        state.scalars[layouts.SCALARS[last]] = entry
    elif slot is not None:
        slots = state.slots.setdefault(slot, [])
        owner = names.owner(entry.name, variables, slot)
        slots.append(Slot(entry, owner, len(slots)))


def _read_own_group(reader, state):
    """Read what tf_lso adds to files of Keras 2: of Nadam one more, the scale, the count."""
    group = reader.group(reader.file, OWN_GROUP)
    entries = [reader.entry(f"{OWN_GROUP}/{n}", "") for n in range(len(group))]
    if entries and entries[-1].dtype.startswith("int"):
        *entries, state.scale, state.count = entries
    for entry in entries:
        state.scalars["momentum_cache"] = entry


def class_of(config):
    """Return the class name and config of the optimizer in a compile config, or None, {}.

    For a LossScaleOptimizer they are those of the inner optimizer.
    """
    name, inside, config = None, {}, config or {}
    below = config.get("optimizer_config", config.get("optimizer"))
    while isinstance(below, dict):
        inside = below.get("config")
        if not isinstance(inside, dict):
            return None, {}
        name = below.get("class_name")
        below = inside.get("inner_optimizer", inside.get("optimizer"))
    return (name.split(">")[-1], inside) if isinstance(name, str) else (None, {})


def _training(reader):
    """Return the compile config of a file as a dict, None if it has none."""
    text = reader.attribute(reader.file, "training_config")
    if text is None:
        return None
    with refusing(f"{reader.path}: the attribute training_config is damaged"):
        return dict(json.loads(_text(text)))


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
