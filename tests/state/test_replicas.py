"""The same under MirroredStrategy, and under two workers that each save."""

import contextlib
import pathlib
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
        with self.strategy.scope():
            return super().make(*args, **kwargs)

    def train(self, model, optimizer, start, end):
        with self.strategy.scope():
            if self.loop == "fit":
                super().train(model, optimizer, start, end)
                return
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

        for x in self.x[start:end]:
            step(tf.constant(x))


def check(program, name, folder):
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)
    # Keras 3 cannot save .h5 files in a scope, and says so.
    in_scope = (name, program.family) != (".h5", "keras3")
    with program.strategy.scope() if in_scope else contextlib.nullcontext():
        restored = formats.FORMATS[name](program, folder, *made)
    program.train(*made, SAVED_AT, END)
    end = state(*made)
    with program.strategy.scope():
        other = restored()
    program.train(*other, SAVED_AT, END)
    assert_equal(end, state(*other))


# In turns: each format and family once, and both loops with each of them.
_CASES = [
    (name, family, ("function", "fit")[(number + turn) % 2])
    for number, name in enumerate(formats.FORMATS)
    for turn, family in enumerate(FAMILIES)
    if formats.exists(name, family)
]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("case", _CASES, ids=", ".join)
def test_on_two_replicas(case, mirrored2, tmp_path):
    name, family, loop = case
    check(OnReplicas(mirrored2, family, "amsgrad", "stable", loop), name, tmp_path)


_WORKER = """
import json, os, pathlib, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from tests.families import FAMILIES, keras
from tests.state import formats, test_replicas
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for family in FAMILIES:
    for name in ("checkpoint, then built", "built, then checkpoint", "manager"):
        folder = pathlib.Path(sys.argv[1]) / family / name / str(index)
        folder.mkdir(parents=True)
        program = test_replicas.OnReplicas(strategy, family)
        test_replicas.check(program, name, folder)
        print(family, name, "goes on", flush=True)
"""


@pytest.mark.multiworker
@pytest.mark.slow
def test_on_two_workers_that_each_save(tmp_path):
    results = run_workers(
        [sys.executable, "-c", _WORKER, str(tmp_path)],
        2,
        timeout=HANGS_AFTER,
        env={"CUDA_VISIBLE_DEVICES": "-1"},
        cwd=pathlib.Path(__file__).parents[2],
    )
    assert_succeeded(results)
    assert all(r.output.count("goes on") == 9 for r in results)
