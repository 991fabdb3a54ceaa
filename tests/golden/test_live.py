"""Compare tf_lso with the wrapper of tf_keras in the same process, on random gradients.

The record contains only three inner optimizers. These tests take 20 steps with every inner
optimizer that legacy and newer optimizers share. Some gradients are not finite. After each
step, all variables of the model and the optimizer, the loss scale, the counter and the
iterations must be equal to the last bit, on any machine.

The wrapper of Keras 3 follows another rule. For example, it does not count skipped steps. So on
Keras 3 the tests compare with a bare optimizer that takes only the finite steps.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import FAMILIES, needs_keras3, raw
from tests.golden import harness

OPTIMIZERS = "SGD Adam RMSprop Adagrad Adadelta Adamax Nadam Ftrl".split()
STEPS = 20
# The scale grows after three finite steps, so it grows and shrinks several times.
SCALE = {"scale": 2.0**10, "growth": 3}


def _gradients(seed):
    """Yield random gradients for each step. In a fifth of the steps, one number is not finite.

    The first step is always finite, since tf_keras makes no slots in an eager first step that
    is skipped. Step 7 is never finite, so that the scale shrinks at least once.
    """
    random = np.random.default_rng(seed)
    for step in range(STEPS):
        gradients = [
            random.normal(size=shape).astype(np.float32) for shape in ((), (5,), (3, 4))
        ]
        if step == 7 or (step and random.random() < 0.2):
            chosen = gradients[random.integers(3)].reshape(-1)
            chosen[random.integers(chosen.size)] = random.choice([np.nan, np.inf])
        yield [tf.constant(gradient) for gradient in gradients]


class _Training:
    """An optimizer with its model variables, and a function that takes one step."""

    def __init__(self, optimizer, mode, indices=(4, 0, 2)):
        self.optimizer = optimizer
        # The gradient of the last variable is an IndexedSlices for three of its six rows.
        self.variables = [tf.Variable(tf.ones(shape)) for shape in ((), (5,), (6, 4))]
        self.indices = indices
        self.step = tf.function(self._step) if mode == "function" else self._step

    def _step(self, scalar, vector, rows):
        scale = self.optimizer.loss_scale
        gradients = self.gradients(scalar * scale, vector * scale, rows * scale)
        gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, self.variables))

    def gradients(self, scalar, vector, rows):
        rows = tf.IndexedSlices(rows, tf.constant(self.indices), tf.constant([6, 4]))
        return [scalar, vector, rows]

    def state(self):
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        variables = (*self.variables, *harness.variables_of(inner))
        return [*self.counts(), *(raw(v).numpy() for v in variables)]

    def counts(self):
        return harness.counts(self.optimizer).values()


class _BareTraining(_Training):
    """A bare Keras 3 optimizer, with the legacy rule of the loss scale in plain Python."""

    def __init__(self, optimizer, mode):
        super().__init__(optimizer, mode)
        self.scale, self.counter = SCALE["scale"], 0

    def _step(self, *gradients):
        self.optimizer.apply_gradients(zip(self.gradients(*gradients), self.variables))

    def step_or_skip(self, *gradients):
        if all(np.isfinite(gradient).all() for gradient in gradients):
            self.step(*gradients)
            self.counter += 1
            if self.counter == SCALE["growth"]:
                self.scale, self.counter = self.scale * 2, 0
        else:
            self.optimizer.iterations.assign_add(1)
            self.scale, self.counter = max(self.scale / 2, 1.0), 0

    def counts(self):
        return [self.scale, self.counter, int(self.optimizer.iterations.numpy())]


def _assert_equal(training, reference, step):
    for actual, expected in zip(training.state(), reference.state(), strict=True):
        np.testing.assert_array_equal(actual, expected, err_msg=f"step {step}")


# Each optimizer runs eagerly in one family and traced in the other family.
@pytest.mark.parametrize(
    ("family", "name", "mode"),
    [
        ("legacy", "SGD", "eager"),
        ("legacy", "Adam", "function"),
        ("legacy", "RMSprop", "eager"),
        ("legacy", "Adagrad", "function"),
        ("legacy", "Adadelta", "eager"),
        ("legacy", "Adamax", "function"),
        ("legacy", "Nadam", "eager"),
        ("legacy", "Ftrl", "function"),
        ("new", "SGD", "function"),
        ("new", "Adam", "eager"),
        ("new", "RMSprop", "function"),
        ("new", "Adagrad", "eager"),
        ("new", "Adadelta", "function"),
        ("new", "Adamax", "eager"),
        ("new", "Nadam", "function"),
        ("new", "Ftrl", "eager"),
    ],
)
def test_equals_the_wrapper_of_tf_keras(family, name, mode):
    with_tf_lso, with_tf_keras = (
        # The slices contain two gradients for row 4.
        _Training(
            harness.wrap(api, _inner(family, name), **SCALE), mode, indices=(4, 0, 4)
        )
        for api in ("stable", "reference")
    )
    scales = set()
    for step, gradients in enumerate(_gradients(seed=OPTIMIZERS.index(name))):
        with_tf_lso.step(*gradients)
        with_tf_keras.step(*gradients)
        _assert_equal(with_tf_lso, with_tf_keras, step)
        scales.add(float(with_tf_lso.optimizer.loss_scale))
    assert len(scales) > 2, "the scale should have grown and shrunk"


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, "eager") for name in (*OPTIMIZERS, "AdamW", "Lion")]
    + [("SGD", "function"), ("Adam", "function")],
)
@needs_keras3
def test_equals_the_bare_optimizer_of_keras3(name, mode):
    with_tf_lso = _Training(
        harness.wrap("stable", _inner("keras3", name), **SCALE), mode
    )
    bare = _BareTraining(_inner("keras3", name), mode)
    for step, gradients in enumerate(_gradients(seed=len(name))):
        with_tf_lso.step(*gradients)
        bare.step_or_skip(*gradients)
        _assert_equal(with_tf_lso, bare, step)


def _inner(family, name):
    arguments = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    return getattr(FAMILIES[family], name)(0.05, **arguments)
