# Horovod's Keras optimizer as it is: a class made at run time whose _aggregate_gradients
# must have been called before its apply_gradients. Written for TF 2.4 - 2.8.
import json

import numpy as np
import tensorflow as tf
from tensorflow import keras

calls = []


def create_distributed_optimizer(optimizer, name=None):
    class _DistributedOptimizer(keras.optimizers.Optimizer):
        _HAS_AGGREGATE_GRAD = True

        def __init__(self, **kwargs):
            self._name = name or "Distributed%s" % self.__class__.__base__.__name__
            self._aggregated_gradients = False
            super(self.__class__, self).__init__(**kwargs)

        def get_gradients(self, loss, params):
            gradients = super(self.__class__, self).get_gradients(loss, params)
            return self._allreduce(gradients)

        def _aggregate_gradients(self, grads_and_vars):
            grads, variables = list(zip(*grads_and_vars))
            self._aggregated_gradients = True
            return list(zip(self._allreduce(grads), variables))

        def _allreduce(self, grads):
            calls.append("allreduce")
            return [g * 0.5 for g in grads]  # the mean with an idle worker

        def apply_gradients(self, *args, **kwargs):
            if not self._aggregated_gradients:
                raise Exception(
                    "`apply_gradients()` was called without a call to "
                    "`get_gradients()` or `_aggregate_gradients`."
                )
            return super(self.__class__, self).apply_gradients(*args, **kwargs)

    cls = type(
        optimizer.__class__.__name__,
        (optimizer.__class__,),
        dict(_DistributedOptimizer.__dict__),
    )
    return cls.from_config(optimizer.get_config())


tf.keras.mixed_precision.set_global_policy("mixed_float16")
opt = create_distributed_optimizer(keras.optimizers.SGD(0.5))
opt = keras.mixed_precision.LossScaleOptimizer(opt, initial_scale=256.0)
model = keras.Sequential(
    [keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")]
)
model.compile(opt, "mse")
x = np.ones((8, 2), "float32")
model.fit(x, np.zeros((8, 1), "float32"), batch_size=4, verbose=0)
result = {
    "kernel": np.round(model.get_weights()[0].ravel(), 4).tolist(),
    "called": "allreduce" in calls,
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations),
    "class": type(opt.inner_optimizer).__name__,
}
print("RESULT", json.dumps(result))
