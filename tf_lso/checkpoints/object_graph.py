"""Reads the objects and the tensors of a checkpoint of `tf.train.Checkpoint`.

Such a file holds tensors by keys, and a graph of the saved objects: which attribute of
which object led to which tensor. The keys differ between versions, but the graph tells
what they mean.
"""

import collections
import dataclasses

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.checkpoints.source import Entry

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"

# At most this many paths to one variable are kept: a layer is a child under several
# names.
_MOST_PATHS = 6


class ObjectGraph:
    """The objects of one checkpoint, and its tensors. `prefix` is without `.index`."""

    def __init__(self, prefix):
        self.prefix = prefix
        with refusing(f"{prefix}: no checkpoint that can be read", tf.errors.OpError):
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
        with refusing(f"{prefix}: the key {GRAPH_KEY} is damaged", message.DecodeError):
            proto.ParseFromString(self._get(GRAPH_KEY))
            self._nodes, count = proto.nodes, len(proto.nodes)
            self._children = [
                {c.local_name: c.node_id for c in node.children} for node in self._nodes
            ]
            named = {0}.union(*(below.values() for below in self._children))
            for slot in (slot for node in range(count) for slot in self.slots(node)):
                named.update(slot[1:])
            for number in named:
                if not 0 <= number < count:
                    raise IndexError(f"it names the object {number} of {count}")

    def _get(self, key):
        what = f"{self.prefix}: the key {key} cannot be read, the file is damaged"
        with refusing(what, tf.errors.OpError):
            return self._reader.get_tensor(key)

    def read(self, entry):
        """Return the value of an `Entry`, a NumPy array."""
        return np.asarray(self._get(entry.key))

    def keys(self):
        """Return the keys of all tensors, a list."""
        return sorted(key for key in self._shapes if key != GRAPH_KEY)

    def entry(self, node):
        """Return the `Entry` of a node, None if the node is no variable."""
        for attribute in self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE":
                key = attribute.checkpoint_key
                if key not in self._shapes:
                    raise CheckpointError(f"{self.prefix}: the key {key} is missing.")
                shape, dtype = tuple(self._shapes[key]), self._dtypes[key].name
                return Entry(key, attribute.full_name, shape, dtype)
        return None

    def children(self, node):
        """Return the nodes below a node by their names, a dict; empty if it is None."""
        return {} if node is None else self._children[node]

    def follow(self, node, path):
        """Return the node at a path of names below a node, or None."""
        for name in path:
            node = self.children(node).get(name)
        return node

    def elements(self, node):
        """Return the nodes of the elements of a list, empty if the node is none."""
        children = self.children(node).items()
        numbered = sorted((int(n), child) for n, child in children if n.isdigit())
        return [child for _, child in numbered]

    def slots(self, node):
        """Return (slot name, node of its model variable, its node) of an optimizer."""
        return [
            (s.slot_name, s.original_variable_node_id, s.slot_variable_node_id)
            for s in self._nodes[node].slot_variables
        ]

    def walk(self, start, but=()):
        """Yield (node, list of paths) of each node below `start` `but` some, nearest first."""
        paths = collections.defaultdict(list)
        paths[start] = [()]
        queue, seen = collections.deque([start]), {start, *but}
        while queue:
            node = queue.popleft()
            yield node, paths[node]
            for name, child in self.children(node).items():
                ways = [(*path, name) for path in paths[node][:_MOST_PATHS]]
                # A child that was visited already has passed its paths on.
                paths[child] = (paths[child] + ways)[:_MOST_PATHS]
                if child not in seen:
                    seen.add(child)
                    queue.append(child)

    def variables(self, start, but=()):
        """Return {node: its `Entry`, with paths} of the variables below a node."""
        return {
            node: dataclasses.replace(entry, paths=tuple(paths))
            for node, paths in self.walk(start, but)
            if (entry := self.entry(node)) is not None
        }
