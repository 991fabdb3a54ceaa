"""`convert`: make a file of Keras 3 from what legacy programs saved."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from tf_lso import kerases, tf_private, wrapping
from tf_lso.checkpoints import blueprint, opening, restoring
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report
from tf_lso.optimizers.families import keras3_private
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.scaling import loss_scale

# Format -> ending of the file name.
FORMATS = {"keras": ".keras", "checkpoint": "", "weights.h5": ".weights.h5"}

# Keys in the config of a dynamic scale that Keras 3 has too.
_OF_KERAS = {"initial_loss_scale", "increment_period", "multiplier"}


def convert(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    format: str,
    *,
    model: str | None = None,
    optimizer: str | None = None,
    partial: bool = False,
    mapping: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
    force: bool = False,
    progress: Callable[[list[Any]], Iterable[Any]] = iter,
) -> Report:
    """Convert a file of any generation into one that Keras 3 reads by itself.

    This builds the model and the optimizer, restores the file into them, and lets Keras
    save them. The memory must hold the model with its optimizer, and their values a
    second time while they are read.

    Args:
      source: str or path, as for `restore`.
      dest: str or path of the new file; for a checkpoint, without ".index".
      format: "keras", a whole model with its optimizer; "weights.h5", for
        `model.load_weights`; or "checkpoint", for `tf.train.Checkpoint(model=...,
        optimizer=...)`.
      model: str, needed if the file does not describe the model, as is the case with
        checkpoints: a file that describes it, or "FILE.py:FUNCTION" or
        "MODULE:FUNCTION", which returns the built model.
      optimizer: str, needed if the file does not describe the optimizer: the name of its
        class, or a .json file with its config.
      partial: bool, whether to convert what fits if not everything fits.
      mapping: dict, as for `restore`.
      names: dict, as for `restore`.
      force: bool, whether to replace `dest` if it exists.
      progress: function that gets the list of tensors to read and returns an iterable
        of them, as `tqdm.tqdm` does.

    Returns:
      A `Report`.

    Raises:
      CheckpointError: if the file cannot be read, is damaged, does not fit, or does not
        say what the model is; if `dest` exists or does not suit the format; or if this
        TensorFlow has no Keras 3.

    Example:
    >>> import tempfile
    >>> import keras
    >>> from tf_lso import checkpoints
    >>> folder = tempfile.mkdtemp()
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.save(f"{folder}/old.keras")
    >>> report = checkpoints.convert(
    ...     f"{folder}/old.keras", f"{folder}/new.weights.h5", "weights.h5")
    >>> report.complete
    True

    Source: an addition; TensorFlow 2.0-2.15 had no such function.
    """
    if not kerases.has_keras3():
        raise CheckpointError(
            f"convert() makes files of Keras 3, and TensorFlow {tf.__version__} has "
            f"Keras {keras.__version__}. Convert the file where TensorFlow is 2.16 or later, "
            "or restore it here with tf_lso.checkpoints.restore()."
        )
    source, dest = os.fspath(source), os.path.abspath(os.fspath(dest))
    _check_dest(dest, format, force)
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(s()) for s in opening.sources(source, names)]
        plans = blueprint.named(model) if model else blueprint.of(sources[0])
        if plans is None:
            raise blueprint.missing(source)
        state = sources[0].optimizer
        if optimizer:
            plans = plans.with_optimizer(optimizer, state)
        made, inside = plans.model(), plans.optimizer()
        if inside is not None:
            # Files do not say that `compile` wrapped the optimizer of the model.
            inside = wrapping.wrap(inside, made)
        if state is not None and inside is None and not partial:
            raise CheckpointError(
                f"{source}: has the state of an optimizer, and nothing says what it is. "
                "Pass --optimizer (in Python optimizer=) with the name of its class or a "
                "file with its config, or --partial (partial=True) to leave its state "
                "out."
            )
        report = restoring.fill(sources, made, inside, partial, mapping, progress)
    inside = _of_keras(inside)
    plans.compile(made, inside)
    os.makedirs(os.path.dirname(dest), exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".tf-lso-convert-", dir=os.path.dirname(dest)
    ) as folder:
        _publish(_saved(made, inside, format, folder), dest)
    return report


def _check_dest(dest, format, force):
    if format not in FORMATS:
        raise CheckpointError(
            f"'format' must be one of {', '.join(FORMATS)}, but got: {format!r}."
        )
    if not dest.endswith(FORMATS[format]):
        raise CheckpointError(
            f"{dest}: the name of a {format} file must end in {FORMATS[format]}."
        )
    exists = f"{dest}.index" if format == "checkpoint" else dest
    if os.path.exists(exists) and not force:
        raise CheckpointError(
            f"{exists}: exists. Pass --force (in Python force=True) to replace it."
        )


def _of_keras(optimizer):
    """Return what Keras 3 itself has for a LossScaleOptimizer, with the same state.

    In Keras 3 a fixed scale is an argument of the optimizers. Only tf_lso has scales with
    limits or with another multiplier than 2.
    """
    if not isinstance(optimizer, LossScaleOptimizer):
        return optimizer
    inner, scale = optimizer.inner_optimizer, optimizer.loss_scale_state
    if isinstance(scale, loss_scale.FixedLossScale):
        inner.loss_scale_factor = float(scale())
        return inner
    config = scale.get_config()
    if set(config) != _OF_KERAS or config["multiplier"] != 2:
        return optimizer
    own = keras.optimizers.LossScaleOptimizer(
        inner,
        optimizer.initial_scale,
        optimizer.dynamic_growth_steps,
        name=optimizer.name,
    )
    own.build(keras3_private.built_variables(inner))
    own.dynamic_scale.assign(scale())
    own.step_counter.assign(optimizer.dynamic_counter)
    return own


def _saved(model, optimizer, format, folder):
    """Save the model in a folder; return the path, or the prefix of a checkpoint."""
    path = str(pathlib.Path(folder) / f"new{FORMATS[format]}")
    if format == "weights.h5":
        model.save_weights(path)
    elif format == "keras":
        model.save(path)
    else:
        objects = {"model": model}
        if optimizer is not None:
            if not isinstance(optimizer, tf_private.trackable()):
                raise CheckpointError(
                    f"Keras {keras.__version__} takes no optimizer into a checkpoint. "
                    "Choose another format, or a newer Keras."
                )
            objects["optimizer"] = optimizer
        path = tf.train.Checkpoint(**objects).save(path)
    return path


def _files(prefix):
    """Return the files of a checkpoint. The index is last: it makes it a checkpoint."""
    folder, name = os.path.split(prefix)
    found = [
        os.path.join(folder, entry)
        for entry in os.listdir(folder)
        if entry == f"{name}.index" or entry.startswith(f"{name}.data-")
    ]
    return sorted(found, key=lambda path: (path.endswith(".index"), path))


def _publish(path, dest):
    """Move a file, or the checkpoint with this prefix, to its destination.

    It replaces what was there. After a crash there is the new file, the old file or no
    file, but never a part of one.
    """
    if os.path.isfile(path):
        os.replace(path, dest)
        return
    old = set(_files(dest))
    if f"{dest}.index" in old:
        os.remove(f"{dest}.index")
    new = [(file, file.replace(path, dest)) for file in _files(path)]
    for file, place in new:
        os.replace(file, place)
    for file in old - {place for _, place in new} - {f"{dest}.index"}:
        os.remove(file)
