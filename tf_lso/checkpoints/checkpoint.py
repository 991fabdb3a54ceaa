"""Reads the models and the optimizers of an `ObjectGraph`.

Checkpoints have one, and SavedModels have one for their variables.
"""

import dataclasses

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.source import UNKNOWN, OptimizerState, Source

SAVE_COUNTER = "save_counter"

# Children of Keras models, which other objects that hold models do not have.
_OF_A_MODEL = ("layer-", "layer_with_weights-", "_functional", "_operations")


def optimizers(graph):
    """Return {path: node} of the optimizers; of a wrapper and its inner, the wrapper."""
    found, inside = {}, set()
    for node, paths in graph.walk(0):
        if node not in inside and inner(graph, node) is not None:
            found["/".join(paths[0])] = node
            inside.update(below for below, _ in graph.walk(node))
    return found


def inner(graph, node):
    """Return the node of the optimizer: this one or the one it wraps, or None."""
    below = graph.children(node)
    places = [*(below.get(name) for name in layouts.INNER), node]
    return next((at for at in places if _counter(graph, at) is not None), None)


def _counter(graph, node):
    """Return the node of the step counter of an optimizer, None if the node is none."""
    below = graph.children(node)
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
    # The root also has the counter of tf.train.Checkpoint.
    others = {graph.children(0).get(SAVE_COUNTER), *optimizers(graph).values()}
    variables = {} if model is None else graph.variables(model, others)
    return Source(
        path=graph.prefix,
        layout="model" if optimizer is None else layout(graph, optimizer),
        variables=variables,
        optimizer=None if optimizer is None else _state(graph, optimizer, variables),
        keys=graph.keys(),
        read=graph.read,
    )


def _state(graph, node, variables):
    """Return the `OptimizerState` of a node."""
    at, family = inner(graph, node), layouts.FAMILIES[layout(graph, node)]
    below, counter = graph.children(at), _counter(graph, at)
    state = OptimizerState(family, iterations=graph.entry(counter))
    state.order = graph.elements(below.get("_trainable_variables"))
    others = {counter, graph.children(0).get(SAVE_COUNTER), *variables, *state.order}
    others |= _of_traced_steps(graph, node)
    for path, role in layouts.LOSS_SCALE.items():
        child = graph.follow(node, path)
        if child is not None and (entry := graph.entry(child)):
            setattr(state, role, entry)
            others.add(child)
    # Node of a variable -> `Entry.slot` and `Entry.of`.
    made = dict.fromkeys(graph.elements(below.get("_variables")), (None, UNKNOWN))
    for name, child in below.items():
        if child in others or name in layouts.NO_STATE:
            others.add(child)
        elif (entry := graph.entry(child)) is None:
            made.update(_slots(graph, name, child, state.order, variables))
        elif name in layouts.HYPERPARAMETERS:
            state.hyperparameters[layouts.HYPERPARAMETERS[name]] = entry
            others.add(child)
        else:
            made[child] = layouts.SCALARS.get(name, name), None
    for name, variable, slot in graph.slots(at) + graph.slots(node):
        made[slot] = name, variable
    # What no attribute leads to directly, such as a list in a list.
    for child in graph.variables(at, others):
        made.setdefault(child, (None, UNKNOWN))
    # Keras 3.1-3.9 saved its lists of slots empty, and all slots in `_variables`.
    known = {slot for slot, _ in made.values()}
    empty = table.ENDS.keys() & below.keys() - known if family == "keras3" else ()
    for child, (slot, of) in made.items():
        entry = None if child in others else graph.entry(child)
        if entry is not None:
            slot = slot or layouts.list_of(entry.name, empty)
            state.made.append(dataclasses.replace(entry, slot=slot, of=of))
    state.class_name = layouts.optimizer_class(state.made, family)
    return state


def _of_traced_steps(graph, node):
    """Return the nodes of what only traced steps of tf_lso use, in SavedModels."""
    found = [graph.follow(node, path) for path in layouts.OF_TRACED_STEPS]
    # A variable of a user's own class may have one of the names.
    return set() if None in found[:2] else set(found)


def _slots(graph, name, node, order, variables):
    """Yield (node, (slot, its model variable)) of a list of slots."""
    nodes = graph.elements(node)
    entries = [graph.entry(child) for child in nodes]
    if None in entries:
        return
    for place, (child, entry) in enumerate(zip(nodes, entries)):
        known = place < len(order)
        of = order[place] if known else layouts.owner(entry.name, variables)
        yield child, (name, of)
