# tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer by name, with a number,
# in a v1 graph, and minimize(). Written for TF 2.4 - 2.8.
import json

import tensorflow.compat.v1 as tf1

tf1.disable_eager_execution()
v = tf1.get_variable("v", initializer=3.0, use_resource=True)
loss = v * v
out = {}
for name, scale in (("fixed", 128.0), ("dynamic", "dynamic")):
    opt = tf1.train.GradientDescentOptimizer(0.25)
    opt = tf1.mixed_precision.MixedPrecisionLossScaleOptimizer(opt, scale)
    train = opt.minimize(loss, var_list=[v])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        values = []
        for _ in range(3):
            session.run(train)
            values.append(float(session.run(v)))
        out[name] = [values, float(session.run(opt._loss_scale()))]
try:
    tf1.mixed_precision.MixedPrecisionLossScaleOptimizer("sgd", 8)
    out["error"] = "none"
except ValueError:
    out["error"] = "ValueError"
print("RESULT", json.dumps(out))
