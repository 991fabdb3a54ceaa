"""Make small models, train them, save them, restore them, and compare the results."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.checkpoints import artifacts
from tests.families import number, numpy
from tests.generation import NO_CHECKPOINT, NO_WRAPPED_H5, ZIPPED
from tf_lso import checkpoints


def model_of(of, *names, use_bias=True):
    """Return a model with one Dense layer for each name.

    All layers have the same shape. So if `restore` mixed up two layers, the shapes would still
    fit, and only the values would show the error.
    """
    dense = [of.layers.Dense(3, use_bias=use_bias, name=n) for n in names or ("a", "b")]
    return of.Sequential([of.layers.InputLayer((3,)), *dense])


def train(model, opt, steps=3):
    """Take eager steps. If the model has several outputs, only the first gets a gradient."""
    wraps = hasattr(opt, "get_scaled_loss")  # the wrapper of tf_lso or of Keras
    for step in range(steps):
        with tf.GradientTape() as tape:
            used, *_ = tf.nest.flatten(model(tf.ones((4, 3)) * (step + 1.0)))
            loss = tf.reduce_mean(used**2)
            loss = opt.get_scaled_loss(loss) if wraps else loss
        gradients = tape.gradient(loss, model.trainable_variables)
        if wraps:
            gradients = opt.get_unscaled_gradients(gradients)
        pairs = zip(gradients, model.trainable_variables)
        opt.apply_gradients([(g, v) for g, v in pairs if g is not None])


def trained(of, opt, *names, **kwargs):
    """Return a new model that was trained for three steps."""
    model = model_of(of, *names, **kwargs)
    if hasattr(opt, "build"):  # a bare legacy optimizer has no `build`
        opt.build(model.trainable_variables)
    train(model, opt)
    return model


def expect_limits(request, family, format_, wraps=True):
    """Expect the running test to fail if the installed Keras cannot write such a file."""
    if family == "keras3" and format_ == "checkpoint":
        request.applymarker(NO_CHECKPOINT)
    if family == "keras3" and format_ == "h5" and wraps:
        request.applymarker(NO_WRAPPED_H5)


def saved(model, opt, format_, folder):
    """Save a model with its optimizer in a format, and return the path."""
    path = str(folder / (f"saved.{format_}" if "h5" in format_ else format_))
    if format_ == "checkpoint":
        return tf.train.Checkpoint(model=model, optimizer=opt).save(path)
    model.compile(opt, "mse")
    if format_ == "savedmodel":
        model.save(path, save_format="tf")
    elif format_ == "weights.h5":
        if tf.__version__.startswith("2.12."):
            pytest.skip("Keras 2.12 writes another format under this name")
        model.save_weights(path)
    elif format_ == "h5":
        model.save(path)
    else:
        path = str(folder / "saved.keras")
        model.save(path, **ZIPPED)
    return path


def slots_of(opt, model, first=0.0):
    """Return {(slot, index of the variable, shape): array}.

    If a variable has no such slot, its array is filled with the number `first`.
    """
    found = {}
    for slot in opt.get_slot_names():
        for place, variable in enumerate(model.trainable_variables):
            shape = tuple(variable.shape)
            try:
                value = numpy(opt.get_slot(variable, slot))
            except KeyError:
                value = np.full(shape, first, "float32")
            found[slot, place, shape] = np.array(value)
    return found


def assert_equal(found, expected, rtol=0.0, atol=0.0):
    """Compare two dicts {name: array}, or two lists of arrays."""
    if not isinstance(found, dict):
        found, expected = dict(enumerate(found)), dict(enumerate(expected))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol, atol, err_msg=str(name))


def restored(path, model, opt, **kwargs):
    """Restore a file completely, and return the report."""
    report = checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    assert report.complete
    return report


def state(model, opt):
    """Return all state of a model and its optimizer, without the learning rate, as a list."""
    inner = getattr(opt, "inner_optimizer", opt)
    variables = inner.variables
    variables = variables() if callable(variables) else variables
    extra = [v for n, v in sorted(vars(inner).items()) if n in ("one", "_u_product")]
    numbers = [number(getattr(inner, n, 0.0)) for n in ("beta_1", "beta_2", "momentum")]
    scale = [s for s in artifacts.scale_of(opt) if s is not None]
    values = [np.array(numpy(v)) for v in (*variables, *extra)]
    return [*model.get_weights(), *values, *numbers, *scale]


def refused(path, model, opt, *matches, **kwargs):
    """Assert that `restore` raises an error that matches all texts, and changes nothing."""
    opt.build(model.trainable_variables)
    before = state(model, opt)
    with pytest.raises(checkpoints.CheckpointError) as raised:
        checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    for match in matches:
        assert re.search(match, str(raised.value)), str(raised.value)
    assert all(map(np.array_equal, before, state(model, opt)))
