"""Reads the arrays of HDF5 files, also of those in .keras files."""

import contextlib
import json
import zipfile

import h5py
import numpy as np

from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.checkpoints.source import Entry

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"


@contextlib.contextmanager
def opened(path):
    """Return a context with the `Reader` of an .h5 or .keras file."""
    config, file = None, path
    with contextlib.ExitStack() as stack:
        if zipfile.is_zipfile(path):
            with refusing(f"{path}: no .keras file that can be read"):
                archive = stack.enter_context(zipfile.ZipFile(path))
                config = json.loads(archive.read(_CONFIG))
                file = archive.open(_WEIGHTS)
        with refusing(f"{path}: no .keras and no HDF5 file that can be read"):
            opened_file = stack.enter_context(h5py.File(file, "r"))
        yield Reader(path, opened_file, config)


class Reader:
    """The datasets of an open file; links to other files are refused."""

    def __init__(self, path, file, config):
        self.path = path
        self.file = file
        self.config = config  # of the model in a .keras file, None in others

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

    def _dataset(self, key):
        """Return the dataset at `key`, or raise: its values must be in this file."""
        found = self._reached(self.file, key, h5py.Dataset)
        if found.external or found.is_virtual:
            raise CheckpointError(
                f"{self.path}: the values of {key} are in another file, which is not "
                "opened."
            )
        return found

    def entry(self, key, name="", *paths):
        """Return the `Entry` of a key, for a variable with a name and paths."""
        dataset = self._dataset(key)
        return Entry(key, name, tuple(dataset.shape), dataset.dtype.name, paths)

    def read(self, entry):
        """Return the value of an `Entry`, a NumPy array."""
        what = f"{self.path}: the key {entry.key} cannot be read, the file is damaged"
        with refusing(what):
            return np.asarray(self._dataset(entry.key)[()])

    def texts(self, group, name):
        """Return an attribute of a group as a list of str, also if it is one text.

        Keras stores lists of more than 64 kB in parts: name0, name1, and so on.
        """
        with refusing(f"{self.path}: the attribute {name} of {group.name} is damaged"):
            parts = [group.attrs[name]] if name in group.attrs else []
            while f"{name}{len(parts)}" in group.attrs:
                parts.append(group.attrs[f"{name}{len(parts)}"])
        if not parts:
            raise CheckpointError(
                f"{self.path}: {group.name} has no attribute {name}, so this is no file "
                "of a Keras 2 model."
            )
        values = [value for part in parts for value in np.ravel(part)]
        return [v.decode() if isinstance(v, bytes) else str(v) for v in values]

    def keys(self):
        """Return the keys of all datasets, a list."""
        found = {}
        self.file.visititems(found.__setitem__)
        return [key for key, item in found.items() if isinstance(item, h5py.Dataset)]
