# A loss scale of one's own: a subclass of LossScale that halves quickly and grows slowly,
# with a variable of its own. Written for TF 2.2 - 2.3.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mp


class Careful(tf.mixed_precision.experimental.LossScale):
    def __init__(self, start):
        super(Careful, self).__init__()
        self._start = float(start)
        self._scale = self._add_weight(
            name="scale", dtype=tf.float32, initial_value=self._start
        )
        self._skips = self._add_weight(name="skips", dtype=tf.int64, initial_value=0)

    def __call__(self):
        return tf.convert_to_tensor(self._scale)

    def update(self, grads):
        grads = tf.nest.flatten(grads)
        finite = tf.reduce_all(
            [tf.reduce_all(tf.math.is_finite(g)) for g in grads if g is not None]
        )
        scale = tf.where(finite, self._scale * 1.5, self._scale / 8.0)
        update_op = tf.group(
            self._scale.assign(tf.maximum(scale, 1.0)),
            self._skips.assign_add(tf.cast(~finite, tf.int64)),
        )
        return update_op, finite

    def get_config(self):
        return {"start": self._start}


scale = Careful(64)
opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), loss_scale=scale)
v = tf.Variable(1.0)


@tf.function
def step(g):
    with tf.GradientTape() as tape:
        loss = opt.get_scaled_loss(v * g)
    grads = opt.get_unscaled_gradients(tape.gradient(loss, [v]))
    opt.apply_gradients(zip(grads, [v]))


trace = []
for g in (1.0, 1.0, float("inf"), 1.0):
    step(tf.constant(g))
    trace.append(round(float(opt.loss_scale()), 4))
copy = Careful.from_config(scale.get_config())
result = {
    "scale_trace": trace,
    "v": float(v),
    "skips": int(scale._skips),
    "iterations": int(opt.iterations),
    "copy_scale": float(copy()),
    "same_object": opt.loss_scale is scale,
    "names": sorted(w.name.split(":")[0] for w in scale._weights.values())
    if hasattr(scale, "_weights")
    else ["scale", "skips"],
}
print("RESULT", json.dumps(result))
