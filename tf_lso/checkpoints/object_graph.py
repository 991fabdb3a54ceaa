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

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
SAVE_COUNTER = "save_counter"

# The largest number of paths that an `Entry` gets. Several paths lead to a variable of a layer,
# since the graph contains the layer under several names.
_MOST_PATHS = 6

# Only a Keras model has children whose names begin with one of these texts. An object that
# merely contains a model, such as a `tf.train.Checkpoint`, has no such children.
_OF_A_MODEL = ("layer-", layouts.LAYER_STEP, "_functional", "_operations")


class ObjectGraph:
    """The objects and tensors of a checkpoint.

    Args:
      prefix: str, the path of the checkpoint without `.index`.
    """

    def __init__(self, prefix):
        self.prefix = prefix
        with refusing(f"{prefix}: no checkpoint that can be read"):
            self._reader = tf.train.load_checkpoint(prefix)
            self._shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
        if GRAPH_KEY not in self._shapes:
            raise CheckpointError(
                f"{prefix}: has no key {GRAPH_KEY}, so it was written by "
                "tf.compat.v1.train.Saver or is no checkpoint of a model. Restore it "
                "with tf.compat.v1.train.Saver, and save it with tf.train.Checkpoint."
            )
        proto = trackable_object_graph_pb2.TrackableObjectGraph()
        with refusing(f"{prefix}: the key {GRAPH_KEY} is damaged"):
            proto.ParseFromString(self._get(GRAPH_KEY))
            # The keys of all tensors of the checkpoint.
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
        """Return the value of an `Entry` as a NumPy array."""
        return np.asarray(self._get(entry.key))

    def entry(self, node):
        """Return the `Entry` of a node, or None if the node is None or not a variable."""
        for attribute in () if node is None else self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE":
                key = attribute.checkpoint_key
                if key not in self._shapes:
                    raise CheckpointError(f"{self.prefix}: the key {key} is missing.")
                shape, dtype = tuple(self._shapes[key]), self._dtypes[key].name
                return Entry(key, attribute.full_name, shape, dtype)
        return None

    def children(self, node):
        """Return {name: child} for a node, or {} if the node is None."""
        return {} if node is None else self._children[node]

    def follow(self, node, path):
        """Return the node to which a path of names leads from `node`, or None."""
        for name in path:
            node = self.children(node).get(name)
        return node

    def elements(self, node):
        """Return the nodes of the elements of the list at `node`, or [] if `node` is None."""
        below = self.children(node)
        return [below[n] for n in sorted(filter(str.isdigit, below), key=int)]

    def slots(self, node):
        """Return a list of (slot name, node of the model variable, node of the slot)."""
        return [
            (s.slot_name, s.original_variable_node_id, s.slot_variable_node_id)
            for s in self._nodes[node].slot_variables
        ]

    def walk(self, start, but=()):
        """Yield (node, paths) for `start` and each node below `start`, nearest first.

        Nodes in `but` are omitted. Nodes that can only be reached through a node in `but` are
        omitted too.
        """
        paths = {**{node: [] for node in but}, start: [()]}
        queue = [start]
        for node in queue:
            yield node, paths[node]
            for name, child in self.children(node).items():
                if child not in paths:
                    queue.append(child)
                # Each node is visited only once, so that the walk ends. If the child was
                # visited before, the nodes below the child do not get the new paths.
                ways = [(*path, name) for path in paths[node]]
                paths[child] = (paths.get(child, []) + ways)[:_MOST_PATHS]

    def variables(self, start, but=()):
        """Return {node: `Entry` with paths} for the variables below a node."""
        return {
            node: dataclasses.replace(entry, paths=tuple(paths))
            for node, paths in self.walk(start, but)
            if (entry := self.entry(node)) is not None
        }


def optimizers(graph):
    """Return {path: node} for all optimizers except the inner optimizers of wrappers."""
    found, inside = {}, set()
    for node, paths in graph.walk(0):
        if node not in inside and inner(graph, node) is not None:
            found["/".join(paths[0])] = node
            inside.update(below for below, _ in graph.walk(node))
    return found


def inner(graph, node):
    """Return the node of the inner optimizer of the wrapper at `node`.

    If `node` is an optimizer without a wrapper, return `node`. If `node` is not an optimizer,
    return None.
    """
    below = graph.children(node)
    # A wrapper of TensorFlow 2.0-2.2 has the child "base_optimizer". A wrapper of Keras 3 has
    # the child "inner_optimizer".
    nodes = [below.get("base_optimizer"), below.get("inner_optimizer"), node]
    return next((n for n in nodes if _counter(graph, n) is not None), None)


def _counter(graph, node):
    below = graph.children(node)
    return next((below[n] for n in layouts.ITERATIONS if n in below), None)


def layout(graph, node):
    """Return the key in `layouts.LAYOUTS` for the optimizer at a node."""
    at = inner(graph, node)
    below = graph.children(at)
    if "iter" in below:
        return "v2" if at == node else "2.0-2.2"
    # The attribute `_trainable_variables` lists the model variables. Optimizers of Keras 3 have
    # this attribute, but newer optimizers of Keras 2 do not.
    return "keras3" if "_trainable_variables" in below else "new"


def models(graph, of_optimizers):
    """Return {path: node} for the nodes that may be the model, likeliest first."""
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
    """Return the `Source` for the nodes of a model and an optimizer. Both may be None."""
    others = {graph.children(0).get(SAVE_COUNTER), *optimizers(graph).values()}
    variables = {} if model is None else graph.variables(model, others)
    read = None if optimizer is None else _state(graph, optimizer, variables)
    kind = "model" if optimizer is None else layout(graph, optimizer)
    return Source(graph.prefix, kind, variables, read, graph.keys, graph.read)


def _state(graph, node, variables):
    """Return the `OptimizerState` for the node of an optimizer or of a wrapper."""
    at, family = inner(graph, node), layouts.LAYOUTS[layout(graph, node)][0]
    below, counter = graph.children(at), _counter(graph, at)
    state = OptimizerState(family, iterations=graph.entry(counter))
    state.order = graph.elements(below.get("_trainable_variables"))
    # Collect the nodes that `_labels` must ignore.
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
    # Keras 3.1-3.9 saved empty lists of slots. The slots themselves are then only in the list
    # `_variables`.
    named = {slot for slot, _ in labels.values()}
    empty = table.ENDS.keys() & below.keys() - named if family == "keras3" else ()
    for child, (slot, of) in labels.items():
        if child not in others and (entry := graph.entry(child)):
            slot = slot or layouts.list_of(entry.name, empty)
            state.made.append(dataclasses.replace(entry, slot=slot, of=of))
    state.class_name = layouts.optimizer_class(state.made, family)
    return state


def _of_traced_steps(graph, node):
    """Return the set of nodes that tf_lso's traced steps have added to a SavedModel."""
    found = [graph.follow(node, path.split("/")) for path in layouts.OF_TRACED_STEPS]
    # An optimizer class of a user may have an attribute whose name is one of these paths. So
    # return the nodes only if the first two paths in `OF_TRACED_STEPS` exist.
    return set(found) if None not in found[:2] else set()


def _labels(graph, node, order, variables, others):
    """Return {node of a variable: label} for the variables of an optimizer.

    A label is a pair of values for `Entry.slot` and `Entry.of`. The variables that the
    optimizer lists come first, in the order in which the optimizer created the variables.
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
    # Add variables that are not direct attributes, such as variables in nested lists.
    for child in graph.variables(at, others):
        found.setdefault(child, (None, UNKNOWN))
    return found


def _listed_slots(graph, name, node, order, variables):
    """Return {node of a slot: label} for the slots in the list at the attribute `name`."""
    entries = {child: graph.entry(child) for child in graph.elements(node)}
    if None in entries.values():
        return {}
    by_name = {
        child: (name, layouts.owner(entry.name, variables))
        for child, entry in entries.items()
    }
    return by_name | {child: (name, of) for child, of in zip(entries, order)}
