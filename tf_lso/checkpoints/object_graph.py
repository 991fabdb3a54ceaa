"""Reads checkpoints of `tf.train.Checkpoint`, and the variables of SavedModels.

Such a file holds tensors by keys, and a graph of the saved objects: which attribute of
which object led to which tensor. The keys differ between versions, but the graph tells
what they mean.
"""

import collections
import contextlib

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts, names
from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.checkpoints.source import Entry, ModelVariable, OptimizerState, Slot, Source

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"

# At most this many paths to one variable are kept: a layer is a child under several
# names.
_MOST_PATHS = 6

# Children of Keras models, which other objects that hold models do not have.
_OF_A_MODEL = ("layer-", "layer_with_weights-", "_functional", "_operations")


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
        self._check(proto)
        self._nodes = proto.nodes

    def _check(self, proto):
        """Raise if the graph refers to objects that it does not have."""
        count = len(proto.nodes)
        if not count:
            raise CheckpointError(
                f"{self.prefix}: the key {GRAPH_KEY} is damaged: it has no objects."
            )
        for node in proto.nodes:
            ids = [child.node_id for child in node.children]
            for slot in node.slot_variables:
                ids += [slot.original_variable_node_id, slot.slot_variable_node_id]
            strays = [i for i in ids if not 0 <= i < count]
            if strays:
                raise CheckpointError(
                    f"{self.prefix}: the key {GRAPH_KEY} is damaged: it names the "
                    f"object {strays[0]} of {count}."
                )

    def _get(self, key):
        what = f"{self.prefix}: the key {key} cannot be read, the file is damaged"
        with refusing(what, tf.errors.OpError):
            return self._reader.get_tensor(key)

    def read(self, entry):
        """Return the value of an `Entry`, a NumPy array."""
        return np.asarray(self._get(entry.key))

    def children(self, node):
        """Return the (name, node) pairs below a node, a list."""
        return [(c.local_name, c.node_id) for c in self._nodes[node].children]

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

    def walk(self, start, but=()):
        """Yield (node, list of paths) of each node below `start` `but` some, nearest first."""
        paths = collections.defaultdict(list)
        paths[start] = [()]
        queue, seen = collections.deque([start]), {start, *but}
        while queue:
            node = queue.popleft()
            yield node, paths[node]
            for name, child in self.children(node):
                ways = [(*path, name) for path in paths[node][:_MOST_PATHS]]
                # A child that was visited already has passed its paths on.
                paths[child] = (paths[child] + ways)[:_MOST_PATHS]
                if child not in seen:
                    seen.add(child)
                    queue.append(child)

    def inner(self, node):
        """Return the node of the optimizer: this one or the one it wraps, or None."""
        below = dict(self.children(node))
        for name in layouts.INNER:
            if name in below and _iterations(dict(self.children(below[name]))):
                return below[name]
        return node if _iterations(below) else None

    def optimizers(self):
        """Return {path: node} of the optimizers; of a wrapper and its inner, the wrapper."""
        found, inside = {}, set()
        for node, paths in self.walk(0):
            if node in inside:
                continue
            if self.inner(node) is not None:
                found["/".join(paths[0])] = node
                inside.update(below for below, _ in self.walk(node))
        return found

    def models(self, optimizers):
        """Return {path: node} of the nodes that may be the model, likeliest first."""
        root = self.children(0)
        if any(name.startswith(_OF_A_MODEL) for name, _ in root):
            return {"": 0}
        found = {
            name: node
            for name, node in root
            if node not in optimizers
            and self.entry(node) is None
            and self._variables(node)
        }
        return {**found, "": 0}  # the root may be a model of a user's class

    def _variables(self, start, but=()):
        """Return {node: (entry, paths)} of the variables below a node."""
        return {
            node: (entry, tuple(paths))
            for node, paths in self.walk(start, but)
            if (entry := self.entry(node)) is not None
        }

    @contextlib.contextmanager
    def source(self, model, optimizer):
        """Return a context with the `Source` of two nodes or None: model and optimizer."""
        optimizers = set(self.optimizers().values())
        found = {} if model is None else self._variables(model, optimizers)
        if model == 0:  # the root also has the counter of tf.train.Checkpoint
            found = {n: (e, p) for n, (e, p) in found.items() if e.name != SAVE_COUNTER}
        index = {node: i for i, node in enumerate(found)}
        variables = [ModelVariable(entry, paths) for entry, paths in found.values()]
        layout, state = "model", None
        if optimizer is not None:
            layout, state = self._optimizer(optimizer, index, variables)
        yield Source(
            path=self.prefix,
            layout=layout,
            variables=variables,
            optimizer=state,
            keys=sorted(key for key in self._shapes if key != GRAPH_KEY),
            read=self.read,
        )

    def _optimizer(self, node, index, variables):
        inner = self.inner(node)
        below = dict(self.children(inner))
        traced = self._of_traced_steps(node)
        layout = self.layout(node)
        state = OptimizerState(layouts.FAMILIES[layout])
        state.iterations = self.entry(_iterations(below))
        built = self._list(below.get("_trainable_variables"))
        state.order = [index.get(variable) for variable in built]
        for name, child in below.items():
            entry = self.entry(child)
            if (
                name in layouts.ITERATIONS
                or name == layouts.COMPUTED
                or child in traced
            ):
                continue
            if entry is None:
                if name not in layouts.NO_SLOTS:
                    self._add_slots(state, name, self._entries(child), variables)
            elif name in layouts.HYPERPARAMETERS:
                state.hyperparameters[layouts.HYPERPARAMETERS[name]] = entry
            else:
                state.scalars[layouts.SCALARS.get(name, name)] = entry
        for owner in dict.fromkeys((inner, node)):
            for slot in self._nodes[owner].slot_variables:
                variable = index.get(slot.original_variable_node_id)
                child = slot.slot_variable_node_id
                if variable is not None and (entry := self.entry(child)):
                    slots = state.slots.setdefault(slot.slot_name, [])
                    slots.append(Slot(entry, variable, len(slots)))
        for path, role in layouts.LOSS_SCALE.items():
            child = self._follow(node, path)
            if child is not None and (entry := self.entry(child)):
                setattr(state, role, entry)
                state.scalars.pop(path[0], None)
        heads = {state.iterations, *state.hyperparameters.values()}
        listed = self._entries(below.get("_variables"))
        state.listed = [entry for entry in listed if entry not in heads]
        if layout == "keras3":
            self._read_keras_3_1(state, below, variables)
        known = {*heads, state.scale, state.count, *state.entries()}
        model = {*index, *built, *traced, below.get(layouts.COMPUTED)}
        found = self._variables(inner, model).values()
        state.others = [entry for entry, _ in found if entry not in known]
        state.class_name = names.optimizer_class(state, of_keras3=layout == "keras3")
        return layout, state

    def _of_traced_steps(self, node):
        """Return the nodes of what only traced steps of tf_lso use, in SavedModels."""
        found = [self._follow(node, path) for path in layouts.OF_TRACED_STEPS]
        # A variable of a user's own class may have one of the names.
        return set() if None in found[:2] else {child for child in found if child}

    def state(self, node):
        """Return the `OptimizerState` of a node, without slots of an OptimizerV2."""
        return self._optimizer(node, {}, [])[1]

    def slot_names(self, node):
        """Return the names of the slots of an optimizer, or of their lists; a set."""
        owners = (node, self.inner(node))
        slots = {
            s.slot_name for owner in owners for s in self._nodes[owner].slot_variables
        }
        return slots | self.state(node).slots.keys()

    def number(self, entry):
        """Return the number in an `Entry`, a float."""
        return float(self.read(entry))

    def _list(self, node):
        """Return the nodes of the elements of a list, empty if it is none."""
        children = [] if node is None else self.children(node)
        numbered = [(int(name), child) for name, child in children if name.isdigit()]
        return [child for _, child in sorted(numbered)]

    def _entries(self, node):
        """Return the variables in a list; empty if anything else is in it."""
        entries = [self.entry(child) for child in self._list(node)]
        return [] if None in entries else entries

    def _add_slots(self, state, name, entries, variables):
        if entries:
            state.slots[name] = [
                Slot(entry, _owner(entry, position, state.order, variables), position)
                for position, entry in enumerate(entries)
            ]

    def _read_keras_3_1(self, state, below, variables):
        """Read the slots of Keras 3.1-3.9, whose lists are empty: `_variables` has all."""
        empty = table.ENDS.keys() & below.keys() - state.slots.keys()
        found = collections.defaultdict(list)
        for entry in state.listed:
            name = names.list_of(entry.name, empty)
            if name:
                found[name].append(entry)
        for name, entries in found.items():
            self._add_slots(state, name, entries, variables)

    def _follow(self, node, path):
        for name in path:
            node = dict(self.children(node)).get(name)
            if node is None:
                return None
        return node

    def layout(self, node):
        """Return the layout of the optimizer at a node, a key of `layouts.LAYOUTS`."""
        inner = self.inner(node)
        below = dict(self.children(inner))
        if "iter" in below:
            return "v2" if inner == node else "2.0-2.2"
        # Optimizers of Keras 3 also list the model variables; in tf_lso's the inner one does.
        return "keras3" if "_trainable_variables" in below else "new"


SAVE_COUNTER = "save_counter"


def _owner(entry, position, order, variables):
    """Return the index of the model variable of a slot, None if the file does not say."""
    if position < len(order):
        return order[position]
    return names.owner(entry.name, variables)


def _iterations(below):
    """Return the node of the step counter among children, or None."""
    return next((below[n] for n in layouts.ITERATIONS if n in below), None)
