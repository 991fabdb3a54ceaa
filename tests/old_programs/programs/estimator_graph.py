# A model_fn in the style of Estimator: TensorFlow 1 graphs, a session with hooks, an
# optimizer of tf.compat.v1 with a loss scale of its own. Written for TF 2.0 - 2.8.
import json
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
random = np.random.RandomState(9)
x = random.rand(40, 3).astype("float32")
y = (x.sum(1, keepdims=True) * 2).astype("float32")
x[25:30] = 1e6  # in float16 infinite: each step with these rows overflows
folder = tempfile.mkdtemp()


def model_fn(features, labels, mode, params):
    start = np.random.RandomState(1).normal(0, 0.5, (3, 4)).astype("float32")
    with tf.variable_scope("net", use_resource=True):
        kernel = tf.get_variable("kernel", initializer=start)
        head = tf.get_variable("head", initializer=np.ones((4, 1), "float32"))
    hidden = tf.matmul(tf.cast(features, tf.float16), tf.cast(kernel, tf.float16))
    outputs = tf.cast(tf.matmul(hidden, tf.cast(head, tf.float16)), tf.float32)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    if mode == "eval":
        return loss, None, None
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.MomentumOptimizer(params["rate"], 0.9)
    scale = tf.train.experimental.DynamicLossScale(
        initial_loss_scale=1024.0, increment_period=4
    )
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, scale)
    grads_and_vars = optimizer.compute_gradients(loss)
    train_op = optimizer.apply_gradients(grads_and_vars, global_step=step)
    return loss, train_op, scale()


def train(steps):
    with tf.Graph().as_default():
        rows = tf.placeholder(tf.float32, [None, 3])
        targets = tf.placeholder(tf.float32, [None, 1])
        loss, train_op, scale = model_fn(rows, targets, "train", {"rate": 0.002})
        scales, losses = [], []
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder,
            hooks=[tf.train.StopAtStepHook(last_step=steps)],
            save_checkpoint_steps=100,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        ) as session:
            number = 0
            while not session.should_stop() and number < 20:
                start = 5 * (number % 8)
                feed = {rows: x[start : start + 5], targets: y[start : start + 5]}
                value, _ = session.run([loss, train_op], feed)
                losses.append(round(float(value), 2) if np.isfinite(value) else None)
                if not session.should_stop():
                    scales.append(float(session.run(scale, feed)))
                number += 1
    names = sorted(name for name, _ in tf.train.list_variables(folder))
    return losses, scales, names


losses, scales, names = train(10)
more, _, _ = train(14)  # goes on from the checkpoint
result = {"loss": losses, "more": more, "scale": scales, "names": names}
print("RESULT", json.dumps(result))
