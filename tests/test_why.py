"""Run the five programs of the README's table, which compares tf_lso with the alternatives.

Each program has a row in the table. The test runs it with Keras 3, with tf_keras
(`TF_USE_LEGACY_KERAS=1`), and by `tf-lso run`. The cells of the row say what each run prints.
"""

import re
import sys

import pytest

from tests.checkpoints import artifacts
from tests.generation import KERAS
from tests.pages import files_of
from tests.processes import HANGS_AFTER, QUIET, ROOT, run_workers

# A training loop as programs for TensorFlow 2.4 have it.
_LOOP = """
import tensorflow as tf
x = tf.Variable(3.0)
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
with tf.GradientTape() as tape:
    scaled_loss = opt.get_scaled_loss(x**2)
grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [x]))
opt.apply_gradients(zip(grads, [x]))
print(float(x), float(opt.loss_scale))
"""

_RESTORE = """
import sys
import numpy as np
import tensorflow as tf
layers = tf.keras.layers
model = tf.keras.Sequential([
    layers.Dense(2, activation="tanh", name="dense_a", input_shape=(3,)),
    layers.Dense(1, name="dense_b")])
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01))
opt.build(model.trainable_variables)
tf.train.Checkpoint(model=model, optimizer=opt).restore(sys.argv[1])
reader = tf.train.load_checkpoint(sys.argv[1])
saved = [reader.get_tensor(f"model/layer_with_weights-{i}/{name}/.ATTRIBUTES/VARIABLE_VALUE")
         for i in range(2) for name in ("kernel", "bias")]
same = sum(np.array_equal(a, b) for a, b in zip(model.get_weights(), saved))
print("restored", same, "of 4 weights, iterations", int(opt.iterations))
print("scale", float(getattr(opt, "loss_scale", opt.__dict__.get("dynamic_scale", 0))))
"""

# A step with the methods that the optimizer has: those of TensorFlow 2.4 or of Keras 3.
_STEP = """
def step(factor):
    with tf.GradientTape() as tape:
        loss = v * factor
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        else:
            loss = opt.scale_loss(loss)
    grads = tape.gradient(loss, [v])
    if hasattr(opt, "get_unscaled_gradients"):
        grads = opt.get_unscaled_gradients(grads)
    opt.apply_gradients(zip(grads, [v]))

def bad_step():
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    step(tf.where(replica == 1, float("nan"), 1.0))
"""

_MAKE = """
with strategy.scope():
    v = tf.Variable(1.0)
    opt = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.5), initial_scale=8.0)
    opt.build([v])
"""

_REPLICAS = f"""
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
{_MAKE}
{_STEP}
tf.function(lambda: strategy.run(bad_step))()
print("weight", float(v.numpy()))
"""

# A step that is still running after HUNG_AFTER seconds has hung. A step without a NaN takes
# less than a second.
_WORKERS = f"""
import os, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
{_MAKE}
{_STEP}
tf.function(lambda: strategy.run(step, args=(0.0,)))()

def exit_hung():
    print("hangs", flush=True)
    os._exit(7)

timer = threading.Timer(float(os.environ["HUNG_AFTER"]), exit_hung)
timer.start()
tf.function(lambda: strategy.run(bad_step))()
timer.cancel()
print("weight", float(v.numpy()))
"""


_START = (ROOT / "compat_docs" / "start.md").read_text(encoding="utf-8")
PROGRAMS = {
    "loop of TensorFlow 2.4": _LOOP,
    "experimental API of 2.1": files_of(_START)["train.py"],
    "checkpoint of 2.8": _RESTORE,
    "NaN on one of two replicas": _REPLICAS,
    "NaN on one of two workers": _WORKERS,
}
WAYS = ("Keras 3", "tf_keras", "tf_lso")

# Maps the text of a cell to a regular expression for the output of the program.
_LEGACY_ALONE = "an instance of `tf.keras.optimizers.legacy.Optimizer`"
OUTPUTS = {
    "`AttributeError`": "AttributeError: .* no attribute 'get_scaled_loss'",
    "`1.5 32768.0`": r"^1\.5 32768\.0$",
    "`ImportError`": "ImportError: cannot import name 'experimental'",
    "loss 30.00 → 0.08": r"step 1  loss 30\.00(.|\n)*step 7  loss  0\.08",
    "restores 0 of 4 weights, and warns": "^restored 0 of 4 weights",
    "`ValueError`, but for legacy optimizers": f"ValueError: .*{_LEGACY_ALONE}",
    "error that names the restoring call": (
        r"CheckpointError: .*Call tf_lso\.checkpoints\.restore\('"
    ),
    "weight `nan`": "^weight nan$",
    "weight `1.0`": r"^weight 1\.0$",
    "hangs": "^hangs$",
}


def cells_of_row(label):
    """Return {way of running: text of the cell} for the row with this label."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (cells,) = re.findall(rf"^\| {label} \| (.*) \|$", readme, re.MULTILINE)
    return dict(zip(WAYS, cells.split(" | "), strict=True))


@pytest.mark.slow
@pytest.mark.multiworker
@pytest.mark.skipif(KERAS == "3.0", reason="the table describes later versions")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("label", PROGRAMS)
def test_a_program_prints_what_the_table_says(label, way, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAMS[label], encoding="utf-8")
    command = [sys.executable]
    if way == "tf_lso":
        command += ["-m", "tf_lso", "run"]
    command.append(str(path))
    if label == "checkpoint of 2.8":
        folder = artifacts.folder("TF2.8.4")
        command.append(str(folder / "stable-v2-Adam-dynamic/ckpt-1"))
    expected = OUTPUTS[cells_of_row(label)[way]]
    variables = {
        **QUIET,
        "TF_USE_LEGACY_KERAS": "1" if way == "tf_keras" else "0",
        # If the program is expected to hang, 10 seconds are enough to see that.
        "HUNG_AFTER": "10" if "hangs" in expected else "60",
    }
    count = 2 if "workers" in label else 1
    results = run_workers(command, count, HANGS_AFTER, variables, cwd=ROOT)
    output = "\n".join(result.output for result in results)
    assert re.search(expected, output, re.MULTILINE), output
