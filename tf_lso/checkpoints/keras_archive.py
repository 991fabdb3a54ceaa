"""Reads .keras and .weights.h5 files, of Keras 2.12-2.15 and of Keras 3."""

from tf_lso.checkpoints import layouts, listed
from tf_lso.checkpoints.source import VARS_STEP, ModelVariable, OptimizerState, Source

_OPTIMIZER = ("optimizer",)
_INNER = ("optimizer", "inner_optimizer")


def source(reader):
    """Return the `Source` of an open file."""
    groups = {}  # the object's path -> {number: entry}
    for key in reader.keys():
        *path, number = key.split("/")
        if path[-1:] == [VARS_STEP] and number.isdigit():
            owner = groups.setdefault(tuple(filter(None, path[:-1])), {})
            owner[int(number)] = reader.entry(key, "")
    state = _optimizer(groups, reader.config)
    variables = []
    for path, entries in groups.items():
        if path[:1] in (_OPTIMIZER, ("metrics",)):
            continue
        for number, entry in sorted(entries.items()):
            way = (*path, f"{VARS_STEP}:{number}")
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
    name, of_class = listed.class_of(config.get("compile_config"))
    state = OptimizerState(
        class_name=name, config=of_class, family=layouts.family_of_config(of_class)
    )
    if inner:
        _read_wrapper(state, outer, inner)
    else:
        inner = listed.take_scale(state, outer)
        # Of those without a group of the inner optimizer only legacy ones have a scale.
        state.family = "legacy" if state.scale else state.family
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
    if scalars and len(own) in (2, 4) and listed.is_count(own[-2]):
        state.count, state.scale = own[-2:]
        state.family = "keras3"
        return
    listed.take_added(state, outer[len(inner) :])
    # Keras 3 saves a counter and a rate with each wrapper, which Keras 2 has not.
    of_keras2 = [e.shape for e in outer[: len(inner)]] in ([], [e.shape for e in inner])
    state.family = state.family or ("new" if of_keras2 else None)
