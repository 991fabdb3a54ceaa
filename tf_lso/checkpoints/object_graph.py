"""Read a checkpoint of `tf.train.Checkpoint` or the variables of a SavedModel.

The keys of the tensors differ between versions of TensorFlow and Keras. But the file also
contains a graph of the saved objects. This graph shows which tensor belongs to which attribute
of an object.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tf_lso.checkpoints import layouts
from tf_lso.checkpoints.source import (
    UNKNOWN,
    CheckpointError,
    Entry,
    OptimizerState,
    Source,
    refusing,
)
from tf_lso.frameworks import optimizer_table as table
from tf_lso.optimizers import manifest as manifest_lib

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
SAVE_COUNTER = "save_counter"

# A layer has several names in the graph, so a variable has many paths. At most this many are
# kept in `Entry.paths`.
_MOST_PATHS = 6

# Only Keras models have children whose names begin with one of these.
_OF_A_MODEL = ("layer-", layouts.LAYER_STEP, "_functional", "_operations")


class ObjectGraph:
    """The objects and tensors of a checkpoint.

    A *node* is the number of an object in the graph of saved objects. The root is node 0.
    `prefix` is the path of the checkpoint without `.index`.
    """

    def __init__(self, prefix):
        self.prefix = prefix
        with refusing(f"{prefix}: not a readable checkpoint"):
            self._reader = tf.train.load_checkpoint(prefix)
            self._shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
        if GRAPH_KEY not in self._shapes:
            raise CheckpointError(
                f"{prefix} has no key {GRAPH_KEY}, so it was written by "
                "tf.compat.v1.train.Saver, or is not the checkpoint of a model. Restore it "
                "with tf.compat.v1.train.Saver, and save it with tf.train.Checkpoint."
            )
        proto = trackable_object_graph_pb2.TrackableObjectGraph()
        with refusing(f"{prefix}: the key {GRAPH_KEY} is damaged"):
            proto.ParseFromString(self._get(GRAPH_KEY))
            self.keys = sorted(self._shapes.keys() - {GRAPH_KEY})
            self._nodes, named = proto.nodes, {0}
            self._children = [
                {c.local_name: c.node_id for c in node.children} for node in self._nodes
            ]
            for node, below in enumerate(self._children):
                named.update(below.values(), *(slot[1:] for slot in self.slots(node)))
            if not named <= {*range(len(self._nodes))}:
                raise IndexError("it names objects that it does not have")

    def _get(self, key):
        with refusing(f"{self.prefix}: the key {key} cannot be read"):
            return self._reader.get_tensor(key)

    def read(self, entry):
        return np.asarray(self._get(entry.key))

    def entry(self, node):
        """Return the `Entry` of the variable at a node, or None if there is no variable."""
        for attribute in () if node is None else self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE":
                key = attribute.checkpoint_key
                if key not in self._shapes:
                    raise CheckpointError(f"{self.prefix}: the key {key} is missing.")
                shape, dtype = tuple(self._shapes[key]), self._dtypes[key].name
                return Entry(key, attribute.full_name, shape, dtype)
        return None

    def children(self, node):
        return {} if node is None else self._children[node]

    def follow(self, node, path):
        for name in path:
            node = self.children(node).get(name)
        return node

    def elements(self, node):
        """Return the nodes of the elements of a saved list, or [] if its node is None."""
        below = self.children(node)
        return [below[n] for n in sorted(filter(str.isdigit, below), key=int)]

    def slots(self, node):
        """Return a list of (slot name, node of the model variable, node of the slot)."""
        return [
            (s.slot_name, s.original_variable_node_id, s.slot_variable_node_id)
            for s in self._nodes[node].slot_variables
        ]

    def walk(self, start, but=()):
        """Yield (node, paths from `start`) for `start` and each node below, nearest first.

        A path is a tuple of names of children. Nodes in `but`, and nodes that can only be
        reached through them, are omitted.
        """
        paths = {**{node: [] for node in but}, start: [()]}
        queue = [start]
        for node in queue:
            yield node, paths[node]
            for name, child in self.children(node).items():
                if child not in paths:
                    queue.append(child)
                # Each node is visited only once. If the child was visited before, the nodes
                # below it do not get the new paths.
                ways = [(*path, name) for path in paths[node]]
                paths[child] = (paths.get(child, []) + ways)[:_MOST_PATHS]

    def variables(self, start, but=()):
        """Return a dict {node: `Entry`} of the variables in `walk`, with their paths."""
        return {
            node: dataclasses.replace(entry, paths=tuple(paths))
            for node, paths in self.walk(start, but)
            if (entry := self.entry(node)) is not None
        }


def optimizers(graph):
    """Return {path, such as "optimizer": node} of all optimizers except inner ones."""
    found, inside = {}, set()
    for node, paths in graph.walk(0):
        if node not in inside and inner(graph, node) is not None:
            found["/".join(paths[0])] = node
            inside.update(below for below, _ in graph.walk(node))
    return found


def inner(graph, node):
    """Return the node of the inner optimizer of a `LossScaleOptimizer`.

    For another optimizer, return `node`. If `node` is not an optimizer, return None.
    """
    below = graph.children(node)
    # The first name is that of TensorFlow 2.0-2.2, and the second that of Keras 3.
    nodes = [below.get("base_optimizer"), below.get("inner_optimizer"), node]
    return next((n for n in nodes if _counter(graph, n) is not None), None)


def _counter(graph, node):
    below = graph.children(node)
    return next((below[n] for n in layouts.ITERATIONS if n in below), None)


def layout(graph, node):
    at = inner(graph, node)
    below = graph.children(at)
    if "iter" in below:
        return "v2" if at == node else "2.0-2.2"
    # Newer optimizers of Keras 2 do not have this attribute.
    return "keras3" if "_trainable_variables" in below else "new"


def models(graph, of_optimizers):
    """Return a dict {name: node} of the objects that may be the model, likeliest first.

    The name is "" for the root itself. `of_optimizers` contains the nodes of all optimizers.
    """
    root = graph.children(0)
    if any(name.startswith(_OF_A_MODEL) for name in root):
        return {"": 0}
    no_model = {0, *of_optimizers}
    found = {
        name: node
        for name, node in root.items()
        if node not in no_model and not graph.entry(node) and graph.variables(node)
    }
    # The root itself may be the model, if the model's class is a user's own class.
    return {**found, "": 0}


def source(graph, model, optimizer):
    """Return the `Source` for the nodes of a model and an optimizer, which may be None."""
    others = {graph.children(0).get(SAVE_COUNTER), *optimizers(graph).values()}
    variables = graph.variables(model, others)
    read = None if optimizer is None else _state(graph, optimizer, variables)
    kind = "model" if optimizer is None else layout(graph, optimizer)
    return Source(graph.prefix, kind, variables, read, graph.keys, graph.read)


def _state(graph, node, variables):
    """Return the `OptimizerState` at a node. The keys of `variables` are nodes."""
    at, family = inner(graph, node), layouts.LAYOUTS[layout(graph, node)][0]
    below, counter = graph.children(at), _counter(graph, at)
    state = OptimizerState(family, iterations=graph.entry(counter))
    state.order = graph.elements(below.get("_trainable_variables"))
    # `others` collects the nodes that do not belong in `state.made`.
    others = {counter, graph.children(0).get(SAVE_COUNTER), *variables, *state.order}
    others |= _of_traced_steps(graph, node)
    for path, role in layouts.LOSS_SCALE.items():
        child = graph.follow(node, path.split("/"))
        if entry := graph.entry(child):
            setattr(state, role, entry)
            others.add(child)
    for name, child in below.items():
        entry = graph.entry(child)
        if name in layouts.NO_STATE:
            others.add(child)
        elif name in layouts.HYPERPARAMETERS and entry and child not in others:
            state.hyperparameters[layouts.HYPERPARAMETERS[name]] = entry
            others.add(child)
    labels = _labels(graph, node, state.order, variables, others)
    # Keras 3.1-3.9 saved the lists of slots empty, so the slots are only in `_variables`.
    named = {slot for slot, _ in labels.values()}
    empty = table.ENDS.keys() & below.keys() - named if family == "keras3" else ()
    for child, (slot, of) in labels.items():
        if child not in others and (entry := graph.entry(child)):
            slot = slot or layouts.list_of(entry.name, empty)
            state.made.append(dataclasses.replace(entry, slot=slot, of=of))
    state.class_name = layouts.optimizer_class(state.made, family)
    if written := manifest(graph, node):
        state.class_name = written.class_name
    return state


def manifest(graph, node):
    found = map(manifest_lib.from_name, graph.children(node))
    return next(filter(None, found), None)


def listed_slots(graph, node, at):
    """Return what an optimizer lists: the names of its first variables, and its slots.

    Each slot is a pair (name of the slot, node of the model variable). If the checkpoint does
    not say, the name is None or the node is `UNKNOWN`. If the slot belongs to no model
    variable, the node is None. `at` is the inner optimizer of `node`.
    """
    below = graph.children(at)
    listed = graph.elements(below.get("_variables"))
    order = graph.elements(below.get("_trainable_variables"))
    heads = {below.get(name): "iterations" for name in layouts.ITERATIONS}
    heads[below.get("_learning_rate")] = "learning_rate"
    variables = graph.variables(0, optimizers(graph).values())
    variables |= {child: graph.entry(child) for child in order}
    labels = _labels(graph, node, order, variables, {*heads, *order})
    # The newer Nadam of Keras 2 does not list its product of momentums. A manifest calls this
    # variable by its attribute.
    scalars = {
        child: (name, None) for name, child in below.items() if name in layouts.SCALARS
    }
    labels |= scalars
    listed += [child for child in scalars if child not in listed]
    names = [heads[child] for child in listed if child in heads]
    slots = [labels[child] for child in listed if child not in heads]
    return names, slots


def _of_traced_steps(graph, node):
    found = [graph.follow(node, path.split("/")) for path in layouts.OF_TRACED_STEPS]
    # A user's optimizer may have an attribute such as "overflowed". So these paths count only
    # if the first two exist.
    return set(found) if None not in found[:2] else set()


def _labels(graph, node, order, variables, others):
    """Return a dict that maps the node of a variable to `slot` and `of` of its `Entry`.

    The variables that the optimizer lists come first, in the order of their creation.
    """
    at = inner(graph, node)
    below = graph.children(at)
    found = dict.fromkeys(graph.elements(below.get("_variables")), (None, UNKNOWN))
    for name, child in below.items():
        if child not in others and graph.entry(child):
            found[child] = layouts.SCALARS.get(name, name), None
        elif child not in others:
            found.update(_listed_slots(graph, name, child, order, variables))
    for name, variable, slot in graph.slots(at) + graph.slots(node):
        found[slot] = name, variable
    # Variables in nested lists are not direct attributes of the optimizer.
    for child in graph.variables(at, others):
        found.setdefault(child, (None, UNKNOWN))
    return found


def _listed_slots(graph, name, node, order, variables):
    """Return the labels of the variables in the list that is the attribute `name`."""
    entries = {child: graph.entry(child) for child in graph.elements(node)}
    if None in entries.values():
        return {}
    by_name = {
        child: (name, layouts.owner(entry.name, variables))
        for child, entry in entries.items()
    }
    return by_name | {child: (name, of) for child, of in zip(entries, order)}
