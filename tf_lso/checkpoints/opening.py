"""Find out what a path is, and open it."""

import contextlib
import os
import pathlib
import zipfile

import tensorflow as tf

from tf_lso.checkpoints import checkpoint, h5, keras_files
from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.checkpoints.object_graph import ObjectGraph

_FILES = (".h5", ".hdf5", ".hdf", ".keras")


@contextlib.contextmanager
def opened(path, names=None):
    """Return a context with the possible `Source`s of a path, likeliest first.

    A checkpoint of several models or optimizers has one for each pair of them. `path`
    and `names` are as for `restoring.restore`.
    """
    path = os.fspath(path)
    if zipfile.is_zipfile(path) or (os.path.isfile(path) and path.endswith(_FILES)):
        with h5.opened(path) as reader:
            with refusing(f"{path}: the file is damaged"):
                source = keras_files.source(reader)
            yield [source]
    elif os.path.isfile(os.path.join(path, "saved_model.pb")):
        yield _pairs(os.path.join(path, "variables", "variables"), names)
    else:
        yield _pairs(_prefix(path), names)


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
    graph = ObjectGraph(prefix)
    optimizers = checkpoint.optimizers(graph)
    models = checkpoint.models(graph, optimizers.values())
    found = {"model": models, "optimizer": optimizers}
    for kind, name in (names or {}).items():
        if name not in found.get(kind, ()):
            raise CheckpointError(
                f"{prefix}: has no {kind} called {name!r}, but {sorted(found[kind])}."
                if kind in found
                else f"'names' has the key {kind!r}; it takes 'model' and 'optimizer'."
            )
        found[kind] = {name: found[kind][name]}
    return [
        checkpoint.source(graph, model, optimizer)
        for model in found["model"].values()
        for optimizer in found["optimizer"].values() or [None]
    ]
