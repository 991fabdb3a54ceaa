# A wrapper that makes a class at run time, as Horovod's DistributedOptimizer does, in
# and around the LossScaleOptimizer, and a tape of its own. Written for TF 2.4 - 2.8.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from tensorflow.keras import mixed_precision

reduced = []


def allreduce(grads):
    reduced.append(len(grads))
    return [g if g is None else g * 0.5 for g in grads]


class _Distributed(tf.keras.optimizers.Optimizer):
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads, variables = zip(*grads_and_vars)
        return super(self.__class__, self).apply_gradients(
            zip(allreduce(grads), variables), *args, **kwargs
        )


def DistributedOptimizer(optimizer):
    if isinstance(optimizer, mixed_precision.LossScaleOptimizer):
        inner = DistributedOptimizer(optimizer.inner_optimizer)
        return mixed_precision.LossScaleOptimizer(
            inner, optimizer.dynamic, optimizer.initial_scale
        )
    cls = type(
        optimizer.__class__.__name__,
        (optimizer.__class__,),
        dict(_Distributed.__dict__),
    )
    return cls.from_config(optimizer.get_config())


class DistributedGradientTape(tf.GradientTape):
    def __init__(self, tape):
        self.__dict__.update(tape.__dict__)
        self._inner_tape = tape

    def gradient(self, target, sources, output_gradients=None):
        return allreduce(super().gradient(target, sources, output_gradients))


v = tf.Variable(2.0)
opt = DistributedOptimizer(
    mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), initial_scale=64.0)
)
with tf.GradientTape() as tape:
    scaled = opt.get_scaled_loss(v * v)
grads = opt.get_unscaled_gradients(tape.gradient(scaled, [v]))
opt.apply_gradients(zip(grads, [v]))
first = float(v)

plain = mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.5), initial_scale=64.0
)
with tf.GradientTape() as tape:
    loss = plain.get_scaled_loss(v * v)
tape = DistributedGradientTape(tape)
grads = plain.get_unscaled_gradients(tape.gradient(loss, [v]))
plain.apply_gradients(zip(grads, [v]))
result = {
    "v": [first, float(v)],
    "reduced": reduced,
    "type": [type(opt).__name__, type(opt.inner_optimizer).__name__],
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations),
}
print("RESULT", json.dumps(result))
