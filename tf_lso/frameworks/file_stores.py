"""Write texts into the HDF5 files of Keras, and read them."""

import numpy as np

from tf_lso.frameworks import keras_versions

# HDF5 does not store attributes of more than 64 kB (h5py#1053). So this module splits a text
# into attributes called name0, name1, ..., as Keras splits lists.
_MOST = 60_000


def group_of(store, package):
    """Return the HDF5 group of a store that Keras passes to an object, or None for a dict."""
    if not keras_versions.is_keras2(package):
        since_3_10 = keras_versions.is_at_least(package, 3, 10)
        name = "_h5_entry_group" if since_3_10 else "group"
        store = getattr(store, name, None)
    elif keras_versions.is_at_least(package, 2, 22):
        # An object gets a group to write, but a read-only view of a group to read.
        store = getattr(store, "_group", store)
    return store if hasattr(store, "attrs") else None


def write_text(group, name, text):
    for number, start in enumerate(range(0, len(text), _MOST)):
        group.attrs[f"{name}{number}"] = text[start : start + _MOST]


def read_text(group, name):
    parts = []
    while f"{name}{len(parts)}" in group.attrs:
        parts.append(np.ravel(group.attrs[f"{name}{len(parts)}"])[0])
    return "".join(p.decode() if isinstance(p, bytes) else p for p in parts) or None
