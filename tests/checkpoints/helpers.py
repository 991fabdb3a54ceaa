"""Make small models, train them, save them, restore them, and compare the results."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.checkpoints import artifacts
from tests.families import bare_step, legacy_step, number, numpy
from tests.generation import NO_CHECKPOINT, NO_WRAPPED_H5, ZIPPED
from tf_lso import checkpoints


def make_model(keras_module, *names, use_bias=True):
    """Return a model with one Dense layer for each name.

    All layers have the same shape. So if `restore` mixed up two layers, the shapes would still
    fit, and only the values would show the error.
    """
    layers = keras_module.layers
    dense = [
        layers.Dense(3, use_bias=use_bias, name=name) for name in names or ("a", "b")
    ]
    return keras_module.Sequential([layers.InputLayer((3,)), *dense])


def train(model, opt, steps=3):
    """Take eager steps. If the model has several outputs, only the first gets a gradient."""
    # The wrapper of tf_lso and that of Keras 2 have this method.
    take_step = legacy_step if hasattr(opt, "get_scaled_loss") else bare_step
    for step in range(1, steps + 1):
        x = step * tf.ones((4, 3))
        take_step(
            opt,
            lambda x=x: tf.reduce_mean(tf.nest.flatten(model(x))[0] ** 2),
            model.trainable_variables,
        )


def trained_model(keras_module, opt, *names, **kwargs):
    model = make_model(keras_module, *names, **kwargs)
    if hasattr(opt, "build"):  # a bare legacy optimizer has no `build`
        opt.build(model.trainable_variables)
    train(model, opt)
    return model


def expect_limits(request, family, format_):
    """Expect the running test to fail if the installed Keras cannot write such a file."""
    if family == "keras3" and format_ == "checkpoint":
        request.applymarker(NO_CHECKPOINT)
    if family == "keras3" and format_ == "h5":
        request.applymarker(NO_WRAPPED_H5)


def save(model, opt, format_, folder):
    if format_ == "checkpoint":
        checkpoint = tf.train.Checkpoint(model=model, optimizer=opt)
        return checkpoint.save(str(folder / "checkpoint"))
    model.compile(opt, "mse")
    if format_ == "savedmodel":
        path = str(folder / "savedmodel")
        model.save(path, save_format="tf")
    elif format_ == "weights.h5":
        if tf.__version__.startswith("2.12."):
            pytest.skip("Keras 2.12 writes another format under this name")
        path = str(folder / "saved.weights.h5")
        model.save_weights(path)
    elif format_ == "h5":
        path = str(folder / "saved.h5")
        model.save(path)
    else:
        path = str(folder / "saved.keras")
        model.save(path, **ZIPPED)
    return path


def slots_of(opt, model, initial_value=0.0):
    """Return {(slot, index of the variable, shape): array}.

    If a variable has no such slot, its array is filled with `initial_value`.
    """
    found = {}
    for slot in opt.get_slot_names():
        for index, variable in enumerate(model.trainable_variables):
            shape = tuple(variable.shape)
            try:
                value = numpy(opt.get_slot(variable, slot))
            except KeyError:
                value = np.full(shape, initial_value, "float32")
            found[slot, index, shape] = np.array(value)
    return found


def assert_equal(found, expected, rtol=0.0, atol=0.0):
    """Compare two dicts {name: array}, or two lists of arrays."""
    if not isinstance(found, dict):
        found, expected = dict(enumerate(found)), dict(enumerate(expected))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol, atol, err_msg=str(name))


def restore_completely(path, model, opt, **kwargs):
    """Restore a file completely, and return the report."""
    report = checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    assert report.complete
    return report


def state_of(model, opt):
    """Return all state of a model and its optimizer, without the learning rate, as a list."""
    inner = getattr(opt, "inner_optimizer", opt)
    variables = variables_of(inner)
    if "_u_product" in vars(inner):  # the newer Nadam of Keras 2 does not list it
        variables.append(inner._u_product)
    values = [np.array(numpy(variable)) for variable in variables]
    found = [getattr(inner, name, 0.0) for name in ("beta_1", "beta_2", "momentum")]
    # In a user's class, `momentum` may be a list of slots.
    hyperparameters = [number(value) for value in found if not isinstance(value, list)]
    scale = [value for value in artifacts.scale_of(opt) if value is not None]
    return [*model.get_weights(), *values, *hyperparameters, *scale]


def variables_of(opt):
    """Return the variables of an optimizer as a list. Older optimizers have a method."""
    variables = opt.variables
    return list(variables() if callable(variables) else variables)


def assert_refused(path, model, opt, *matches, **kwargs):
    """Assert that `restore` raises an error that matches all texts, and changes nothing."""
    opt.build(model.trainable_variables)
    before = state_of(model, opt)
    with pytest.raises(checkpoints.CheckpointError) as raised:
        checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    for match in matches:
        assert re.search(match, str(raised.value)), str(raised.value)
    assert all(map(np.array_equal, before, state_of(model, opt))), "the state changed"
