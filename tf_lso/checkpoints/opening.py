"""Find out what a path is, and open it."""

import functools
import os
import pathlib
import zipfile

import tensorflow as tf

from tf_lso.checkpoints import hdf5, keras_archive, object_graph
from tf_lso.checkpoints.errors import CheckpointError

_H5 = (".h5", ".hdf5", ".hdf")


def sources(path, names=None):
    """Return functions that open the possible `Source`s of a path, likeliest first.

    A checkpoint of several models or optimizers has one for each pair of them. `path`
    and `names` are as for `restoring.restore`.
    """
    path = os.fspath(path)
    is_zip = zipfile.is_zipfile(path)
    if is_zip or (os.path.isfile(path) and path.endswith(_H5)):
        as_keras_3 = is_zip or keras_archive.is_weights_file(path)
        reader = keras_archive if as_keras_3 else hdf5
        return [functools.partial(reader.source, path)]
    if path.endswith(".keras") and os.path.isfile(path):
        raise CheckpointError(
            f"{path}: no .keras file that can be read: no zip archive."
        )
    if os.path.isfile(os.path.join(path, "saved_model.pb")):
        return _pairs(os.path.join(path, "variables", "variables"), names)
    return _pairs(_prefix(path), names)


def _prefix(path):
    """Return the checkpoint that a path means, without ".index"."""
    if os.path.isdir(path):
        latest = tf.train.latest_checkpoint(path)
        if latest is None:
            raise CheckpointError(
                f"{path}: a folder without a checkpoint. Give the path of one, for "
                "instance .../ckpt-1, or of a SavedModel."
            )
        return latest
    prefix = path.removesuffix(".index")
    if not os.path.exists(f"{prefix}.index"):
        near = sorted(p.stem for p in pathlib.Path(path).parent.glob("*.index"))
        there = f"; there are: {', '.join(near[:10])}" if near else ""
        raise CheckpointError(
            f"{path}: there is no such checkpoint, SavedModel, .h5 or .keras file{there}."
        )
    return prefix


def _pairs(prefix, names):
    graph = object_graph.ObjectGraph(prefix)
    optimizers = graph.optimizers()
    models = graph.models(set(optimizers.values()))
    names = dict(names or {})
    models = _chosen(prefix, "model", models, names.pop("model", None))
    optimizers = _chosen(prefix, "optimizer", optimizers, names.pop("optimizer", None))
    if names:
        raise CheckpointError(
            f"'names' has the key {next(iter(names))!r}; it takes 'model' and "
            "'optimizer'."
        )
    return [
        functools.partial(graph.source, model, optimizer)
        for model in models.values() or [None]
        for optimizer in optimizers.values() or [None]
    ]


def _chosen(prefix, kind, found, name):
    if name is None:
        return found
    if name not in found:
        raise CheckpointError(
            f"{prefix}: has no {kind} called {name!r}, but {sorted(found)}."
        )
    return {name: found[name]}
