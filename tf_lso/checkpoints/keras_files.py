"""Reads what Keras 2 and Keras 3 save: .h5, .keras and .weights.h5 files.

An .h5 file lists its layers and the names of their weights. The others have a group for
each object, and the numbers of the variables in it.
"""

import dataclasses
import json

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.errors import refusing
from tf_lso.checkpoints.source import (
    LAYER_STEP,
    UNKNOWN,
    VARS_STEP,
    WEIGHT_STEP,
    OptimizerState,
    Source,
)

# The group for weights that the model itself has (since TensorFlow 2.6).
_OF_THE_MODEL = "top_level_model_weights"

_OPTIMIZER = ("optimizer",)  # the path of its group in the other files


def source(reader):
    """Return the `Source` of an open file, an `h5.Reader`."""
    is_list = "layer_names" in reader.file.attrs or "model_weights" in reader.file
    is_list = is_list and reader.config is None
    variables, optimizer = (_in_lists if is_list else _in_groups)(reader)
    return Source(
        path=reader.path,
        layout="h5" if is_list else "keras",
        variables=variables,
        optimizer=optimizer,
        keys=reader.keys(),
        read=reader.read,
    )


# --- .h5 files.


def _in_lists(reader):
    """Return the variables and the `OptimizerState` of an .h5 file."""
    file = reader.file
    root = reader.group(file, "model_weights") if "model_weights" in file else file
    variables = {entry.key: entry for entry in _of_layers(reader, root)}
    if "optimizer_weights" not in file:
        return variables, None
    entries = list(_weights(reader, reader.group(file, "optimizer_weights")))
    # A wrapper of Keras 3 has a counter and a rate that mean nothing, before its own.
    places = [n for n, e in enumerate(entries) if _last(e.name) == "iteration"]
    start = max(places, default=0)
    outer, inner = entries[2:start], entries[start:]
    if layouts.OWN_GROUP in file:
        count = len(reader.group(file, layouts.OWN_GROUP))
        own = [reader.entry(f"{layouts.OWN_GROUP}/{n}") for n in range(count)]
        outer = [*inner, *own]
    config = {}
    if "training_config" in file.attrs:
        (text,) = reader.texts(file, "training_config")
        with refusing(f"{reader.path}: the attribute training_config is damaged"):
            config = dict(json.loads(text))
    return variables, _state(config, outer, inner, variables)


def _of_layers(reader, root):
    """Yield the weights of all layers."""
    number = 0
    for layer in reader.texts(root, "layer_names"):
        group = reader.group(root, layer)
        weights = list(_weights(reader, group, layer, f"{LAYER_STEP}{number}"))
        yield from weights
        number += bool(weights)
    if _OF_THE_MODEL in root:
        yield from _weights(reader, reader.group(root, _OF_THE_MODEL))


def _weights(reader, group, layer=None, *path):
    """Yield the weights that a group lists, those of a layer at a path."""
    for place, text in enumerate(reader.texts(group, "weight_names")):
        name = layouts.plain(text)
        if layer is not None and "/" not in name:  # in files of Keras 3.0
            name = f"{layer}/{name}"
        key = f"{group.name}/{text}".strip("/")
        yield reader.entry(key, name, (*path, f"{WEIGHT_STEP}{place}"))


# --- .keras and .weights.h5 files.


def _in_groups(reader):
    """Return the variables and the `OptimizerState` of a .keras or .weights.h5 file."""
    groups = {}  # the object's path -> {number: entry}
    for key in reader.keys():
        *path, number = key.split("/")
        if path[-1:] == [VARS_STEP] and number.isdigit():
            path, number = tuple(filter(None, path[:-1])), int(number)
            entry = reader.entry(key, "", (*path, f"{VARS_STEP}:{number}"))
            groups.setdefault(path, {})[number] = entry
    lists = {path: [e for _, e in sorted(g.items())] for path, g in groups.items()}
    outer = lists.get(_OPTIMIZER, [])
    inner = lists.get((*_OPTIMIZER, "inner_optimizer"), [])
    variables = {
        entry.key: entry
        for path, entries in lists.items()
        if path[:1] not in (_OPTIMIZER, ("metrics",))
        for entry in entries
    }
    config = (reader.config or {}).get("compile_config")
    if not (outer or inner):
        return variables, None
    return variables, _state(config, outer, inner, variables, unsaid="new")


# --- Optimizers.


def _state(config, outer, inner, variables, unsaid=None):
    """Return the `OptimizerState` of lists of variables.

    Keras 3 saves the count and the scale with the wrapper. Old versions save only these
    two. Newer ones save two meaningless scalars before them, and the variables of the
    inner optimizer a second time after them. Keras 2 saves only the inner variables;
    under tf_lso it saves them with the wrapper too, and after them a variable that only
    Nadam has, the scale and the count.

    Args:
      config: the compile config, or None.
      outer: list of what the file has of the wrapper, or of an optimizer without one.
      inner: list of what the file has of the inner optimizer, or [].
      variables: dict of the model's, as in `Source`.
      unsaid: the family of Keras 2 if the config does not tell it.
    """
    class_name, config = _class_of(config)
    state = OptimizerState(layouts.family_of_config(config), class_name, config)
    shapes = [entry.shape for entry in inner]
    own = outer[2:4] if len(outer) == len(inner) + 4 else outer
    if not shapes:
        inner = _without_scale(state, outer)
        # Of those without a group of the inner optimizer only legacy ones have a scale.
        state.family = "legacy" if state.scale else state.family
    elif [entry.shape for entry in own] == [(), ()] and _is_count(own[0]):
        state.count, state.scale = own
        state.family = "keras3"
    state.iterations, *rest = inner
    if rest and _is_rate(rest[0], state.family):  # Keras 2 does not save it
        state.hyperparameters["learning_rate"] = rest.pop(0)
        state.family = "keras3"
    state.made = [_labeled(entry, class_name, variables) for entry in rest]
    as_keras2 = [entry.shape for entry in outer[: len(shapes)]] in ([], shapes)
    if shapes and as_keras2 and state.family != "keras3":
        for entry in _without_scale(state, outer[len(shapes) :]):
            state.made.append(
                dataclasses.replace(entry, slot="momentum_cache", of=None)
            )
        state.family = state.family or unsaid
    return state


def _class_of(config):
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


def _without_scale(state, entries):
    """Return the entries before the scale and the count that tf_lso puts last, if any."""
    tail = entries[-2:]
    shapes = [entry.shape for entry in tail]
    if shapes != [(), ()] or _is_count(tail[0]) or not _is_count(tail[1]):
        return entries
    state.scale, state.count = tail
    return entries[:-2]


def _is_count(entry):
    return entry.dtype.startswith(("int", "uint"))


def _is_rate(entry, family):
    """Whether the variable after the step counter is the learning rate, as in Keras 3."""
    if entry.name:
        return _last(entry.name) == "learning_rate" and not entry.shape
    is_float = not entry.shape and entry.dtype != "int64"
    return is_float and family in ("keras3", None)


def _last(name):
    return name.split("/")[-1]


def _labeled(entry, class_name, variables):
    """Return the entry with what its name says of the slot and its variable."""
    slot, of = layouts.SCALARS.get(_last(entry.name)), None
    if slot is None:
        slot, of = layouts.slot_of(entry.name, class_name), UNKNOWN
    if slot is not None and of is UNKNOWN:
        of = layouts.owner(entry.name, variables, slot)
    return dataclasses.replace(entry, slot=slot, of=of)
