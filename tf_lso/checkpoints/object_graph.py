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

# The largest number of paths that `Entry.paths` contains for one variable. Several paths lead
# to a variable of a layer, since the graph contains the layer under several names.
_MOST_PATHS = 6

# Only a Keras model has children whose names begin with one of these texts. An object that
# merely contains a model, such as a `tf.train.Checkpoint`, has no such children.
_OF_A_MODEL = ("layer-", layouts.LAYER_STEP, "_functional", "_operations")


class ObjectGraph:
    """The objects and tensors of a checkpoint.

    Checkpoints contain a graph of the saved objects. A *node* is the number of an object in
    this graph. The root of the graph is the node 0.

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
            # The keys of all tensors in the checkpoint, except for the tensor that contains the
            # graph of objects.
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
        """Return the value of the tensor that an `Entry` describes, as a NumPy array."""
        return np.asarray(self._get(entry.key))

    def entry(self, node):
        """Return the `Entry` of the variable at a node of the object graph.

        Return None if the node is None, or if the object at the node is not a variable.
        """
        for attribute in () if node is None else self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE":
                key = attribute.checkpoint_key
                if key not in self._shapes:
                    raise CheckpointError(f"{self.prefix}: the key {key} is missing.")
                shape, dtype = tuple(self._shapes[key]), self._dtypes[key].name
                return Entry(key, attribute.full_name, shape, dtype)
        return None

    def children(self, node):
        """Return the children of an object in the object graph.

        The result is a dict that maps the name of each child to its node, which is the number
        of the child in the graph. If `node`, the number of the object, is None, the dict is
        empty.
        """
        return {} if node is None else self._children[node]

    def follow(self, node, path):
        """Return the node to which a path leads from `node` in the object graph, or None.

        `path` contains the names of the children on the way.
        """
        for name in path:
            node = self.children(node).get(name)
        return node

    def elements(self, node):
        """Return the nodes of the elements of a saved list.

        `node` is the node of the list in the object graph. If it is None, return [].
        """
        below = self.children(node)
        return [below[n] for n in sorted(filter(str.isdigit, below), key=int)]

    def slots(self, node):
        """Return a list of the slots of the optimizer at a node of the object graph.

        Each element is a tuple (slot name, node of the model variable, node of the slot).
        """
        return [
            (s.slot_name, s.original_variable_node_id, s.slot_variable_node_id)
            for s in self._nodes[node].slot_variables
        ]

    def walk(self, start, but=()):
        """Yield `start` and each node below it in the object graph, nearest first.

        Each node comes in a pair (node, paths). `paths` is a list of the paths from `start` to
        the node. A path is a tuple of names of children. Nodes in `but` are omitted. Nodes that
        can only be reached through a node in `but` are omitted too.
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
        """Return a dict of the variables below a node of the object graph.

        The dict maps the node of each variable to an `Entry`, whose field `paths` contains the
        paths from `start` to the variable. Nodes in `but` are omitted, as in `walk`.
        """
        return {
            node: dataclasses.replace(entry, paths=tuple(paths))
            for node, paths in self.walk(start, but)
            if (entry := self.entry(node)) is not None
        }


def optimizers(graph):
    """Return a dict of all optimizers in a checkpoint.

    The dict maps the path of each optimizer, such as "optimizer", to its node in the object
    graph. The inner optimizer of a `LossScaleOptimizer` is omitted.
    """
    found, inside = {}, set()
    for node, paths in graph.walk(0):
        if node not in inside and inner(graph, node) is not None:
            found["/".join(paths[0])] = node
            inside.update(below for below, _ in graph.walk(node))
    return found


def inner(graph, node):
    """Return the node of the inner optimizer of a `LossScaleOptimizer`.

    `node` is the node of the `LossScaleOptimizer` in the object graph. If `node` belongs to
    another optimizer, return `node`. If `node` does not belong to an optimizer, return None.
    """
    below = graph.children(node)
    # A `LossScaleOptimizer` of TensorFlow 2.0-2.2 has the child "base_optimizer". A
    # `LossScaleOptimizer` of Keras 3 has the child "inner_optimizer".
    nodes = [below.get("base_optimizer"), below.get("inner_optimizer"), node]
    return next((n for n in nodes if _counter(graph, n) is not None), None)


def _counter(graph, node):
    below = graph.children(node)
    return next((below[n] for n in layouts.ITERATIONS if n in below), None)


def layout(graph, node):
    """Return the name of the layout in which a checkpoint stores the optimizer at a node.

    The name is a key of `layouts.LAYOUTS`, such as "keras3".
    """
    at = inner(graph, node)
    below = graph.children(at)
    if "iter" in below:
        return "v2" if at == node else "2.0-2.2"
    # The attribute `_trainable_variables` lists the model variables. Optimizers of Keras 3 have
    # this attribute, but newer optimizers of Keras 2 do not.
    return "keras3" if "_trainable_variables" in below else "new"


def models(graph, of_optimizers):
    """Return a dict of the objects in a checkpoint that may be the model, likeliest first.

    The dict maps the name of each object below the root, or "" for the root itself, to the node
    of the object in the graph. `of_optimizers` contains the nodes of all optimizers.
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
    """Return a `Source`, which describes the tensors of a model and an optimizer.

    `model` and `optimizer` are nodes of the object graph. Each of them may be None.
    """
    others = {graph.children(0).get(SAVE_COUNTER), *optimizers(graph).values()}
    variables = {} if model is None else graph.variables(model, others)
    read = None if optimizer is None else _state(graph, optimizer, variables)
    kind = "model" if optimizer is None else layout(graph, optimizer)
    return Source(graph.prefix, kind, variables, read, graph.keys, graph.read)


def _state(graph, node, variables):
    """Return the `OptimizerState` of the optimizer at a node of the object graph.

    The optimizer may be a `LossScaleOptimizer`. The keys of `variables` are the nodes of the
    model variables.
    """
    at, family = inner(graph, node), layouts.LAYOUTS[layout(graph, node)][0]
    below, counter = graph.children(at), _counter(graph, at)
    state = OptimizerState(family, iterations=graph.entry(counter))
    state.order = graph.elements(below.get("_trainable_variables"))
    # `_labels` finds the variables for `state.made`, a list of the slots and of all variables
    # that no other field of `state` contains. Collect in `others` the nodes that `_labels` must
    # ignore, such as those of the step counter, the loss scale and the model variables.
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
    if manifest := _manifest(graph, node):
        state.class_name = manifest.class_name
    return state


def _manifest(graph, node):
    found = map(manifest_lib.from_name, graph.children(node))
    return next(filter(None, found), None)


def has_manifest(graph, node):
    """Return whether tf_lso has written a manifest for the optimizer at a node."""
    return _manifest(graph, node) is not None


def listed_slots(graph, node, at):
    """Return what an optimizer lists: the names of its first variables, and its slots.

    Each slot is a pair (name of the slot, node of the model variable). The name is None, or the
    node is `UNKNOWN`, if the checkpoint does not tell them. The node is None if the variable
    belongs to no model variable.

    Args:
      graph: the `ObjectGraph`.
      node: the node of the optimizer, which may be a `LossScaleOptimizer`.
      at: the node of the inner optimizer.
    """
    below = graph.children(at)
    listed = graph.elements(below.get("_variables"))
    order = graph.elements(below.get("_trainable_variables"))
    heads = {below.get(name): "iterations" for name in layouts.ITERATIONS}
    heads[below.get("_learning_rate")] = "learning_rate"
    variables = graph.variables(0, optimizers(graph).values())
    variables |= {child: graph.entry(child) for child in order}
    labels = _labels(graph, node, order, variables, {*heads, *order})
    names = [heads[child] for child in listed if child in heads]
    slots = [labels[child] for child in listed if child not in heads]
    return names, slots


def _of_traced_steps(graph, node):
    """Return the nodes of the variables that tf_lso adds to a SavedModel for traced steps.

    The variables, such as the count of skipped steps, are not part of the optimizer's state.
    The result is a set. It is empty if `node`, the node of the optimizer, has no such
    variables.
    """
    found = [graph.follow(node, path.split("/")) for path in layouts.OF_TRACED_STEPS]
    # A user's optimizer may have an attribute of its own with one of these names, such as
    # "overflowed". So return the nodes only if the first two names in `OF_TRACED_STEPS` exist.
    return set(found) if None not in found[:2] else set()


def _labels(graph, node, order, variables, others):
    """Return a dict that says to which slot each variable of an optimizer belongs.

    The dict maps the node of a variable to a pair (slot, of), which contains the values for the
    fields `slot` and `of` of the variable's `Entry`. The variables that the optimizer lists
    come first, in the order in which the optimizer created the variables.
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
    # Add variables that are not direct attributes of the optimizer, such as variables in nested
    # lists.
    for child in graph.variables(at, others):
        found.setdefault(child, (None, UNKNOWN))
    return found


def _listed_slots(graph, name, node, order, variables):
    """Return the slot variables in a list that an optimizer of Keras has saved.

    `node` is the node of the list, and `name` is the attribute that holds the list. The result
    is a dict. Its keys are the nodes of the slot variables. Each value is a pair of `name` and
    the node of the model variable to which the slot belongs, or `UNKNOWN`. If an element of the
    list is not a variable, the dict is empty.
    """
    entries = {child: graph.entry(child) for child in graph.elements(node)}
    if None in entries.values():
        return {}
    by_name = {
        child: (name, layouts.owner(entry.name, variables))
        for child, entry in entries.items()
    }
    return by_name | {child: (name, of) for child, of in zip(entries, order)}
