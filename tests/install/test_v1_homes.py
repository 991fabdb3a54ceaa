"""The private modules of TensorFlow's own loss scaling are replaced together."""

import tf_lso
from tests.migrate.programs import checked, migrated

PROGRAM = """\
import tensorflow as tf
from tensorflow.python.training.experimental import loss_scale, loss_scale_optimizer
from tensorflow.python.training.experimental import mixed_precision
inner = tf.compat.v1.train.GradientDescentOptimizer(0.5)
scale = loss_scale.FixedLossScale(8)
opt = loss_scale_optimizer.MixedPrecisionLossScaleOptimizer(inner, scale)
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x = tf.compat.v1.get_variable("x", initializer=3.0)
    step = opt.minimize(lambda: x * x, var_list=[x])
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(step)
    result = session.run(x)
rewritten = mixed_precision.enable_mixed_precision_graph_rewrite_v1(inner, scale)
mixed_precision.disable_mixed_precision_graph_rewrite_v1()
"""


def run(program):
    """Run a program, and return its names."""
    contents = {}
    exec(program, contents)
    return contents


def test_the_three_modules_work_together():
    assert run(PROGRAM)["result"] == 0.0  # 3 - 0.5 * 6, without tf_lso
    with tf_lso.install():
        contents = run(PROGRAM)
    assert contents["result"] == 0.0
    wrapper = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
    assert type(contents["opt"]) is type(contents["rewritten"]) is wrapper


def test_check_and_migrate_agree_about_the_three_modules():
    found = checked(PROGRAM)["findings"]
    changed = [f["name"] for f in found if f["status"] == "breaks"]
    v1 = "tf.train.experimental.mixed_precision.enable_mixed_precision_graph_rewrite_v1"
    assert changed == [v1]
    new, _ = migrated(PROGRAM)
    old = "tensorflow.python.training.experimental"
    assert new == PROGRAM.replace(old, "tf_lso.train.experimental")
    assert run(new)["result"] == 0.0
