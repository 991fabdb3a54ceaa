"""Make `tf.train.Checkpoint` restore what optimizers of other generations wrote.

TensorFlow finds variables by the attributes that lead to them, and these differ between
families. From a checkpoint of TensorFlow 2.0-2.15 it would silently restore nothing but
the loss scale into a Keras 3 optimizer.
"""

import tensorflow as tf

from tf_lso import kerases, log, pages, tf_private
from tf_lso import optimizer_table as table
from tf_lso.checkpoints import (
    errors,
    layouts,
    object_graph,
    optimizer_targets,
    plan,
    restoring,
)
from tf_lso.optimizers import binding, loss_scale_optimizer

# Family of an optimizer -> the layouts that TensorFlow restores into it completely.
_OWN = {"keras3": ("keras3",), "legacy": ("v2", "2.0-2.2"), "new": ("new",)}

_COUNTER = object_graph.SAVE_COUNTER


def apply(ledger):
    """Make `tf.train.Checkpoint` restore old checkpoints completely, or warn."""
    owner = tf.train.Checkpoint  # its `restore` and CheckpointManager call `read`
    original = owner.read

    def read(self, save_path, options=None):
        models, optimizers_, others = _children(self)
        _refuse_other_slots(optimizers_, save_path)
        layout = _foreign_layout(models, optimizers_, save_path)
        if layout is None:
            return original(self, save_path, options)
        try:
            report = _restore(save_path, models, optimizers_)
        except (TypeError, ValueError) as error:
            log.logger().warning(
                _refusal(save_path, layout, models, optimizers_, error)
            )
            return original(self, save_path, options)
        log.logger().info("tf_lso restored %s: %s", save_path, report.summary())
        # TensorFlow restores the rest. It would give the optimizer wrong values.
        rest = tf.train.Checkpoint(**others)
        tf_private.track(rest, self.save_counter, _COUNTER)
        return original(rest, save_path, options).expect_partial()

    ledger.replace(owner, "read", read)


def _children(checkpoint):
    """Return the models, the optimizers and the other objects of it by their names."""
    classes = tuple(kerases.public(package).Model for package in kerases.imported())
    models, optimizers_, others = {}, {}, {}
    for name, child in tf_private.children(checkpoint).items():
        if isinstance(child, classes):
            models[name] = child
        elif binding.is_optimizer(child):
            optimizers_[name] = child
        elif name != _COUNTER:
            others[name] = child
    return models, optimizers_, others


def _refuse_other_slots(optimizers_, path):
    """Raise if an optimizer was made without the slots in the file, or the reverse.

    TensorFlow would drop them, and set their hyperparameters all the same.
    """
    wrapped = {
        name: optimizer
        for name, optimizer in optimizers_.items()
        if isinstance(optimizer, loss_scale_optimizer.LossScaleOptimizer)
    }
    if not wrapped or not tf.executing_eagerly():
        return
    try:
        graph = object_graph.ObjectGraph(str(path))
    except errors.CheckpointError:
        return  # TensorFlow reports what is wrong
    in_file = graph.optimizers()
    for name in wrapped.keys() & in_file.keys():
        inner, node = wrapped[name].inner_optimizer, in_file[name]
        slots = graph.slot_names(node)
        is_new = binding.require_family(inner).name == "new"
        # tf_keras makes this slot always; TensorFlow 2.9 and 2.10 did not.
        always = ["momentum"] if is_new and type(inner).__name__ == "SGD" else []
        more, fewer = table.differing_slots(slots, inner, always)
        if slots and (more or fewer):
            targets = optimizer_targets.OptimizerTargets(wrapped[name])
            kept = table.slots_made(inner) - fewer | more
            remedy = plan.remedy(graph.state(node), targets, kept, graph.number)
            raise errors.CheckpointError(
                f"{path} does not fit the optimizer {name!r}, and nothing was changed: one "
                f"of them has the slots {', '.join(sorted(more | fewer))}. {remedy}"
            )


def _foreign_layout(models, optimizers_, path):
    """Return the layout of a file that TensorFlow restores only in part, or None."""
    if not (models or optimizers_) or not tf.executing_eagerly():
        return None
    try:
        graph = object_graph.ObjectGraph(str(path))
    except errors.CheckpointError:
        return None  # TensorFlow reports what is wrong
    in_file = graph.optimizers()
    for name, optimizer in optimizers_.items():
        if name in in_file:
            layout = graph.layout(in_file[name])
            if layout not in _OWN[binding.require_family(optimizer).name]:
                return layout
    # Without an optimizer, the attributes of the model tell the layout.
    below = dict(graph.children(0)) if kerases.has_keras3() else {}
    for name, model in models.items():
        if name in below and isinstance(model, kerases.public("keras").Model):
            steps = [step for step, _ in graph.children(below[name])]
            if any(s.startswith(("layer-", "layer_with_weights-")) for s in steps):
                return "model"
    return None


def _restore(path, models, optimizers_):
    if len(models) != 1 or len(optimizers_) > 1:
        raise ValueError(
            "which optimizer is which model's is known to the program only"
        )
    pair = {"model": models, "optimizer": optimizers_}
    names = {role: name for role, found in pair.items() for name in found}
    objects = {role: one for role, found in pair.items() for one in found.values()}
    return restoring.restore(path, **objects, names=names)


def _refusal(path, layout, models, optimizers_, error):
    named = ", ".join([*models, *optimizers_])
    roles = {"model": list(models)[:1], "optimizer": list(optimizers_)[:1]}
    calls = ", ".join(f"{role}={n}" for role, names in roles.items() for n in names)
    return (
        f"{path}: was written by {layouts.LAYOUTS[layout]}. tf.train.Checkpoint restores "
        f"only a part of it: variables of {named} keep their values, and the optimizer's "
        f"slots and step counter start anew. Call tf_lso.checkpoints.restore({path!r}, "
        f"{calls}), for each pair with names={{'model': ..., 'optimizer': ...}}. tf_lso "
        f"tried that, and it failed: {error} See {pages.troubleshooting('part')}"
    )
