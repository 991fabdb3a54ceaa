"""Reads the models and the optimizers of an `ObjectGraph`.

Checkpoints have one, and SavedModels have one for their variables.
"""

import collections

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts, names
from tf_lso.checkpoints.source import (
    ELSEWHERE,
    ModelVariable,
    OptimizerState,
    Slot,
    Source,
)

SAVE_COUNTER = "save_counter"

# Children of Keras models, which other objects that hold models do not have.
_OF_A_MODEL = ("layer-", "layer_with_weights-", "_functional", "_operations")


def optimizers(graph):
    """Return {path: node} of the optimizers; of a wrapper and its inner, the wrapper."""
    found, inside = {}, set()
    for node, paths in graph.walk(0):
        if node in inside:
            continue
        if inner(graph, node) is not None:
            found["/".join(paths[0])] = node
            inside.update(below for below, _ in graph.walk(node))
    return found


def inner(graph, node):
    """Return the node of the optimizer: this one or the one it wraps, or None."""
    below = graph.children(node)
    for name in layouts.INNER:
        if name in below and _iterations(graph.children(below[name])) is not None:
            return below[name]
    return None if _iterations(below) is None else node


def _iterations(below):
    """Return the node of the step counter among children, or None."""
    return next((below[n] for n in layouts.ITERATIONS if n in below), None)


def layout(graph, node):
    """Return the layout of the optimizer at a node, a key of `layouts.LAYOUTS`."""
    at = inner(graph, node)
    below = graph.children(at)
    if "iter" in below:
        return "v2" if at == node else "2.0-2.2"
    # Optimizers of Keras 3 also list the model variables; in tf_lso's the inner one does.
    return "keras3" if "_trainable_variables" in below else "new"


def models(graph, of_optimizers):
    """Return {path: node} of the nodes that may be the model, likeliest first."""
    root = graph.children(0)
    if any(name.startswith(_OF_A_MODEL) for name in root):
        return {"": 0}
    found = {
        name: node
        for name, node in root.items()
        if node not in of_optimizers
        and graph.entry(node) is None
        and graph.variables(node)
    }
    return {**found, "": 0}  # the root may be a model of a user's class


def source(graph, model, optimizer):
    """Return the `Source` of two nodes or None: of a model and an optimizer."""
    every = optimizers(graph).values()
    found = {} if model is None else graph.variables(model, every)
    if model == 0:  # the root also has the counter of tf.train.Checkpoint
        found = {n: (e, p) for n, (e, p) in found.items() if e.name != SAVE_COUNTER}
    index = {node: i for i, node in enumerate(found)}
    variables = [ModelVariable(entry, paths) for entry, paths in found.values()]
    return Source(
        path=graph.prefix,
        layout="model" if optimizer is None else layout(graph, optimizer),
        variables=variables,
        optimizer=None
        if optimizer is None
        else _state(graph, optimizer, index, variables),
        keys=graph.keys(),
        read=graph.read,
    )


def _state(graph, node, index, variables):
    """Return the `OptimizerState` of a node; `index` is {node: index in variables}."""
    at, of_layout = inner(graph, node), layout(graph, node)
    below = graph.children(at)
    state = OptimizerState(layouts.FAMILIES[of_layout])
    state.iterations = graph.entry(_iterations(below))
    built = graph.elements(below.get("_trainable_variables"))
    state.order = [index.get(variable) for variable in built]
    no_state = {*index, *built, *_of_traced_steps(graph, node)}
    for path, role in layouts.LOSS_SCALE.items():
        child = graph.follow(node, path)
        if child is not None and (entry := graph.entry(child)):
            setattr(state, role, entry)
            no_state.add(child)
    for name, child in below.items():
        if child in no_state or name in layouts.NO_STATE:
            no_state.add(child)
        elif (entry := graph.entry(child)) is None:
            _add_slots(state, name, graph.entries(child), variables)
        elif name in layouts.HYPERPARAMETERS:
            state.hyperparameters[layouts.HYPERPARAMETERS[name]] = entry
        else:
            state.scalars[layouts.SCALARS.get(name, name)] = entry
    for name, variable, child in graph.slots(at) + graph.slots(node) * (at != node):
        if entry := graph.entry(child):
            slots = state.slots.setdefault(name, [])
            slots.append(Slot(entry, index.get(variable, ELSEWHERE), len(slots)))
    heads = {state.iterations, *state.hyperparameters.values()}
    listed = graph.entries(below.get("_variables"))
    state.listed = [entry for entry in listed if entry not in heads]
    if of_layout == "keras3":
        _read_keras_3_1(state, below, variables)
    known = {*heads, *state.entries()}
    state.others = [
        entry
        for entry, _ in graph.variables(at, no_state).values()
        if entry not in known
    ]
    state.class_name = names.optimizer_class(state, of_keras3=of_layout == "keras3")
    return state


def _of_traced_steps(graph, node):
    """Return the nodes of what only traced steps of tf_lso use, in SavedModels."""
    found = [graph.follow(node, path) for path in layouts.OF_TRACED_STEPS]
    # A variable of a user's own class may have one of the names.
    return set() if None in found[:2] else {child for child in found if child}


def _add_slots(state, name, entries, variables):
    if entries:
        state.slots[name] = [
            Slot(entry, _owner(entry, position, state.order, variables), position)
            for position, entry in enumerate(entries)
        ]


def _owner(entry, position, order, variables):
    """Return the index of the model variable of a slot, None if the file does not say."""
    if position < len(order):
        return order[position]
    return names.owner(entry.name, variables)


def _read_keras_3_1(state, below, variables):
    """Read the slots of Keras 3.1-3.9, whose lists are empty: `_variables` has all."""
    empty = table.ENDS.keys() & below.keys() - state.slots.keys()
    found = collections.defaultdict(list)
    for entry in state.listed:
        name = names.list_of(entry.name, empty)
        if name:
            found[name].append(entry)
    for name, entries in found.items():
        _add_slots(state, name, entries, variables)
