# A graph and a session with a Keras optimizer: minimize, get_gradients and get_updates of
# a wrapped one. Written for TF 2.2 - 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mp

v1 = tf.compat.v1
with tf.Graph().as_default():
    v = v1.get_variable("v", initializer=2.0, use_resource=True)
    opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25), loss_scale=8)
    train = opt.minimize(lambda: v * v, [v])
    (grad,) = opt.get_gradients(v * v, [v])
    updates = opt.get_updates(v * 2.0, [v])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train)
        first = float(session.run(v))
        gradient = float(session.run(grad))
        session.run(updates)
        second = float(session.run(v))
        scale = float(session.run(opt.loss_scale()))
result = {
    "v": [first, second],
    "gradient": gradient,
    "scale": scale,
}
print("RESULT", json.dumps(result))
