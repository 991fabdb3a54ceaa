"""A traced step never waits for the host, and long runs do not use more and more memory."""

import gc

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import counting
from tests.families import FAMILIES, KERASES, legacy_step, numpy, wrapped
from tests.generation import limit

INF = float("inf")


def traced_step(family, **kwargs):
    """Return an optimizer, a variable, and a traced step.

    The argument of the step is a factor of the loss, and so of the gradients.
    """
    x = tf.Variable([1.0, 2.0])
    optimizer = wrapped(family, "SGD", 0.01, momentum=0.9, **kwargs)
    optimizer.build([x])

    @tf.function
    def step(factor):
        legacy_step(optimizer, lambda: tf.reduce_sum(x) * factor, [x])

    return optimizer, x, step


class TestATracedStep:
    @pytest.mark.parametrize("jit_compile", [None, True])
    def test_waits_for_nothing_on_the_host(self, family, jit_compile):
        _, _, step = traced_step(family)
        step = tf.function(step.python_function, jit_compile=jit_compile)
        graph = step.get_concrete_function(tf.constant(1.0)).graph
        used = {op.type for op in graph.get_operations()}
        assert not {"PyFunc", "EagerPyFunc", "PrintV2"} & used
        # The step may print only in the rarely taken branch that reports a stuck loss scale.
        # XLA does not compile this branch, and would fail if it did.
        assert counting.host_operations(graph) in ([], ["PrintV2"])
        step(tf.constant(float("nan")))

    @pytest.mark.parametrize("dynamic", [True, False])
    def test_checks_gradients_only_if_the_scale_is_dynamic(self, family, dynamic):
        x = tf.Variable([1.0, 2.0])
        inner = FAMILIES[family].SGD(0.01)
        optimizer = tf_lso.LossScaleOptimizer(inner, dynamic=dynamic, initial_scale=8.0)
        optimizer.build([x])
        step = tf.function(lambda: legacy_step(optimizer, lambda: x[0], [x]))
        used = counting.operations(step.get_concrete_function().graph)
        checks = {"IsFinite", "If", "StatelessIf"} & set(used)
        assert bool(checks) == dynamic


_STEPS = 4000


def train(family, mode):
    """Take 1,000 steps, yield the optimizer, and repeat. Every 20th step is skipped."""
    factors = [INF if number % 20 == 0 else 1.0 for number in range(1000)]
    if mode == "fit":
        layers = KERASES[family].layers
        model = KERASES[family].Sequential([layers.InputLayer((1,)), layers.Dense(1)])
        model.compile(wrapped(family, "SGD", 0.01), "mse")
        x = np.array(factors, "float32")[:, None]
        while True:
            model.fit(x, np.ones_like(x), batch_size=1, shuffle=False, verbose=0)
            yield model.optimizer
    optimizer, _, step = traced_step(family)
    tensors = [tf.constant(factor) for factor in factors]
    step = step.python_function if mode == "eager" else step
    while True:
        for factor in tensors:
            step(factor)
        yield optimizer


LEAKS = "an eager step of this TensorFlow leaks memory, also without loss scaling"


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("eager", marks=limit(LEAKS, "2.12", "2.15", "3.0")),
        "function",
        "fit",
    ],
)
def test_memory_does_not_grow(family, mode, caplog):
    """No step leaves a Python object behind, and the process needs hardly more memory."""
    caplog.set_level("ERROR", "tensorflow")  # pytest keeps all logged messages
    optimizers, held, objects = train(family, mode), [], []
    for _ in range(_STEPS // 1000):
        optimizer = next(optimizers)
        gc.collect()
        objects.append(len(gc.get_objects()))
        held.append(counting.resident_bytes())
    assert int(numpy(optimizer.iterations)) == _STEPS
    # One object for each skipped step would be 150 objects. `fit` itself keeps a few.
    assert objects[-1] - objects[0] < 50, objects
    if held[0] is None:
        pytest.skip("the system does not tell what memory a process holds")
    # The allocator itself reserves memory in the first quarter of the run.
    early, late = held[len(held) // 4], held[-1]
    assert late - early < 400 * _STEPS, [round(bytes_ / 1e6) for bytes_ in held]
