"""What real TensorFlow saved: the files in `record`, unpacked, and how to go on.

`record/README.md` says what they are.
"""

import functools
import json
import pathlib
import tarfile
import tempfile

import numpy as np
import tensorflow as tf

import tf_lso
from tests.families import PACKAGES, numpy
from tf_lso.optimizers import config as configs

RECORD = pathlib.Path(__file__).parent / "record"
VERSIONS = sorted(p.name.split(".tar")[0] for p in RECORD.glob("*[0-9s].tar.xz"))

# Python 3.11.3 and older have no filters.
_FILTER = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

_unpacked = tempfile.TemporaryDirectory(prefix="tf_lso-artifacts-")


@functools.cache
def folder(version):
    """Return the folder with the files of one archive, a path."""
    path = pathlib.Path(_unpacked.name) / version
    with tarfile.open(RECORD / f"{version}.tar.xz") as archive:
        archive.extractall(path, **_FILTER)
    return path


@functools.cache
def cases(version):
    """Return {case: what its program was, and had after 5 and 10 steps}."""
    with tarfile.open(RECORD / f"{version}.tar.xz") as archive:
        return json.load(archive.extractfile("cases.json"))


def path_of(version, case, name="ckpt-1"):
    """The path of one file, or of a folder that is one."""
    return folder(version) / case / name


def expected(version, case, name="ckpt-1"):
    """{"after5", "after10": what the program that wrote a file had}."""
    return cases(version)[case]["checkpoint" if name == "ckpt-1" else "compiled"]


def numbers(value):
    """A nested list as an array; JSON has nan and inf as texts."""
    return np.array(value, "float32")


@functools.cache
def inputs():
    """Return {"X", "X_clean", "Y": arrays of ten batches}."""
    read = json.loads((RECORD / "inputs.json").read_text())
    return {name: numbers(value) for name, value in read.items()}


def network(keras):
    """The model of the optimizers' files, of a Keras."""
    dense = keras.layers.Dense
    first = dense(2, activation="tanh", name="dense_a", input_shape=(3,))
    return keras.Sequential([first, dense(1, name="dense_b")])


def optimizer(case, family):
    """The optimizer of a file, new, of Keras 3 or Keras 2: "keras3" or "keras2"."""
    return configs.deserialize(case["config"], package=PACKAGES[family])


def loss_of(model):
    """The function of the loss of a batch."""
    return lambda x, y: tf.reduce_mean((model(x, training=True) - y) ** 2)


def train(model, opt, xs, ys, compiled=True, loss_fn=None):
    """Steps in the style of the programs that wrote the files, one a batch."""
    wraps = isinstance(opt, tf_lso.LossScaleOptimizer)
    loss_fn = loss_fn or loss_of(model)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(x, y)
            scaled = opt.get_scaled_loss(loss) if wraps else loss
        gradients = tape.gradient(scaled, model.trainable_variables)
        if wraps:
            gradients = opt.get_unscaled_gradients(gradients)
        opt.apply_gradients(zip(gradients, model.trainable_variables))

    step = tf.function(step) if compiled else step
    for x, y in zip(xs, ys):
        step(tf.nest.map_structure(tf.constant, x), tf.constant(y))


def go_on(version, case, model, opt, compiled=False, loss_fn=None):
    """The last five steps of the program that wrote a file."""
    data = inputs()
    xs = data["X_clean" if cases(version)[case]["clean"] else "X"][5:]
    train(model, opt, xs, data["Y"][5:], compiled, loss_fn)


def scale_of(opt):
    """The loss scale and the count, None where there are none."""
    if not isinstance(opt, tf_lso.LossScaleOptimizer):
        return None, None
    count = int(opt.dynamic_counter) if opt.dynamic else None
    return float(opt.loss_scale), count


def close(weights, expected, rtol=1e-5, atol=1e-6):
    """Whether all weights are equal within tolerances; NaN equals NaN."""
    return all(
        np.allclose(a, numbers(b), rtol=rtol, atol=atol, equal_nan=True)
        for a, b in zip(weights, expected, strict=True)
    )


def assert_holds(model, opt, recorded, has_scale=True):
    """Assert that the state is as recorded, to the bit."""
    assert close(model.get_weights(), recorded["weights"], 0, 0)
    assert int(numpy(opt.iterations)) == recorded["iterations"]
    if has_scale and isinstance(opt, tf_lso.LossScaleOptimizer):
        assert scale_of(opt) == (recorded["loss_scale"], recorded["counter"])
