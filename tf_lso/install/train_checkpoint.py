"""Make `tf.train.Checkpoint` refuse to restore or save an optimizer incompletely.

TensorFlow finds variables by the names of attributes. These names differ between the
families of optimizers, and between Keras 2 and Keras 3. For instance, TensorFlow would
silently restore only the loss scale from a checkpoint of TensorFlow 2.0-2.15 into a Keras 3
optimizer.
"""

import re
import weakref

import tensorflow as tf

from tf_lso.checkpoints import layouts, object_graph, source
from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table
from tf_lso.install.loading_keras2 import is_ours
from tf_lso.optimizers import binding, state
from tf_lso.optimizers import manifest as manifest_lib

# Maps each family of optimizers to the layouts of checkpoints that TensorFlow restores
# completely into optimizers of this family. A layout is a key of `layouts.LAYOUTS`, and stands
# for the names under which a checkpoint stores the variables of an optimizer.
_OWN = {"keras3": ("keras3",), "legacy": ("v2", "2.0-2.2"), "new": ("new",)}

# Matches the names under which a checkpoint of Keras 2 lists the layers of a model, such as
# "layer-0" or "layer_with_weights-0".
_OF_KERAS2 = re.compile("layer-|layer_with_weights-")


def refuse_other_generations(keras, ledger):
    """Refuse a checkpoint that TensorFlow would silently restore only in part.

    Only `read` is changed, because `Checkpoint.restore` and CheckpointManager call it.
    """

    @ledger.around(tf.train.Checkpoint, "read")
    def read(original, self, save_path, options=None):
        graph, found = _objects_in(save_path, _root(self))
        writer = _other_writer(graph, found)
        if writer is not None:
            raise source.CheckpointError(
                f"{save_path} was written by {writer}. tf.train.Checkpoint would restore "
                "only a part of it into this program's Keras, so nothing was restored. "
                f"Call tf_lso.checkpoints.restore({str(save_path)!r}, model=..., "
                "optimizer=...), or run the program with the Keras that wrote the file: "
                "tf-lso run --like 2.4 (replace 2.4 by the program's TensorFlow version). See "
                "`tf-lso help part`"
            )
        put_back = []
        for node, owner in found:
            if is_ours(owner):
                owner._state.told = _manifest_of(graph, node, owner, found)
                manifest = object_graph.manifest(graph, node)
                if manifest is not None and not manifest.is_built:
                    put_back.append(owner._state.keep_slots())
        try:
            return original(self, save_path, options)
        except ValueError:
            # Another optimizer refuses the checkpoint after the slots of these were reset.
            for set_slots in put_back:
                set_slots()
            raise


def refuse_to_lose_slots(keras, ledger):
    """Refuse to save before the optimizer is built if restored slots would be lost.

    TensorFlow keeps restored slots until the optimizer is built, and does not save them.
    """

    @ledger.around(tf.train.CheckpointManager, "save")
    @ledger.around(tf.train.Checkpoint, "save")
    @ledger.around(tf.train.Checkpoint, "write")
    def save(original, self, *args, **kwargs):
        is_manager = isinstance(self, tf.train.CheckpointManager)
        for part in _parts(_root(self.checkpoint if is_manager else self)):
            if is_ours(part) and part._family.slots_wait():
                raise ValueError(state.BUILD_FIRST)
        return original(self, *args, **kwargs)


def _root(checkpoint):
    root = getattr(checkpoint, "root", None)
    # In Keras 2 the attribute `root` is a weak reference to the root object.
    root = root() if isinstance(root, weakref.ref) else root
    return checkpoint if root is None else root


def _parts(root):
    return tf.train.TrackableView(root).descendants()


def _objects_in(path, root):
    """Return the object graph of a checkpoint, and its objects that the program has.

    The objects are pairs of a node of the graph and the object into which TensorFlow would
    restore this node. If the file cannot be read, there are none.
    """
    if not tf.executing_eagerly():
        return None, []
    try:
        graph = object_graph.ObjectGraph(str(path))
    except source.CheckpointError:
        # TensorFlow will raise an error that says why.
        return None, []
    seen, queue = {id(root)}, [(0, root)]
    for node, owner in queue:
        # An optimizer lists model variables too, but in the order of its build.
        names = {} if binding.is_optimizer(owner) else graph.children(node)
        for name, child in tf.train.TrackableView.children(owner).items():
            if name in names and id(child) not in seen:
                seen.add(id(child))
                queue.append((names[name], child))
    return graph, queue


def _other_writer(graph, found):
    """Return who wrote a checkpoint of which TensorFlow would silently restore only a part.

    The result is a str such as "Keras 3 or tf_lso", or None for other checkpoints.
    """
    for node, owner in found:
        is_optimizer = binding.is_optimizer(owner)
        writer_of = _writer_of_optimizer if is_optimizer else _writer_of_layer
        writer = writer_of(graph, node, owner)
        if writer is not None:
            return writer
    return None


def _manifest_of(graph, node, optimizer, found):
    """Return a `Manifest` for an optimizer in a checkpoint that also contains the model.

    The object graph shows to which model variables the slots belong, and TensorFlow restores
    the model by this graph. If the graph does not show it for every slot, return None. Then
    the manifest in the checkpoint decides, or the order of the variables if there is none.
    """
    family = optimizer._family
    at = object_graph.inner(graph, node)
    if family.name == "legacy" or at is None:
        return None
    in_file = object_graph.manifest(graph, node)
    heads, slots = object_graph.listed_slots(graph, node, at)
    if any(slot is None or of == source.UNKNOWN for slot, of in slots):
        return None
    # The newer optimizers of Keras 2 do not list the model variables.
    built = graph.elements(graph.children(at).get("_trainable_variables"))
    built = list(dict.fromkeys([*built, *(of for _, of in slots if of is not None)]))
    owners = {
        node: owner
        for node, owner in found
        if isinstance(owner, tf.Variable) or hasattr(owner, "assign")
    }
    known = [of in owners for of in built]
    if not (any(known) if in_file is None else built and all(known)):
        return None
    names = table.slot_of_attributes(family.inner)
    slots = [(names.get(slot, slot), of) for slot, of in slots]
    if in_file is not None and in_file.names != {slot for slot, _ in slots}:
        return None
    _, key = family.known_variables()
    return manifest_lib.Manifest(
        in_file and in_file.class_name,
        family.name,
        len(heads),
        heads,
        [(slot, None if of is None else built.index(of)) for slot, of in slots],
        [
            manifest_lib.path_of(owners[of]) if of in owners else f"node {of}"
            for of in built
        ],
        True,
        [key(owners[of]) if of in owners else None for of in built],
    )


def _writer_of_optimizer(graph, node, optimizer):
    if object_graph.inner(graph, node) is None:
        return None
    layout = object_graph.layout(graph, node)
    is_own = layout in _OWN[binding.require_family(optimizer).name]
    return None if is_own else layouts.LAYOUTS[layout][1]


def _writer_of_layer(graph, node, layer):
    """Return "Keras 2" if Keras 2 wrote the checkpoint of a Keras 3 layer, or None."""
    if not keras_versions.has_keras3():
        return None
    if not isinstance(layer, keras_versions.public("keras").layers.Layer):
        return None
    names = graph.children(node)
    # For instance, Keras 2 saves a variable as "kernel", and Keras 3 saves it as "_kernel".
    renamed = [
        name
        for name in tf.train.TrackableView.children(layer)
        if name not in names and graph.entry(names.get(name.removeprefix("_")))
    ]
    return "Keras 2" if renamed or any(map(_OF_KERAS2.match, names)) else None
