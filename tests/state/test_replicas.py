"""The same under MirroredStrategy, and under two workers that each save."""

import contextlib
import functools
import itertools
import sys

import pytest
import tensorflow as tf

from tests.families import FAMILIES, OLD_KERAS3
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers
from tests.state import formats
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = pytest.mark.skipif(
    OLD_KERAS3,
    reason="Keras 3.0 saves neither checkpoints nor .h5 files nor copies of models",
)


class OnReplicas(Program):
    """The program with its steps run by a strategy."""

    def __init__(self, strategy, *args):
        super().__init__(*args)
        self.strategy = strategy

    def make(self, *args, **kwargs):
        with self.scope():
            return super().make(*args, **kwargs)

    def scope(self, name=None):
        # Keras 3 cannot save .h5 files in a scope, and says so.
        if (name, self.family) == (".h5", "keras3"):
            return contextlib.nullcontext()
        return self.strategy.scope()

    def train(self, model, optimizer, start, end):
        if self.loop == "fit":
            with self.scope():
                super().train(model, optimizer, start, end)
            return
        step = self.step(model, optimizer)
        for x in self.x[start:end]:
            step(tf.constant(x))

    def step(self, model, optimizer):
        if id(optimizer) in self.steps:
            return self.steps[id(optimizer)]
        with self.scope():
            variables = model.trainable_variables

        @tf.function
        def step(x):
            def on_replica(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x, training=True) - 1.0) ** 2)
                    scaled = optimizer.get_scaled_loss(loss)
                gradients = optimizer.get_unscaled_gradients(
                    tape.gradient(scaled, variables)
                )
                optimizer.apply_gradients(zip(gradients, variables))

            self.strategy.run(on_replica, (x,))

        return self.steps.setdefault(id(optimizer), step)


def check(program, restored, end):
    other = formats.restore(program, restored)
    program.train(*other, SAVED_AT, END)
    assert_equal(end, state(*other))


# In turns: each format and family once, and both loops with each of them.
_CASES = [
    (name, family, ("function", "fit")[(number + turn) % 2])
    for number, name in enumerate(formats.FORMATS)
    for turn, family in enumerate(FAMILIES)
    if formats.exists(name, family)
]
_CASES.sort(key=lambda case: case[1:])  # those of one program stand together


def _cases():
    """Each format with one family, in turns; with the others they are slow."""
    for number, name in enumerate(formats.FORMATS):
        cases = [case for case in _CASES if case[0] == name]
        quick = cases[(number + 1) % len(cases)]
        for case in cases:
            marks = [] if case is quick else pytest.mark.slow
            yield pytest.param(case, id=", ".join(case), marks=marks)


@pytest.fixture(scope="module")
def saved(installed, mirrored2, tmp_path_factory):
    """What `formats.run` returns for a program and its cases; the last one is kept."""

    @functools.lru_cache(maxsize=1)
    def run(family, loop):
        program = OnReplicas(mirrored2, family, "amsgrad", "stable", loop)
        names = [case[0] for case in _CASES if case[1:] == (family, loop)]
        return program, *formats.run(program, names, tmp_path_factory.mktemp("saved"))

    return run


@pytest.mark.parametrize("case", sorted(_cases(), key=lambda p: p.values[0][1:]))
def test_on_two_replicas(case, saved):
    name, *arguments = case
    program, restored, end = saved(*arguments)
    check(program, restored[name], end)


_FORMATS = ("checkpoint, then built", "built, then checkpoint", "manager")
_WORKER = """
import json, os, pathlib, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from tests.families import FAMILIES
from tests.state import formats, test_replicas
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for family in FAMILIES:
    folder = pathlib.Path(sys.argv[1]) / family / str(index)
    program = test_replicas.OnReplicas(strategy, family)
    restored, end = formats.run(program, test_replicas._FORMATS, folder)
    for name in restored:
        test_replicas.check(program, restored[name], end)
        print(f"{family}, {name}, goes on", flush=True)
"""


@pytest.mark.multiworker
@pytest.mark.slow
def test_on_two_workers_that_each_save(tmp_path):
    command = [sys.executable, "-c", _WORKER, str(tmp_path)]
    results = run_workers(command, 2, HANGS_AFTER, after_tensorflow=True)
    assert_succeeded(results)
    for family, name in itertools.product(FAMILIES, _FORMATS):
        assert all(f"{family}, {name}, goes on" in r.output for r in results)
