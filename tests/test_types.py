"""Type checkers accept a correct program of a user, and find each mistake in a wrong one.

mypy runs with `--strict`. pyright runs if it is installed in the environment, as it is with the
extra `tf-lso[test]`, or if it is on the PATH.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import HANGS_AFTER, ROOT

RIGHT = """\
import tensorflow as tf

import tf_lso
from tf_lso.keras.mixed_precision import experimental


def train(model: tf.keras.Model, x: tf.Tensor, y: tf.Tensor) -> float:
    handle = tf_lso.install(like="2.4")
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1), initial_scale=1024)
    opt.beta_1 = 0.5
    opt.learning_rate = 0.01
    tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), clipnorm=None, use_ema=False)
    old = experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), "dynamic")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
        scaled = opt.get_scaled_loss(loss)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled, model.trainable_variables))
    opt.apply_gradients(zip(grads, model.trainable_variables))
    later = opt.get_scaled_loss(lambda: tf.reduce_mean(model(x)))
    later()
    old.minimize(later, model.trainable_variables)
    wrapped = tf_lso.wrap(tf.keras.optimizers.SGD(0.1), model)
    report = tf_lso.debugging.explain(model, x, y, loss_scale=wrapped)
    print(report.first.kind, report.layers[0].values.largest)
    tf_lso.raise_if_stuck(opt, patience=100)
    tf_lso.summary.loss_scale(opt)
    tf_lso.checkpoints.restore("ckpt", model=model, optimizer=opt)
    model.fit(x, y, callbacks=[tf_lso.callbacks.LossScaleMonitor()])
    handle.uninstall()
    tf_lso.uninstall()
    return float(opt.loss_scale) + float(opt.beta_1) + int(opt.skipped_steps)
"""

# Each line with the comment `# mistake` has a mistake. mypy cannot find the mistake that is
# marked `where tensors have types`.
WRONG = """\
import tensorflow as tf
import tf_lso
from tf_lso.keras.mixed_precision import experimental

def later() -> float:
    return 1.0

opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
tf_lso.LossScaleOptimiser(tf.keras.optimizers.SGD(0.1))  # mistake
opt.get_scaled_los(tf.constant(1.0))  # mistake
opt.lose_scale = 2.0  # mistake
opt.get_scaled_loss(later) + 1.0  # mistake
opt.get_scaled_loss(lambda: tf.constant(1.0)) + 1.0  # mistake, where tensors have types
tf_lso.uninstall("2.4")  # mistake
tf_lso.wrap(opt)  # mistake
tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), intial_scale=2)  # mistake
tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), clipnorm=1.0)  # mistake
experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), los_scale=2)  # mistake
"""


def _mypy(file):
    config = file.with_name("mypy.ini")
    config.write_text(
        "[mypy]\nstrict = true\nignore_missing_imports = true\n"
        # TensorFlow has no types, and mypy would need minutes for its source.
        "[mypy-tensorflow.*,keras.*,tf_keras.*]\nfollow_imports = skip\n"
        # `tools/test` checks the source of tf_lso.
        "[mypy-tf_lso.*]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(config)]
    return [*command, "--python-executable", sys.executable, str(file)]


def _pyright(file):
    folder = Path(sys.executable).parent
    found = shutil.which("pyright", path=f"{folder}{os.pathsep}{os.environ['PATH']}")
    # The pyright that pip installs downloads the rest from npm at its first call.
    if found is None or subprocess.run([found, "--version"], check=False).returncode:
        pytest.skip("pyright is not installed, or not whole")
    return [found, "--pythonpath", sys.executable, str(file)]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [_mypy, _pyright])
@pytest.mark.parametrize("program", [RIGHT, WRONG], ids=["right", "wrong"])
def test_each_mistake_of_a_users_program_is_an_error(program, checker, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        checker(file),
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )
    # mypy treats a tensor as `Any`, so it cannot choose between two signatures.
    mark = r"# mistake$" if checker is _mypy else r"# mistake"
    lines = enumerate(program.splitlines(), 1)
    mistakes = {number for number, line in lines if re.search(mark, line)}
    found = re.findall(r"program.py:(\d+):.*error", done.stdout)
    assert {int(line) for line in found} == mistakes, done.stdout + done.stderr
    if program is RIGHT:
        assert re.search("Success: no issues|0 errors", done.stdout), done.stderr
