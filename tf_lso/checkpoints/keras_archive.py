"""Reads .keras and .weights.h5 files, of Keras 2.12-2.15 and of Keras 3."""

import contextlib
import json
import zipfile

from tf_lso.checkpoints import hdf5, layouts
from tf_lso.checkpoints.errors import refusing
from tf_lso.checkpoints.source import ModelVariable, OptimizerState, Source

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"

# The group with the variables of one object, in the order in which it made them. It is
# also a step of paths, where the number of the variable follows.
VARS = "vars"

_OPTIMIZER = ("optimizer",)
_INNER = ("optimizer", "inner_optimizer")


def is_weights_file(path):
    """Whether an .h5 file has the layout of .weights.h5, whatever its name."""
    with hdf5.opened(path) as file, refusing(f"{path}: the file is damaged"):
        return "layer_names" not in file.attrs and "model_weights" not in file


@contextlib.contextmanager
def source(path):
    """Return a context with the `Source` of a .keras or .weights.h5 file."""
    config, weights = {}, None
    with contextlib.ExitStack() as stack:
        if zipfile.is_zipfile(path):
            with refusing(f"{path}: no .keras file that can be read"):
                archive = stack.enter_context(zipfile.ZipFile(path))
                config = json.loads(archive.read(_CONFIG))
                weights = archive.open(_WEIGHTS)
        file = stack.enter_context(hdf5.opened(path, weights))
        with refusing(f"{path}: the file is damaged"):
            found = _source(hdf5.Reader(path, file), config)
        yield found


def _source(reader, config):
    groups = {}  # the object's path -> {number: entry}
    for key in reader.keys():
        *path, number = key.split("/")
        if path[-1:] == [VARS] and number.isdigit():
            owner = groups.setdefault(tuple(filter(None, path[:-1])), {})
            owner[int(number)] = reader.entry(key, "")
    state = _optimizer(groups, config)
    variables = []
    for path, entries in groups.items():
        if path[:1] in (_OPTIMIZER, ("metrics",)):
            continue
        for number, entry in sorted(entries.items()):
            way = (*path, f"{VARS}:{number}")
            variables.append(ModelVariable(entry, (way,)))
    return Source(
        path=reader.path,
        layout="keras",
        variables=variables,
        optimizer=state,
        keys=reader.keys(),
        read=reader.read,
    )


def _optimizer(groups, config):
    outer = [entry for _, entry in sorted(groups.get(_OPTIMIZER, {}).items())]
    inner = [entry for _, entry in sorted(groups.get(_INNER, {}).items())]
    if not (outer or inner):
        return None
    name, of_class = hdf5.class_of(config.get("compile_config"))
    state = OptimizerState(
        class_name=name, config=of_class, family=layouts.family_of_config(of_class)
    )
    if inner:
        _read_wrapper(state, outer, inner)
    else:
        tail = _scale_at_the_end(state, outer)
        inner = outer[: len(outer) - len(tail)]
        # Of those without a group of the inner optimizer only legacy ones have a scale.
        state.family = "legacy" if tail else state.family
    state.iterations, *rest = inner
    scalar_first = bool(rest) and rest[0].shape == () and rest[0].dtype != "int64"
    if scalar_first and state.family in ("keras3", None):  # Keras 2 does not save it
        state.hyperparameters["learning_rate"] = rest.pop(0)
        state.family = "keras3"
    state.listed = rest
    return state


def _read_wrapper(state, outer, inner):
    """Read the variables of a wrapper beside those of the inner optimizer.

    Keras 3 saves the count and the scale with the wrapper. Old versions save only these
    two. Newer ones save two meaningless scalars before them, and the variables of the
    inner optimizer a second time after them. Keras 2 saves only the inner variables;
    under tf_lso it saves them with the wrapper too, and after them a variable that only
    Nadam has, the scale and the count.
    """
    own = outer[:4] if len(outer) == len(inner) + 4 else outer
    scalars = [entry.shape for entry in own[-2:]] == [(), ()]
    if scalars and len(own) in (2, 4) and _is_count(own[-2]):
        state.count, state.scale = own[-2:]
        state.family = "keras3"
        return
    more = outer[len(inner) :]
    tail = _scale_at_the_end(state, more)
    # Keras 3 saves a counter and a rate with each wrapper, which Keras 2 has not.
    of_keras2 = [e.shape for e in outer[: len(inner)]] in ([], [e.shape for e in inner])
    state.family = state.family or ("new" if of_keras2 else None)
    for entry in more[: len(more) - len(tail)]:
        state.scalars["momentum_cache"] = entry


def _scale_at_the_end(state, entries):
    """Read the scale and the count that tf_lso puts last in files of Keras 2."""
    tail = entries[-2:]
    shapes = [entry.shape for entry in tail]
    if shapes != [(), ()] or _is_count(tail[0]) or not _is_count(tail[1]):
        return []
    state.scale, state.count = tail
    return tail


def _is_count(entry):
    return entry.dtype.startswith(("int", "uint"))
