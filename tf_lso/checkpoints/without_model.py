"""Converts a checkpoint that does not say what the model is into a checkpoint.

The optimizer gets the layout of Keras 3. The variables of the model keep the ways to
them that the file has; and the optimizer leads to those that it updates.
"""

import os

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tf_lso.checkpoints import filling, object_graph
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report
from tf_lso.optimizers import slots as slots_lib

_VALUE = ".ATTRIBUTES/VARIABLE_VALUE"


class _Writer:
    """An object graph that grows, and the entries that its variables come from."""

    def __init__(self):
        self.proto = trackable_object_graph_pb2.TrackableObjectGraph()
        self.root = self.node()
        self.entries = {}  # key -> entry
        self.constants = {}  # key -> tensor
        self._children = {}

    def node(self):
        self.proto.nodes.add()
        return len(self.proto.nodes) - 1

    def child(self, parent, name):
        """The child of a node of this name, made if there is none."""
        if (parent, name) not in self._children:
            self.link(parent, name, self.node())
        return self._children[parent, name]

    def link(self, parent, name, node):
        self._children[parent, name] = node
        self.proto.nodes[parent].children.add(node_id=node, local_name=name)

    def at(self, path):
        node = self.root
        for name in path:
            node = self.child(node, name)
        return node

    def variable(self, path, entry):
        """Put a variable at a path; return its node."""
        key = self._value(path, entry.name)
        self.entries[key] = entry
        return self.at(path)

    def constant(self, path, value, dtype):
        """Put a variable of this value at a path."""
        self.constants[self._value(path, path[-1])] = tf.constant(value, dtype)

    def _value(self, path, name):
        key = "/".join((*path, _VALUE))
        self.proto.nodes[self.at(path)].attributes.add(
            name="VARIABLE_VALUE", full_name=name, checkpoint_key=key
        )
        return key


def write(sources, folder, progress):
    """Write the checkpoint into `folder`.

    Args:
      sources: list of `Source`, of one checkpoint.
      folder: str.
      progress: as of `converting.convert`.

    Returns:
      Its prefix, and a `Report`.

    Raises:
      CheckpointError: if the checkpoint has several models or optimizers.
    """
    source = _the_one(sources)
    if source.optimizer is not None and source.optimizer.listed:
        raise CheckpointError(
            f"{source.path}: does not say which slot is which without the model. Pass "
            "--model."
        )
    writer = _Writer()
    nodes = [
        writer.variable(("model", *variable.paths[0]), variable.entry)
        for variable in source.variables
    ]
    if source.optimizer is not None:
        _write_optimizer(writer, source, nodes)
    for entry in source.others:
        if entry.key == f"{object_graph.SAVE_COUNTER}/{_VALUE}":
            writer.variable((object_graph.SAVE_COUNTER,), entry)
    report = Report(source.path, source.layout)
    for key, entry in writer.entries.items():
        name = key.removesuffix(f"/{_VALUE}")
        how = "another layout"
        if key == entry.key:
            report.restored.append((entry.key, name))
        else:
            report.converted.append((entry.key, name, how))
    used = {entry.key for entry in writer.entries.values()}
    entries = [variable.entry for variable in source.variables]
    entries += source.optimizer.entries() if source.optimizer else []
    report.unused += [e.key for e in (*entries, *source.others) if e.key not in used]
    prefix = os.path.join(folder, "new")
    writer.constants[object_graph.GRAPH_KEY] = tf.constant(
        writer.proto.SerializeToString()
    )

    def tensor_of(key):
        if key in writer.constants:
            return writer.constants[key]
        entry = writer.entries[key]
        if source.read_tensor is not None:
            return source.read_tensor(entry)
        return tf.convert_to_tensor(source.read(entry))

    sizes = [_size(entry) for entry in writer.entries.values()]
    with progress(sum(sizes)) as done:
        keys = sorted((*writer.entries, *writer.constants))
        filling.write_checkpoint(prefix, keys, tensor_of, done)
    return prefix, report


def _the_one(sources):
    """The pair of model and optimizer of the checkpoint, if there is but one."""
    found = max(sources, key=lambda s: (s.optimizer is not None, len(s.variables)))
    owners = {slot.variable for slots in _slots(found).values() for slot in slots}
    others = [s for s in sources if s is not found and s.optimizer and s.variables]
    if others and None in owners:
        raise CheckpointError(
            f"{found.path}: has several models or optimizers. Say which by --name: "
            "--name model=generator --name optimizer=generator_optimizer."
        )
    return found


def _slots(source):
    return source.optimizer.slots if source.optimizer else {}


def _write_optimizer(writer, source, nodes):
    state = source.optimizer
    path = ("optimizer", "inner_optimizer") if state.wrapped else ("optimizer",)
    if state.wrapped:  # Keras 3 gives the wrapper these too, and does not use them
        writer.constant(("optimizer", "_iterations"), 0, tf.int64)
        writer.constant(("optimizer", "_learning_rate"), 0.0, tf.float32)
    for name, entry in (
        ("_iterations", state.iterations),
        ("_learning_rate", state.hyperparameters.get("learning_rate")),
        ("_u_product", state.scalars.get("momentum_cache")),
    ):
        if entry is not None:
            writer.variable((*path, name), entry)
    order = _order(state)
    for place, index in enumerate(order):
        writer.link(
            writer.at((*path, "_trainable_variables")), str(place), nodes[index]
        )
    for name, slots in state.slots.items():
        first, *more = _attributes(name, state.class_name)
        for slot in slots:
            place = (
                slot.position if slot.variable is None else order.index(slot.variable)
            )
            node = writer.variable((*path, first, str(place)), slot.entry)
            for attribute in more:
                writer.link(writer.at((*path, attribute)), str(place), node)
    for name, entry in (
        ("current_loss_scale", state.scale),
        ("good_steps", state.count),
    ):
        if entry is not None:
            writer.variable(("optimizer", "loss_scale", name), entry)


def _order(state):
    """The indices of the variables that the optimizer updates, in its order."""
    known = [
        [slot.variable for slot in slots]
        for slots in state.slots.values()
        if all(slot.variable is not None for slot in slots)
    ]
    return max(known, key=len) if known else []


def _attributes(slot, class_name):
    """The lists that today's optimizers keep a slot in: of the class, or of any."""
    classes = [class_name] if class_name in slots_lib.SLOTS else slots_lib.SLOTS
    tables = [slots_lib.SLOTS[name] | slots_lib.AVERAGE for name in classes]
    found = [n for table in tables for n in table.get(slot, "").split("|") if n]
    return list(dict.fromkeys(found)) or [slot]  # the newer ones' own name for it


def _size(entry):
    elements = 1
    for length in entry.shape:
        elements *= length
    return elements * tf.as_dtype(entry.dtype).size
