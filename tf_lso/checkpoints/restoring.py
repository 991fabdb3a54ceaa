"""The public function `restore`."""

import collections
import contextlib
import os
import pathlib
import zipfile
from typing import Any

import tensorflow as tf

from tf_lso.checkpoints import h5, matching, object_graph, plan
from tf_lso.checkpoints.model_targets import ModelTargets
from tf_lso.checkpoints.optimizer_targets import OptimizerTargets
from tf_lso.checkpoints.restore_report import RestoreReport, counts
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.optimizers import wrapping

_FILES = (".h5", ".hdf5", ".hdf", ".keras")


def restore(
    path: str | os.PathLike[str],
    *,
    model: Any,
    optimizer: Any = None,
    partial: bool = False,
    mapping: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
) -> RestoreReport:
    """Restore a file of TensorFlow 2.0-2.15, tf_keras or Keras 3.

    The function restores weights, slots, the step counter, hyperparameters, the loss scale,
    and the count of consecutive finite steps. If something is missing or does not fit, the
    function raises CheckpointError and changes nothing.

    Args:
      path: str or path. A checkpoint of `tf.train.Checkpoint` or `model.save_weights`,
        with or without ".index"; a folder of checkpoints, of which the latest is read; a
        SavedModel; or an .h5, .keras or .weights.h5 file.
      model: a built model of Keras 3 or Keras 2 with the architecture that was saved.
      optimizer: an optimizer of the class that was saved, with or without a
        `tf_lso.LossScaleOptimizer` around it. The optimizer is built if necessary. Defaults
        to None, which restores only the model.
      partial: bool, whether to restore what fits if not everything fits. Defaults to
        False.
      mapping: {name in the file: name in the model} for layers or variables whose names or
        order differ, such as {"dense_7": "head"}. Names in the file may also be paths:
        {"layer_with_weights-0/kernel": "embedding/embeddings"}. Defaults to None.
      names: the names of the model and the optimizer in a checkpoint with several models or
        optimizers, such as {"model": "generator", "optimizer": "generator_optimizer"}.
        Defaults to None.

    Returns:
      A `RestoreReport`, which names every key and variable.

    Raises:
      CheckpointError: if the file cannot be read, is damaged, or does not fit.
      TypeError: if `model` is not a model, or `optimizer` is not an optimizer.

    Example:
    >>> import tempfile
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> from tf_lso import checkpoints
    >>> model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    >>> model.compile(opt)
    >>> path = tempfile.mkdtemp() + "/model.keras"
    >>> model.save(path)
    >>> checkpoints.restore(path, model=model, optimizer=opt).complete
    True

    Source: `tf.train.Checkpoint.restore` of TensorFlow 2.0-2.15, which restores only files of
    the same version.
    """
    if path is None:
        raise CheckpointError(
            "'path' is None. tf.train.latest_checkpoint(folder) returns None if the folder "
            "has no checkpoint: pass the folder itself, or start without a checkpoint."
        )
    if not hasattr(model, "weights"):
        raise TypeError(
            f"'model' must be a built model of Keras, but got {model!r}. Slots belong to "
            "model variables, so restore() needs the model of the optimizer, too."
        )
    with opened(path, names) as sources:
        targets, wanted = ModelTargets(model), None
        if optimizer is not None:
            wanted = OptimizerTargets(optimizer)
            for source in sources:
                wanted.check_class(source)
            wanted.build(targets)
        made = _likeliest(sources, targets, wanted, mapping, partial)
        if not (made.report.complete or partial):
            raise CheckpointError(_refusal(made.report))
        made.apply()
    if optimizer is not None:
        wrapping.warn_if_not_scaled(
            optimizer, model, "The optimizer given to restore()"
        )
    return made.report


@contextlib.contextmanager
def opened(path, names=None):
    """Open a saved file for a `with` block, and yield a list of `Source`s, likeliest first.

    A checkpoint or a SavedModel has a `Source` for each pair of a model and an optimizer.
    """
    path = os.fspath(path)
    if zipfile.is_zipfile(path) or (os.path.isfile(path) and path.endswith(_FILES)):
        with h5.opened(path) as source:
            yield [source]
    elif os.path.isfile(os.path.join(path, "saved_model.pb")):
        yield _pairs(os.path.join(path, "variables", "variables"), names)
    else:
        yield _pairs(_prefix(path), names)


def _prefix(path):
    prefix, folder = path.removesuffix(".index"), os.path.dirname(path)
    if os.path.isdir(path):
        prefix, folder = tf.train.latest_checkpoint(path), path
    if prefix and os.path.exists(f"{prefix}.index"):
        return prefix
    there = ", ".join(sorted(p.stem for p in pathlib.Path(folder).glob("*.index"))[:10])
    raise CheckpointError(
        f"{path}: there is no checkpoint, SavedModel, .h5 or .keras file; the "
        f"checkpoints in that folder are: {there or 'none'}."
    )


def _pairs(prefix, names):
    graph = object_graph.ObjectGraph(prefix)
    optimizers = object_graph.optimizers(graph)
    models = object_graph.models(graph, optimizers.values())
    found = {"model": models, "optimizer": optimizers}
    for kind, name in (names or {}).items():
        if name not in found.get(kind, ()):
            has = " and ".join(f"{kind} {sorted(found[kind])}" for kind in found)
            what = f"has no {kind} called {name!r}. 'names' can choose from {has}."
            raise CheckpointError(f"{prefix} {what}")
        found[kind] = {name: found[kind][name]}
    return [
        object_graph.source(graph, model, optimizer)
        for model in found["model"].values()
        for optimizer in found["optimizer"].values() or [None]
    ]


def _likeliest(sources, targets, optimizer, mapping, partial):
    """Return the `Plan` with the fewest missing and wrong variables.

    Raise CheckpointError if only the user can choose between several plans.
    """
    plans, refusals = [], []
    for source in sources:
        try:
            plans.append(plan.Plan(source, targets, optimizer, mapping))
        except CheckpointError as error:
            refusals.append((source, error))
    if not plans:
        raise refusals[0][1]
    best = min(plans, key=_gaps)
    for source, refusal in refusals:
        is_same = source.variables.keys() == best.source.variables.keys()
        if is_same and isinstance(refusal, matching.ConflictError):
            raise refusal
    is_other = optimizer is not None and _may_be_other_optimizer(best, sources)
    is_used = best.report.complete or partial
    if is_used and (is_other or _may_be_other(best, plans)):
        raise CheckpointError(
            f"{best.source.path} has several models or optimizers that fit. Choose by "
            "names={'model': ..., 'optimizer': ...}, with the names that the program gave "
            "to tf.train.Checkpoint."
        )
    return best


def _may_be_other(best, plans):
    """Return whether a plan that is as good restores a variable from other tensors."""
    of_best, gaps = _keys_by_target(best), _gaps(best)
    as_good = [p for p in plans if p.report.complete or _gaps(p) == gaps]
    return any(
        keys[target] != of_best[target]
        for keys in map(_keys_by_target, as_good)
        for target in keys.keys() & of_best.keys()
    )


def _may_be_other_optimizer(best, sources):
    """Return whether the optimizer in `best` has made no step, but another one has.

    A saved optimizer without any step fits every optimizer, so a good match proves nothing.
    """
    return not _has_stepped(best.source) and any(map(_has_stepped, sources))


def _has_stepped(source):
    state = source.optimizer
    return bool(state and state.iterations and source.number(state.iterations))


def _gaps(made):
    report = made.report
    return len(report.missing) + len(report.wrong), len(report.unused)


def _keys_by_target(made):
    """Return {name of one or several variables: keys of their tensors}."""
    found = collections.defaultdict(set)
    for key, target, *_ in (*made.report.restored, *made.report.converted):
        found[target].add(key)
    return found


def _refusal(report):
    rows = [f"missing in the file: {name}" for name in report.missing]
    rows += [f"wrong: {key} for {name} ({what})" for key, name, what in report.wrong]
    if len(rows) > 20:
        rows[20:] = [f"and {len(rows) - 20} more"]
    shown = "\n  ".join(["", *rows])
    remedy = f"{report.remedy} Or pass" if report.remedy else "Pass"
    return (
        f"{report.path} does not fit, and nothing was changed. "
        f"layout {report.layout}: {counts(report, refused=True)}.{shown}"
        f"\n{remedy} partial=True to restore what fits, or mapping={{name in the file: "
        "name in the model} if layers are named or ordered differently."
    )
