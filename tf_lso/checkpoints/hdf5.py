"""Reads .h5 files of Keras 2: whole models, and weights alone."""

import contextlib
import json
import os
import subprocess
import sys
import zipfile
import zlib

import h5py
import numpy as np

from tf_lso.checkpoints import layouts, names
from tf_lso.checkpoints import probe as probe_lib
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.source import Entry, ModelVariable, OptimizerState, Slot, Source

# What reading damaged files may raise, also in archives.
UNREADABLE = (
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)

# Time limit to read the names in a file, and the addition for each GB.
SECONDS, SECONDS_A_GB = 20, 20

# Step of a path to a weight of a layer: its number in the order of Keras follows.
WEIGHT = "#"

# Step of a path to a layer, as in checkpoints: its number among layers with weights follows.
LAYER = "layer_with_weights-"

# The group for weights that the model itself has (since TensorFlow 2.6).
_OF_THE_MODEL = "top_level_model_weights"


def probe(path):
    """Raise CheckpointError if the HDF5 library hangs or crashes on a file.

    With a damaged file it may loop forever or end the process, so another process tries.
    """
    if not sys.executable:
        return
    gigabytes = os.path.getsize(path) / 2**30
    command = [sys.executable, "-I", probe_lib.__file__, str(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS + SECONDS_A_GB * gigabytes,
            check=False,
        )
    except subprocess.TimeoutExpired:
        ending = "it reads forever"
    else:
        if done.returncode >= 0:
            return  # a Python error will be raised here again
        ending = f"it ended with signal {-done.returncode}"
    raise CheckpointError(
        f"{path}: the HDF5 library cannot read this file ({ending}). It is damaged."
    )


@contextlib.contextmanager
def readable(path):
    """Turn errors of a damaged file into a CheckpointError that names it."""
    try:
        yield
    except CheckpointError:
        raise
    except UNREADABLE as error:
        raise CheckpointError(f"{path}: the file is damaged ({error}).") from error


def opened(path, file=None):
    """Return an open `h5py.File`, or raise CheckpointError.

    Args:
      path: str, for messages, and to open if `file` is None.
      file: a file object to read instead.
    """
    try:
        return h5py.File(path if file is None else file, "r")
    except UNREADABLE as error:
        raise CheckpointError(
            f"{path}: no HDF5 file that can be read ({error})."
        ) from (error)


class Reader:
    """The datasets of an open file; links to other files are refused."""

    def __init__(self, path, file):
        self.path = path
        self.file = file

    def dataset(self, key):
        """Return the dataset at `key`.

        Raises:
          CheckpointError: if there is none, or its values are not in this file.
        """
        group = self.file
        for part in key.split("/"):
            try:
                link = group.get(part, getlink=True)
                group = group[part]
            except UNREADABLE as error:
                raise CheckpointError(
                    f"{self.path}: the key {key} is missing or damaged ({error})."
                ) from error
            if not isinstance(link, h5py.HardLink):
                raise CheckpointError(
                    f"{self.path}: the key {key} is a link ({type(link).__name__}), "
                    "which Keras never writes and which is not followed."
                )
        if not isinstance(group, h5py.Dataset):
            raise CheckpointError(f"{self.path}: the key {key} is no array.")
        if group.external or group.is_virtual:
            raise CheckpointError(
                f"{self.path}: the values of {key} are in another file, which is not "
                "opened."
            )
        return group

    def entry(self, key, name):
        """Return the `Entry` of a key, for a variable called `name`."""
        dataset = self.dataset(key)
        return Entry(key, name, tuple(dataset.shape), dataset.dtype.name)

    def read(self, entry):
        """Return the value of an `Entry`, a NumPy array."""
        try:
            return np.asarray(self.dataset(entry.key)[()])
        except UNREADABLE as error:
            raise CheckpointError(
                f"{self.path}: the key {entry.key} cannot be read ({error}). The file "
                "is damaged."
            ) from error

    def attribute(self, group, name):
        """Return an attribute of a group, None if there is none.

        Keras stores lists of more than 64 kB in parts: name0, name1, and so on.
        """
        try:
            if name in group.attrs:
                return group.attrs[name]
            parts = []
            while f"{name}{len(parts)}" in group.attrs:
                parts.append(group.attrs[f"{name}{len(parts)}"])
            return np.concatenate(parts) if parts else None
        except UNREADABLE as error:
            raise CheckpointError(
                f"{self.path}: the attribute {name} of {group.name} is damaged ({error})."
            ) from error

    def texts(self, group, name):
        """Return a list attribute as a list of str."""
        values = self.attribute(group, name)
        if values is None:
            raise CheckpointError(
                f"{self.path}: {group.name} has no attribute {name}, so this is no file "
                "of a Keras 2 model."
            )
        return [_text(value) for value in np.ravel(values)]

    def group(self, parent, name):
        """Return the group `name` below `parent`."""
        link = parent.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink) or not isinstance(
            parent[name], h5py.Group
        ):
            raise CheckpointError(
                f"{self.path}: the group {name} is missing or a link."
            )
        return parent[name]

    def keys(self):
        """Return the keys of all datasets, a list."""
        found = []
        self.file.visititems(
            lambda key, item: (
                found.append(key) if isinstance(item, h5py.Dataset) else None
            )
        )
        return found


def source(path):
    """Return the `Source` of an .h5 file of Keras 2."""
    file = opened(path)
    try:
        with readable(path):
            return _source(Reader(path, file))
    except BaseException:
        file.close()
        raise


def _source(reader):
    whole = "model_weights" in reader.file
    root = reader.group(reader.file, "model_weights") if whole else reader.file
    variables = _variables(reader, root)
    state = None
    config = config_of(reader, "training_config")
    if "optimizer_weights" in reader.file:
        group = reader.group(reader.file, "optimizer_weights")
        state = _optimizer(reader, group, variables, class_name(config))
    return Source(
        path=reader.path,
        layout="h5",
        variables=variables,
        optimizer=state,
        keys=reader.keys(),
        read=reader.read,
        close=reader.file.close,
        architecture=lambda: (config_of(reader, "model_config"), config),
    )


def _variables(reader, root):
    layers = reader.texts(root, "layer_names")
    variables, number = [], 0
    for layer in layers:
        group = reader.group(root, layer)
        keys = _weights(reader, group)
        for place, (key, name) in enumerate(keys):
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


def _optimizer(reader, group, variables, class_name):
    state = OptimizerState(class_name=class_name)
    for number, (key, name) in enumerate(_weights(reader, group)):
        entry = reader.entry(key, name)
        slot = names.slot_of(name, class_name)
        owner = None if slot is None else names.owner(name, variables, slot)
        last = name.split("/")[-1]
        if number == 0:
            state.iterations = entry
        elif last in layouts.SCALARS:
            state.scalars[layouts.SCALARS[last]] = entry
        elif slot is not None:
            slots = state.slots.setdefault(slot, [])
            slots.append(Slot(entry, owner, len(slots)))
        else:
            state.listed.append(entry)
    return state


def class_name(config):
    """Return the class name of the optimizer in a compile config, or None.

    For a LossScaleOptimizer it is the class of the inner optimizer.
    """
    config = config or {}
    optimizer = config.get("optimizer_config", config.get("optimizer"))
    while isinstance(optimizer, dict):
        inner = optimizer.get("config")
        if not isinstance(inner, dict):
            break
        below = inner.get("inner_optimizer", inner.get("optimizer"))
        if not isinstance(below, dict):
            name = optimizer.get("class_name")
            return name.split(">")[-1] if isinstance(name, str) else None
        optimizer = below
    return None


def config_of(reader, name):
    """Return a JSON attribute of the file as a dict, None if there is none."""
    text = reader.attribute(reader.file, name)
    if text is None:
        return None
    try:
        config = json.loads(_text(text))
    except ValueError as error:
        raise CheckpointError(
            f"{reader.path}: the attribute {name} is damaged ({error})."
        ) from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{reader.path}: the attribute {name} is no JSON object.")
    return config


def _text(value):
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"A name in an .h5 file is no text: {value!r}."
        ) from error
