"""Reads .h5 files of Keras 2 and Keras 3: whole models, and weights alone."""

import json

from tf_lso.checkpoints import hdf5, layouts, listed, names
from tf_lso.checkpoints.errors import refusing
from tf_lso.checkpoints.source import (
    LAYER_STEP,
    WEIGHT_STEP,
    ModelVariable,
    OptimizerState,
    Slot,
    Source,
)

# The group for weights that the model itself has (since TensorFlow 2.6).
_OF_THE_MODEL = "top_level_model_weights"


def is_one(file):
    """Whether an open file is one; otherwise it has the layout of .weights.h5."""
    return "layer_names" in file.attrs or "model_weights" in file


def source(reader):
    """Return the `Source` of an open file."""
    whole = "model_weights" in reader.file
    root = reader.group(reader.file, "model_weights") if whole else reader.file
    variables = _variables(reader, root)
    state = None
    if "optimizer_weights" in reader.file:
        group = reader.group(reader.file, "optimizer_weights")
        state = _optimizer(reader, group, variables)
        if layouts.OWN_GROUP in reader.file:
            group = reader.group(reader.file, layouts.OWN_GROUP)
            keys = [f"{layouts.OWN_GROUP}/{number}" for number in range(len(group))]
            listed.take_added(state, [reader.entry(key, "") for key in keys])
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
            path = (f"{LAYER_STEP}{number}", f"{WEIGHT_STEP}{place}")
            variables.append(ModelVariable(reader.entry(key, name), (path,)))
        number += bool(keys)
    if _OF_THE_MODEL in root:
        group = reader.group(root, _OF_THE_MODEL)
        for place, (key, name) in enumerate(_weights(reader, group)):
            path = (f"{WEIGHT_STEP}{place}",)
            variables.append(ModelVariable(reader.entry(key, name), (path,)))
    return variables


def _weights(reader, group):
    """Return the (key, name) pairs of the weights that a group lists."""
    texts = reader.texts(group, "weight_names")
    prefix = group.name.strip("/")
    return [
        (f"{prefix}/{text}" if prefix else text, names.plain(text)) for text in texts
    ]


def _optimizer(reader, group, variables):
    class_name, config = listed.class_of(_training(reader))
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


def _training(reader):
    """Return the compile config of a file as a dict, None if it has none."""
    text = reader.attribute(reader.file, "training_config")
    if text is None:
        return None
    with refusing(f"{reader.path}: the attribute training_config is damaged"):
        return dict(json.loads(hdf5.text_of(text)))
