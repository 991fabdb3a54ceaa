# The graph rewrite around an optimizer of tf.compat.v1.train: in a session with a
# placeholder, skipping a step. Written for TF 1.14 - 2.8.
import json

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
graph = tf.Graph()
with graph.as_default():
    x = tf.placeholder(tf.float32, [None, 2])
    w = tf.get_variable("w", initializer=[[1.0], [2.0]])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    step = tf.train.get_or_create_global_step()
    opt = tf.train.MomentumOptimizer(0.125, 0.5)
    scale = tf.mixed_precision.experimental.DynamicLossScale(
        initial_loss_scale=2**6, increment_period=2
    )
    opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt, scale)
    grads_and_vars = opt.compute_gradients(loss, tf.trainable_variables())
    grads, variables = zip(*grads_and_vars)
    grads, norm = tf.clip_by_global_norm(grads, 2.0)
    train_op = opt.apply_gradients(zip(grads, variables), global_step=step)
    scale_now = scale()
    rows = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in (1.0, 0.5, 3e38, 1.0, 0.5):
            session.run(train_op, {x: [[value, 0.0]]})
            rows.append(session.run([scale_now, step, w[0, 0]]))
    saved = sorted(v.op.name for v in tf.global_variables())
tf.train.experimental.disable_mixed_precision_graph_rewrite()
result = {
    "scale": [float(r[0]) for r in rows],
    "steps": [int(r[1]) for r in rows],
    "w": [round(float(r[2]), 4) for r in rows],
    "type": type(opt).__name__,
    "has_momentum": any("Momentum" in n for n in saved),
    "slots": opt.get_slot_names(),
}
print("RESULT", json.dumps(result))
