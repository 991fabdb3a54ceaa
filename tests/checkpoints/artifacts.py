"""Unpack the files that old versions of TensorFlow saved, and continue their training.

`record/README.md` describes these files.
"""

import functools
import json
import pathlib
import tarfile
import tempfile

import numpy as np
import tensorflow as tf

import tf_lso
from tests.families import PACKAGES, bare_step, legacy_step, numpy
from tf_lso.optimizers import config as configs

RECORD = pathlib.Path(__file__).parent / "record"
VERSIONS = sorted(p.name.split(".tar")[0] for p in RECORD.glob("*[0-9s].tar.xz"))

# `tarfile` of Python 3.11.3 and earlier has no filters.
_FILTER = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

_unpacked = tempfile.TemporaryDirectory(prefix="tf_lso-artifacts-")


@functools.cache
def folder(version):
    """Unpack the archive of a version, and return the path of its folder."""
    path = pathlib.Path(_unpacked.name) / version
    with tarfile.open(RECORD / f"{version}.tar.xz") as archive:
        archive.extractall(path, **_FILTER)
    return path


@functools.cache
def cases(version):
    """Return {case: dict} for a version. The README of the record describes the dict."""
    with tarfile.open(RECORD / f"{version}.tar.xz") as archive:
        return json.load(archive.extractfile("cases.json"))


def path_of(version, case, name="ckpt-1"):
    """Return the path of a recorded file, checkpoint or SavedModel."""
    return folder(version) / case / name


def expected(version, case, name="ckpt-1"):
    """Return {"after5": state, "after10": state} of the program that saved a file."""
    return cases(version)[case]["checkpoint" if name == "ckpt-1" else "compiled"]


def numbers(value):
    """Return a nested list of the record as an array. It may contain the texts "nan", "inf"."""
    return np.array(value, "float32")


@functools.cache
def inputs():
    """Return {"X": ..., "X_clean": ..., "Y": ...}, each an array of ten batches."""
    read = json.loads((RECORD / "inputs.json").read_text())
    return {name: numbers(value) for name, value in read.items()}


def network(keras):
    """Return a new model of two Dense layers, as in the recorded programs."""
    dense = keras.layers.Dense
    first = dense(2, activation="tanh", name="dense_a", input_shape=(3,))
    return keras.Sequential([first, dense(1, name="dense_b")])


def make_optimizer(case, family):
    """Return a new optimizer with the config of a case. `family` is "keras3" or "keras2"."""
    return configs.deserialize(case["config"], package=PACKAGES[family])


def loss_of(model):
    """Return the loss function of the recorded programs, a function of a batch (x, y)."""
    return lambda x, y: tf.reduce_mean((model(x, training=True) - y) ** 2)


def train(model, opt, xs, ys, compiled=True, loss_fn=None):
    """Take one step for each batch, as the recorded programs did.

    If `compiled`, a step is a `tf.function`.
    """
    wraps = isinstance(opt, tf_lso.LossScaleOptimizer)
    take_step = legacy_step if wraps else bare_step
    loss_fn = loss_fn or loss_of(model)

    def step(x, y):
        take_step(opt, lambda: loss_fn(x, y), model.trainable_variables)

    step = tf.function(step) if compiled else step
    for x, y in zip(xs, ys):
        step(tf.constant(x), tf.constant(y))


def go_on(version, case, model, opt, compiled=False, loss_fn=None):
    """Take the last five steps of the program that saved a file."""
    data = inputs()
    xs = data["X_clean" if cases(version)[case]["clean"] else "X"][5:]
    train(model, opt, xs, data["Y"][5:], compiled, loss_fn)


def scale_of(opt):
    """Return (loss scale, counter). A value that the optimizer lacks is None."""
    if not isinstance(opt, tf_lso.LossScaleOptimizer):
        return None, None
    count = int(opt.dynamic_counter) if opt.dynamic else None
    return float(opt.loss_scale), count


def close(weights, expected, rtol=1e-5, atol=1e-6):
    """Return whether all weights are equal within the tolerances. NaN equals NaN."""
    return all(
        np.allclose(weight, numbers(recorded), rtol=rtol, atol=atol, equal_nan=True)
        for weight, recorded in zip(weights, expected, strict=True)
    )


def assert_holds(model, opt, recorded, has_scale=True):
    """Assert that weights, iterations and loss scale are exactly as recorded."""
    assert close(model.get_weights(), recorded["weights"], 0, 0)
    assert int(numpy(opt.iterations)) == recorded["iterations"]
    if has_scale and isinstance(opt, tf_lso.LossScaleOptimizer):
        assert scale_of(opt) == (recorded["loss_scale"], recorded["counter"])
