"""`convert`: what legacy programs saved, into a file of Keras 3, tensor by tensor."""

import contextlib
import functools
import os
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from tf_lso.checkpoints import (
    blueprint,
    filling,
    opening,
    restoring,
    virtual,
    without_model,
)
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import ModelTargets
from tf_lso.checkpoints.optimizer_targets import OptimizerTargets
from tf_lso.optimizers import configs

# Format -> how the name of such a file ends.
FORMATS = {"keras": ".keras", "checkpoint": "", "weights.h5": ".weights.h5"}


@contextlib.contextmanager
def _silent(total):
    """The progress that nobody wants to see."""
    del total
    yield lambda done: None


def convert(
    source,
    dest,
    format,
    *,
    model=None,
    optimizer=None,
    partial=False,
    mapping=None,
    names=None,
    force=False,
    progress=_silent,
):
    """Convert a file of any generation into one that Keras 3 and tf_lso read.

    The tensors are read and written one after the other, so that memory is needed for
    the largest of them, and not for the model.

    A checkpoint does not say what the model is. Without `model` it becomes a checkpoint
    whose optimizer has the layout of Keras 3, and whose model variables are known by
    their old names, to `restore`, and by their place in the optimizer, to
    `tf.train.Checkpoint`.

    Args:
      source: str or path, as of `restore`.
      dest: str or path of the new file; of a checkpoint, without ".index".
      format: "keras", a whole model with its optimizer; "weights.h5", for
        `model.load_weights`; or "checkpoint", for `tf.train.Checkpoint(model=...,
        optimizer=...)`.
      model: str, where the file itself does not describe the model: a file that does, or
        "FILE.py:FUNCTION" or "MODULE:FUNCTION", which returns it built.
      optimizer: str, where the file does not describe the optimizer: the name of its
        class, or a .json file with its config.
      partial: bool, whether to convert what fits where not all does.
      mapping: dict, as of `restore`.
      names: dict, as of `restore`.
      force: bool, whether to replace `dest` if it exists.
      progress: function that gets the number of bytes and returns a context manager,
        whose value is called with the bytes of each tensor written.

    Returns:
      A `Report`.

    Raises:
      CheckpointError: if the file cannot be read, is damaged, does not fit, or does not
        say what the model is; or if `dest` exists or does not suit the format.

    Source: an addition; TensorFlow 2.0-2.15 had no such function.
    """
    source, dest = os.fspath(source), os.path.abspath(os.fspath(dest))
    _check_dest(dest, format, force)
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(s()) for s in opening.sources(source, names)]
        plans = blueprint.named(model) if model else blueprint.of(sources[0])
        if plans is None and format != "checkpoint":
            raise blueprint.missing(source)
        if plans is not None and optimizer:
            plans = plans.with_optimizer(optimizer, sources[0].optimizer)
        os.makedirs(os.path.dirname(dest), exist_ok=True)
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(
                prefix=".tf-lso-convert-", dir=os.path.dirname(dest)
            )
        )
        if plans is None:
            path, report = without_model.write(sources, folder, progress)
        else:
            path, report = virtual.in_own_thread(
                lambda: _write(
                    sources, plans, format, folder, partial, mapping, progress
                )
            )
        filling.publish(path, dest)
        return report


def _check_dest(dest, format, force):
    if format not in FORMATS:
        raise CheckpointError(
            f"'format' must be one of {', '.join(FORMATS)}, but got: {format!r}."
        )
    if not dest.endswith(FORMATS[format]):
        raise CheckpointError(
            f"{dest}: a file of the format {format} must be called *{FORMATS[format]}."
        )
    exists = f"{dest}.index" if format == "checkpoint" else dest
    if os.path.exists(exists) and not force:
        raise CheckpointError(f"{exists}: exists. Pass --force to replace it.")


def _write(sources, plans, format, folder, partial, mapping, progress):
    """Write the new file into `folder`; return its path, and the report."""
    try:
        model, optimizer, plan = _planned(plans, sources, mapping, virtual.Scope())
    except _NEEDS_VALUES:
        no_scope = contextlib.nullcontext()
        model, optimizer, plan = _planned(plans, sources, mapping, no_scope)
    if plan.source.optimizer is not None and optimizer is None and not partial:
        raise CheckpointError(
            f"{plan.source.path}: has the state of an optimizer, and nothing says what "
            "it is. Pass --optimizer with the name of its class or a file with its "
            "config, or --partial to leave its state out."
        )
    if not (plan.report.complete or partial):
        raise CheckpointError(restoring.refusal(plan.report))
    values = _settle(plan, model, optimizer)
    plans.compile(model, optimizer)
    path, fill = _template(model, optimizer, format, folder)
    with progress(sum(_size(step) for _, step in values.values())) as done:
        fill(path, values, done)
    return path, plan.report


# What Keras says of a variable that must have its value at once, as Nadam's product; it
# says the same of layers that make such.
_NEEDS_VALUES = (ValueError, AttributeError)


def _planned(plans, sources, mapping, scope):
    """The model and the optimizer, made in `scope`, and the plan for them."""
    optimizer = plans.optimizer()  # whose counters have values
    with scope:
        model = plans.model()
        targets = ModelTargets(model)
        wanted = None
        if optimizer is not None:
            wanted = OptimizerTargets(optimizer)
            wanted.build([t.variable for t in targets.targets if t.variable.trainable])
        return model, optimizer, restoring.likeliest(sources, targets, wanted, mapping)


def _settle(plan, model, optimizer):
    """Give all variables values that stand for what is to be filled in."""
    planned = {id(step.target.variable): (plan.source, step) for step in plan.steps}
    variables = list(model.variables)
    if optimizer is not None:
        variables += list(optimizer.variables)
    numbers = virtual.settle(variables, planned)
    filled = {id(step) for _, step in numbers.values()}
    for step in plan.steps:
        if id(step) not in filled:
            step.target.variable.assign(step.value(plan.source))
    for setting in plan.settings:
        setting()
    return numbers


def _template(model, optimizer, format, folder):
    """Save the model as it is; return the path, and what fills that file."""
    path = str(pathlib.Path(folder) / f"new{FORMATS[format]}")
    if format == "keras":
        model.save(path)
        optimizer = configs.of_keras_alone(optimizer)
        return path, functools.partial(filling.keras, optimizer=optimizer)
    if format == "weights.h5":
        model.save_weights(path)
        return path, filling.h5
    objects = {"model": model}
    if optimizer is not None:
        objects["optimizer"] = optimizer
    return tf.train.Checkpoint(**objects).save(path), filling.checkpoint


def _size(step):
    return int(np.prod(step.target.shape)) * tf.as_dtype(step.target.dtype).size
