"""Make `tf.train.Checkpoint` restore what optimizers of other generations wrote.

TensorFlow finds variables by attributes, which differ between families. From a checkpoint
of 2.0-2.15 it would silently restore only the loss scale into a Keras 3 optimizer.
"""

import re
import weakref

import tensorflow as tf

from tf_lso import keras_versions, log, tf_private
from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts, object_graph, plan, restoring, source, targets
from tf_lso.optimizers import binding, state
from tf_lso.patches.loading_keras2 import is_ours

# Family of an optimizer -> the layouts that TensorFlow restores into it completely.
_OWN = {"keras3": ("keras3",), "legacy": ("v2", "2.0-2.2"), "new": ("new",)}
# Attributes of models of Keras 2 that lead to layers.
_OF_KERAS2 = re.compile("layer-|layer_with_weights-")


def read_all_generations(keras, ledger):
    """Restore checkpoints of all generations whole, or warn of what is left.

    `restore` and CheckpointManager call `read`.
    """

    @ledger.around(tf.train.Checkpoint, "read")
    def read(original, self, save_path, options=None):
        models, optimizers_ = _models(self), _optimizers(self)
        graph = _graph(save_path) if models or optimizers_ else None
        if graph is None:
            return original(self, save_path, options)
        in_file = _in_file(graph, optimizers_)
        _refuse_other_slots(graph, optimizers_, in_file)
        writer = _foreign_writer(graph, models, optimizers_, in_file)
        if writer is None or _root(self) is not self:
            return original(self, save_path, options)
        # One without state in the file, as before the first step, keeps what it has.
        wanted = {path: optimizers_[path] for path in in_file}
        try:
            summaries = _restore(graph, models, wanted, in_file)
        except (TypeError, ValueError) as error:
            log.logger().warning(
                _refusal(save_path, writer, models, optimizers_, error)
            )
            return original(self, save_path, options)
        log.logger().info("tf_lso restored %s: %s", save_path, summaries)
        for name, *inside in optimizers_:
            if not inside and name not in graph.children(0):
                why = "%s: has no optimizer called %r, which keeps its values."
                log.logger().warning(why, save_path, name)
        # TensorFlow restores the rest. It would give the optimizer wrong values.
        done = {*map(id, models.values()), *map(id, wanted.values())}
        children = tf_private.children(self).items()
        others = {n: c for n, c in children if id(c) not in done}
        others.pop(object_graph.SAVE_COUNTER, None)
        rest = tf.train.Checkpoint(**others)
        tf_private.track(rest, self.save_counter, object_graph.SAVE_COUNTER)
        return original(rest, save_path, options).expect_partial()


def refuse_to_lose_slots(keras, ledger):
    """Refuse to lose the slots of a checkpoint that was restored before the build."""

    @ledger.around(tf.train.CheckpointManager, "save")
    @ledger.around(tf.train.Checkpoint, "save")
    @ledger.around(tf.train.Checkpoint, "write")
    def save(original, self, *args, **kwargs):
        is_manager = isinstance(self, tf.train.CheckpointManager)
        saved = self.checkpoint if is_manager else self
        for optimizer in _optimizers(saved).values():
            if is_ours(optimizer) and optimizer._family.slots_wait():
                raise ValueError(state.BUILD_FIRST)
        return original(self, *args, **kwargs)


def _root(checkpoint_):
    """Return the object that a `tf.train.Checkpoint` was given as its root, or itself."""
    root = getattr(checkpoint_, "root", None)
    root = root() if isinstance(root, weakref.ref) else root  # Keras 2 gives one
    return checkpoint_ if root is None else root


def _models(checkpoint_):
    """Return {name: model} of those that a `tf.train.Checkpoint` names."""
    classes = tuple(keras_versions.public(k).Model for k in keras_versions.imported())
    children = tf_private.children(checkpoint_).items()
    return {name: child for name, child in children if isinstance(child, classes)}


def _optimizers(checkpoint_):
    """Return {path: optimizer} of all that a `tf.train.Checkpoint` reaches, nearest first.

    A compiled model has one. A path is a tuple of names, as in the graph of a checkpoint.
    """
    root = _root(checkpoint_)
    found, seen, queue = {}, {id(root)}, [((), root)]
    for path, parent in queue:
        for name, child in tf.train.TrackableView.children(parent).items():
            below = (*path, name)
            if id(child) not in seen:
                seen.add(id(child))
                if binding.is_optimizer(child):
                    found[below] = child
                else:
                    queue.append((below, child))
    return found


def _graph(path):
    """Return the `ObjectGraph` of a path, None if TensorFlow is to say what is wrong."""
    try:
        return object_graph.ObjectGraph(str(path)) if tf.executing_eagerly() else None
    except source.CheckpointError:
        return None


def _in_file(graph, optimizers_):
    """Return {path: node} of the optimizers that the file has too."""
    nodes = {path: graph.follow(0, path) for path in optimizers_}
    return {
        path: node
        for path, node in nodes.items()
        if node is not None and object_graph.inner(graph, node) is not None
    }


def _refuse_other_slots(graph, optimizers_, in_file):
    """Raise if an optimizer was made without the slots in the file, or the reverse.

    TensorFlow would drop them, and set their hyperparameters all the same.
    """
    for path, node in in_file.items():
        optimizer = optimizers_[path]
        if not is_ours(optimizer):
            continue
        inner = optimizer.inner_optimizer
        saved = object_graph.source(graph, None, node)
        slots = saved.optimizer.slots
        is_new = binding.require_family(inner).name == "new"
        # tf_keras makes this slot always; TensorFlow 2.9 and 2.10 did not.
        always = ["momentum"] if is_new and type(inner).__name__ == "SGD" else []
        more, fewer = table.differing_slots(slots, inner, always)
        if slots and (more or fewer):
            kept = table.slots_made(inner) - fewer | more
            remedy = plan.how_to_make(saved, targets.OptimizerTargets(optimizer), kept)
            raise source.CheckpointError(
                f"{graph.prefix} does not fit the optimizer {'.'.join(path)!r}, and "
                "nothing was changed: one of them has the slots "
                f"{', '.join(sorted(more | fewer))}. {remedy}"
            )


def _foreign_writer(graph, models, optimizers_, in_file):
    """Return what wrote a file that TensorFlow restores only in part, a str, or None."""
    for path, node in in_file.items():
        layout = object_graph.layout(graph, node)
        if layout not in _OWN[binding.require_family(optimizers_[path]).name]:
            return layouts.LAYOUTS[layout][1]
    # Without an optimizer, the attributes of the model tell it.
    if keras_versions.has_keras3():
        for name, model in models.items():
            node = graph.follow(0, [name])
            is_of_keras3 = isinstance(model, keras_versions.public("keras").Model)
            is_of_keras2 = any(map(_OF_KERAS2.match, graph.children(node)))
            if is_of_keras3 and (is_of_keras2 or _calls_otherwise(graph, node, model)):
                return "Keras 2"
    return None


def _calls_otherwise(graph, node, model):
    """Whether the file calls a variable of the model as Keras 2 did.

    That called "kernel" what is "_kernel" in Keras 3, which TensorFlow does not find.
    """
    queue, seen = [(node, model)], {id(model)}
    for at, parent in queue:
        names = graph.children(at)
        for name, child in _parts(parent).items():
            if name not in names and graph.entry(names.get(name.removeprefix("_"))):
                return True
            if name in names and id(child) not in seen:
                seen.add(id(child))
                queue.append((names[name], child))
    return False


def _parts(owner):
    """Return {name in a checkpoint: part}; those of Keras 3 have no lists, Keras 2's do."""
    if isinstance(owner, (list, tuple)):
        owner = {str(number): part for number, part in enumerate(owner)}
        return {n: p for n, p in owner.items() if isinstance(p, tf_private.trackable())}
    lists = {n: v for n, v in vars(owner).items() if isinstance(v, (list, tuple))}
    return {**lists, **tf.train.TrackableView.children(owner)}


def _restore(graph, models, optimizers_, in_file):
    """Restore the models, and the optimizer of one; return what was done, a str."""
    if optimizers_ and len(models) * len(optimizers_) != 1:
        raise ValueError(
            "which optimizer is which model's is known to the program only"
        )
    found, path, optimizer = {}, None, None
    if optimizers_:
        ((path, optimizer),) = optimizers_.items()
        # The file may have its optimizer under several names, and lists the shortest.
        listed = {node: name for name, node in object_graph.optimizers(graph).items()}
        found["optimizer"] = listed.get(in_file.get(path), "/".join(path))
    return "; ".join(
        restoring.restore(
            graph.prefix, model=model, optimizer=optimizer, names={"model": n, **found}
        ).summary()
        for n, model in models.items()
    )


def _refusal(path, writer, models, optimizers_, error):
    paths = [".".join(path) for path in optimizers_]
    roles = {"model": list(models)[:1], "optimizer": paths[:1]}
    calls = ", ".join(f"{role}={n}" for role, names in roles.items() for n in names)
    return (
        f"{path}: was written by {writer}. tf.train.Checkpoint restores "
        f"only a part of it: variables of {', '.join([*models, *paths])} keep their "
        "values, and the optimizer's slots and step counter start anew. Call "
        f"tf_lso.checkpoints.restore({path!r}, {calls}), for each pair with "
        "names={'model': ..., 'optimizer': ...}. tf_lso tried that, and it failed: "
        f"{error} See `tf-lso help part`"
    )
