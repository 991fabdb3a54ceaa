"""AutoGraph converts the functions of a program, but not those of tf_lso.

AutoGraph logs a warning about each function that it cannot convert. A program could not avoid
such warnings about functions of tf_lso.
"""

import textwrap

from tests import preloaded

PROGRAM = """
    import tempfile

    import tensorflow as tf
    import tf_lso
    from tests.generation import HAS_KERAS3

    v = tf.Variable([2.0])
    inner = tf.keras.optimizers.SGD(0.5, momentum=0.9)
    opt = tf_lso.LossScaleOptimizer(inner, initial_scale=4.0)
    opt.build([v])

    def loss():
        if v[0] > 1.0:  # a condition that AutoGraph must convert
            return 3.0 * v[0]
        return v[0]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            scaled = opt.get_scaled_loss(loss)()
        (gradient,) = opt.get_unscaled_gradients(tape.gradient(scaled, [v]))
        opt.apply_gradients([(gradient, v)])
        tf_lso.summary.loss_scale(opt)
        with tf.GradientTape() as tape:
            scaled = opt.scale_loss(tf.reduce_sum(v))
        opt.apply(tape.gradient(scaled, [v]), [v])
        # Keras 2 does not let AutoGraph convert a loss.
        opt.minimize(loss if HAS_KERAS3 else lambda: 3.0 * v[0], [v])
        momentum = opt.get_slot(v, opt.get_slot_names()[0])
        return scaled, tf.identity(momentum), opt._decayed_lr(tf.float32)

    with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        print([float(tf.reduce_sum(value)) for value in step()])
"""


def test_autograph_does_not_warn_about_tf_lso(tmp_path):
    """A process of its own is needed, since AutoGraph warns only once about a function."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = preloaded.run([str(program)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "AutoGraph" not in done.stderr
    assert done.stdout.startswith("[")
