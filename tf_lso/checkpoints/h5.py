"""Read .h5, .keras and .weights.h5 files of Keras 2 and Keras 3.

An .h5 file lists the layers of the model and the names of their weights. The other formats
have a group for each object. In such a group the variables have numbers instead of names.
"""

import contextlib
import dataclasses
import json
import zipfile

import h5py
import numpy as np

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.layouts import LAYER_STEP, VARS_STEP, WEIGHT_STEP
from tf_lso.checkpoints.source import (
    UNKNOWN,
    CheckpointError,
    Entry,
    OptimizerState,
    Source,
    refusing,
)
from tf_lso.frameworks import file_stores
from tf_lso.optimizers import manifest as manifest_lib

WEIGHTS = "optimizer_weights"

# The group with the weights that belong to the model itself and to none of its layers.
# TensorFlow 2.6 and later write it.
_OF_THE_MODEL = "top_level_model_weights"

# In a .keras file, variables at paths that begin with one of these are not the model's.
_NO_MODEL = (("optimizer",), ("metrics",))


@contextlib.contextmanager
def opened(path):
    """Open an HDF5 or .keras file for a `with` block, and yield a `Source`."""
    config, file = None, path
    with contextlib.ExitStack() as stack:
        with refusing(f"{path}: not a readable .keras or HDF5 file"):
            if zipfile.is_zipfile(path):
                archive = stack.enter_context(zipfile.ZipFile(path))
                config = json.loads(archive.read("config.json"))
                file = archive.open("model.weights.h5")
            file = stack.enter_context(h5py.File(file, "r"))
        with refusing(f"{path}: the file is damaged"):
            reader = Reader(path, file)
            has_lists = "layer_names" in file.attrs or "model_weights" in file
            if config is None and has_lists:
                layout, read = "h5", _in_lists(reader)
            else:
                layout, read = "keras", _in_groups(reader, config or {})
            trained = layouts.trained_layers({"config": (config or {}).get("config")})
            source = Source(path, layout, *read, reader.keys(), reader.read, trained)
        yield source


def manifest_of(file, key=WEIGHTS):
    group = file.get(key)
    text = group and file_stores.read_text(group, manifest_lib.NAME)
    return manifest_lib.from_json(text) if text else None


def weights_of(file, path):
    """Return the values of the optimizer's variables in an open .h5 file."""
    names = Reader(path, file).texts(file[WEIGHTS], "weight_names")
    return [np.array(file[WEIGHTS][name]) for name in names]


class Reader:
    """Reads an open HDF5 file, and refuses links and data that are in another file."""

    def __init__(self, path, file):
        self.path = path
        self.file = file

    def at(self, parent, key, kind=h5py.Group):
        """Return the object of the class `kind` at the path `key` below the group `parent`."""
        what = f"{self.path}: the {kind.__name__.lower()} {key}"
        for part in key.split("/"):
            with refusing(f"{what} is missing or damaged"):
                link = parent.get(part, getlink=True)
                parent = parent[part]
            if not isinstance(link, h5py.HardLink):
                raise CheckpointError(f"{what} is a link, which is not followed.")
        if not isinstance(parent, kind):
            raise CheckpointError(f"{what} is a {type(parent).__name__.lower()}.")
        if kind is h5py.Dataset and (parent.external or parent.is_virtual):
            raise CheckpointError(f"{what} is in another file, which is not opened.")
        return parent

    def entry(self, key, name="", *paths):
        dataset = self.at(self.file, key, h5py.Dataset)
        return Entry(key, name, tuple(dataset.shape), dataset.dtype.name, paths)

    def read(self, entry):
        with refusing(f"{self.path}: the key {entry.key} cannot be read"):
            return np.asarray(self.file[entry.key][()])

    def manifest(self, key):
        with refusing(f"{self.path}: the attribute {manifest_lib.NAME} is damaged"):
            return manifest_of(self.file, key)

    def texts(self, group, name):
        with refusing(f"{self.path}: the attribute {name} of {group.name} is damaged"):
            # Keras splits a list of more than 64 kB into attributes called name0, name1, ...
            parts = [group.attrs[name]] if name in group.attrs else []
            while f"{name}{len(parts)}" in group.attrs:
                parts.append(group.attrs[f"{name}{len(parts)}"])
        if not parts:
            what = f"{group.name} has no attribute {name}"
            raise CheckpointError(f"{self.path}: {what}, so Keras 2 did not save it.")
        values = [value for part in parts for value in np.ravel(part)]
        return [v.decode() if isinstance(v, bytes) else str(v) for v in values]

    def keys(self):
        """Return the paths of all datasets, such as "layers/dense/vars/0"."""
        found = {}
        self.file.visititems(found.__setitem__)
        return [key for key, item in found.items() if isinstance(item, h5py.Dataset)]


def _in_lists(reader):
    """Return a dict {key: `Entry`} of the model variables, and an `OptimizerState` or None."""
    file = reader.file
    variables = {entry.key: entry for entry in _of_layers(reader)}
    if WEIGHTS not in file:
        return variables, None
    entries = list(_weights(reader, reader.at(file, WEIGHTS)))
    # Keras 3's `LossScaleOptimizer` lists its own variables first. The first two of these, a
    # step counter and a learning rate, have no meaning (keras#20878). The variables of the
    # inner optimizer follow, and begin with the last step counter.
    counters = [n for n, e in enumerate(entries) if layouts.last(e.name) == "iteration"]
    start = max(counters, default=0)
    outer, inner = entries[2:start], entries[start:]
    if layouts.OWN_GROUP in file:
        own = range(len(reader.at(file, layouts.OWN_GROUP)))
        outer = [*inner, *(reader.entry(f"{layouts.OWN_GROUP}/{n}") for n in own)]
    config = {}
    if "training_config" in file.attrs:
        (text,) = reader.texts(file, "training_config")
        with refusing(f"{reader.path}: the attribute training_config is damaged"):
            config = dict(json.loads(text))
    manifest = reader.manifest(WEIGHTS)
    return variables, _state(config, outer, inner, variables, manifest=manifest)


def _of_layers(reader):
    root, number = reader.file, 0
    if "model_weights" in root:
        root = reader.at(root, "model_weights")
    for layer in reader.texts(root, "layer_names"):
        group = reader.at(root, layer)
        weights = list(_weights(reader, group, layer, f"{LAYER_STEP}{number}"))
        yield from weights
        number += bool(weights)
    if _OF_THE_MODEL in root:
        yield from _weights(reader, reader.at(root, _OF_THE_MODEL))


def _weights(reader, group, layer=None, *path):
    for number, text in enumerate(reader.texts(group, "weight_names")):
        name = layouts.plain(text)
        # In .h5 files of Keras 3.0 the name of a weight lacks the name of the layer
        # (keras#19375).
        if layer is not None and "/" not in name:
            name = f"{layer}/{name}"
        key = f"{group.name}/{text}".strip("/")
        yield reader.entry(key, name, (*path, f"{WEIGHT_STEP}{number}"))


def _in_groups(reader, config):
    # {path of an object: {number of one of its variables: `Entry`}}
    groups = {}
    for key in reader.keys():
        *path, number = key.split("/")
        if path[-1:] == [VARS_STEP] and number.isdigit():
            path, number = tuple(filter(None, path[:-1])), int(number)
            entry = reader.entry(key, "", (*path, f"{VARS_STEP}:{number}"))
            groups.setdefault(path, {})[number] = entry
    lists = {path: [e for _, e in sorted(g.items())] for path, g in groups.items()}
    outer = lists.pop(("optimizer",), [])
    inner = lists.pop(("optimizer", "inner_optimizer"), [])
    # TensorFlow 2.12 stores the inner optimizer under the name "_optimizer".
    inner = lists.pop(("optimizer", "_optimizer"), inner)
    model = [e for path, g in lists.items() if path[:1] not in _NO_MODEL for e in g]
    variables = {entry.key: entry for entry in model}
    if not (outer or inner):
        return variables, None
    config = config.get("compile_config") or {}
    manifest = reader.manifest(f"optimizer/{VARS_STEP}")
    return variables, _state(config, outer, inner, variables, "new", manifest)


def _state(config, outer, inner, variables, default_family=None, manifest=None):
    """Return the `OptimizerState` of the optimizer in a file.

    `outer` lists the entries of a `LossScaleOptimizer` itself, and `inner` those of its inner
    optimizer. An optimizer without a loss scale is in `outer` for .keras and .weights.h5
    files, and in `inner` for .h5 files. `default_family` is the family of an inner optimizer
    of Keras 2 whose config does not show it.
    """
    class_name, config = _class_of(config)
    families = (f for key, f in layouts.OF_CONFIGS.items() if key in config)
    state = OptimizerState(next(families, None), class_name, config)
    # The entries in `outer` depend on the program that saved the `LossScaleOptimizer`:
    # - Old versions of Keras 3: the count of finite steps and the loss scale.
    # - Newer versions of Keras 3: two meaningless scalars, the count, the loss scale, and all
    #   variables of the inner optimizer a second time.
    # - Keras 2 without tf_lso: neither a count nor a loss scale.
    # - Keras 2 with tf_lso: all variables of the inner optimizer a second time, for Nadam its
    #   product of momentums, the loss scale and the count.
    shapes = [entry.shape for entry in inner]
    own = outer[2:4] if len(outer) == len(inner) + 4 else outer
    if not shapes:
        inner = _without_scale(state, outer)
        # Only the list of a legacy optimizer that tf_lso wrapped ends with a loss scale and a
        # count.
        state.family = "legacy" if state.scale else state.family
    elif [entry.shape for entry in own] == [(), ()] and _is_count(own[0]):
        state.count, state.scale = own
        state.family = "keras3"
    if manifest is not None:
        state.family = manifest.family
    state.iterations, *rest = inner
    if rest and _is_rate(rest[0], state.family):
        # Among .h5 and .keras files, only those of Keras 3 contain the learning rate.
        state.hyperparameters["learning_rate"] = rest.pop(0)
        state.family = "keras3"
    state.made = [_labeled(entry, class_name, variables) for entry in rest]
    state.order = _order(state.made, variables)
    if manifest is not None and manifest.is_built:
        state.class_name, state.manifest = manifest.class_name, manifest
        state.made = [
            dataclasses.replace(
                entry,
                slot=layouts.SCALARS.get(slot, slot),
                of=None if number is None else UNKNOWN,
            )
            for entry, (slot, number) in zip(rest, manifest.slots)
        ]
    again, more = outer[: len(shapes)], outer[len(shapes) :]
    if shapes and state.family != "keras3" and [e.shape for e in again] in ([], shapes):
        for entry in _without_scale(state, more):
            entry = dataclasses.replace(entry, slot="momentum_cache", of=None)
            state.made.append(entry)
        state.family = state.family or default_family
    return state


def _order(entries, variables):
    """Return the keys of the model variables in the order of their slots, or [] if unknown."""
    slots = [entry for entry in entries if entry.slot is None]
    owners = [layouts.owner_in_keras3(entry.name, variables) for entry in slots]
    if any(o is UNKNOWN and e.shape for o, e in zip(owners, slots)):
        return []
    return list(dict.fromkeys(owner for owner in owners if owner is not UNKNOWN))


def _class_of(config):
    """Return the class name and the config of the inner optimizer, or (None, {})."""
    name, below = None, config.get("optimizer_config", config.get("optimizer"))
    while isinstance(below, dict):
        name, config = below.get("class_name"), below.get("config")
        if not (isinstance(name, str) and isinstance(config, dict)):
            return None, {}
        below = config.get("inner_optimizer", config.get("optimizer"))
    return (name.split(">")[-1], config) if name else (None, {})


def _without_scale(state, entries):
    """Move a loss scale and a count from the end of `entries` to `state`. Return the rest."""
    tail = entries[-2:]
    if [(e.shape, _is_count(e)) for e in tail] != [((), False), ((), True)]:
        return entries
    state.scale, state.count = tail
    return entries[:-2]


def _is_count(entry):
    return entry.dtype.startswith(("int", "uint"))


def _is_rate(entry, family):
    if entry.shape or entry.name:
        return not entry.shape and layouts.last(entry.name) == "learning_rate"
    return entry.dtype != "int64" and family in ("keras3", None)


def _labeled(entry, class_name, variables):
    slot, of = layouts.SCALARS.get(layouts.last(entry.name)), None
    if slot is None and (slot := layouts.slot_of(entry.name, class_name)):
        of = layouts.owner(entry.name, variables, slot)
    return dataclasses.replace(entry, slot=slot, of=of if slot else UNKNOWN)
