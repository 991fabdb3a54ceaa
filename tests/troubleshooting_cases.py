"""For each heading of compat_docs/troubleshooting.md a program that meets the trouble.

The lines between `#! trouble` and `#! after` are what the fix of the page replaces. With
them the program prints or raises the heading, `…` standing for anything; with the fix in
their place it runs to its end without it.
"""

import functools
from pathlib import Path
from typing import NamedTuple

_HOROVOD = Path(__file__).parent / "horovod" / "stand_in"


class Case(NamedTuple):
    """A program with a trouble.

    Attributes:
      program: The text, with the two marks.
      shows: What the program prints instead of the heading, where that is no message.
      alone: Whether the program has to begin in a process of its own.
      no_tensorflow: Whether that process must not have TensorFlow imported.
      workers: How many workers run it.
      stays: Whether the fixed program shows the message too, a warning.
      keras3: Whether the trouble is of Keras 3 alone, or of what is made for it.
    """

    program: str
    shows: str | None = None
    alone: bool = False
    no_tensorflow: bool = False
    workers: int = 1
    stays: bool = False
    keras3: bool = False


# What the programs begin with that share a process. Two logical CPUs are there.
PRELUDE = """
import os, tempfile
import numpy as np
import tensorflow as tf
import tf_lso
from tests.families import keras, keras2
from tests.troubleshooting_cases import *
os.chdir(tempfile.mkdtemp())
variables = [tf.Variable(2.0)]
loss_of = lambda variables: variables[0] ** 2
"""
_SGD = (
    "opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), initial_scale=8)\n"
)
_MIRRORED = "strategy = mirrored()\n"


@functools.cache
def mirrored():
    """The one strategy of this process: two would share collective keys."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def legacy_step(opt, variable):
    """One step of TensorFlow 2.4-2.15."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        scaled_loss = opt.get_scaled_loss(variable**2)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [variable]))
    opt.apply_gradients(zip(grads, [variable]))


def old_model(policy="float32", names=("one", "two"), optimizer="legacy"):
    """A model that Keras 2 has trained with a loss scale."""
    import tensorflow as tf

    from tests.families import keras2

    layer = keras2.layers.Dense
    model = keras2.Sequential(
        [
            layer(2, input_shape=(2,), name=names[0], dtype=policy),
            layer(2, name=names[1], dtype="float32"),
        ]
    )
    family = keras2.optimizers.legacy if optimizer == "legacy" else keras2.optimizers
    wrapper = keras2.mixed_precision.LossScaleOptimizer
    model.compile(wrapper(family.SGD(0.1, momentum=0.9)), "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 2)), verbose=0)
    return model


def old_checkpoint(path, **options):
    """The path of a checkpoint of such a model, written as in TensorFlow 2.15."""
    import tensorflow as tf

    model = old_model(**options)
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(path)


def new_model(names=("one", "two"), built=True):
    """The same model in the Keras of TensorFlow."""
    from tests.families import keras

    layers = [keras.layers.Dense(2, name=name) for name in names]
    return keras.Sequential([keras.Input((2,)), *layers] if built else layers)


_UNSEEN_GUARD = """
def scaled(opt, loss):
    return opt.get_scaled_loss(loss) if hasattr(opt, "get_scaled_loss") else loss

def unscaled(opt, grads):
    has = hasattr(opt, "get_unscaled_gradients")
    return opt.get_unscaled_gradients(grads) if has else grads

#! trouble
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
#! after
x = tf.Variable(2.0)
with tf.GradientTape() as tape:
    loss = scaled(opt, x**2)
opt.apply_gradients(zip(unscaled(opt, tape.gradient(loss, [x])), [x]))
print("the weight has", "not moved" if abs(float(x) - 2) < 1e-3 else "moved")
"""

# The trouble leaves the strategy unusable.
_PLACEHOLDER = """
import tensorflow as tf
import tf_lso
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
#! trouble
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
#! after
with strategy.scope():
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))

def step():
    with tf.GradientTape() as tape:
        loss = opt.get_scaled_loss(tf.reduce_mean(model(tf.ones((4, 2))) ** 2))
    grads = opt.get_unscaled_gradients(tape.gradient(loss, model.trainable_variables))
    opt.apply_gradients(zip(grads, model.trainable_variables))

tf.function(lambda: strategy.run(step))()
"""

_HANG = """
import os, threading
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import tf_lso
with strategy.scope():
    x = tf.Variable(1.0)
    #! trouble
    opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0))
    #! after
    opt.build([x])

@tf.function
def step(values):
    def replica_step(value):
        with tf.GradientTape() as tape:
            loss = opt.scale_loss(x * value)
        opt.apply_gradients(zip(tape.gradient(loss, [x]), [x]))
    strategy.run(replica_step, args=(values,))

def feed(*values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group]))

step(feed(1.0, 1.0))

def ended():
    print("one step has hung", flush=True)
    os._exit(7)

timer = threading.Timer(20.0, ended)
timer.start()
step(feed(1.0, float("nan")))
timer.cancel()
"""

_SAVED_BY_TF_LSO = """
config = {
    "module": "tf_lso.optimizers.loss_scale_optimizer",
    "class_name": "LossScaleOptimizer",
    "config": {
        "name": "loss_scale_optimizer",
        "inner_optimizer": {
            "module": "keras.optimizers",
            "class_name": "SGD",
            "config": {"learning_rate": 0.1},
            "registered_name": None,
        },
        "dynamic": True, "initial_scale": 8.0, "dynamic_growth_steps": 2000,
    },
    "registered_name": "tf_lso>LossScaleOptimizer",
}
import keras
#! trouble
#! after
print(keras.saving.deserialize_keras_object(config).initial_scale)
"""

CASES = {
    # --- After the upgrade.
    "`'LossScaleOptimizer' object has no attribute 'get_scaled_loss'`": Case(
        """
#! trouble
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
#! after
legacy_step(opt, variables[0])
assert float(variables[0]) == 0
""",
        keras3=True,
    ),
    "`module 'keras.mixed_precision' has no attribute 'experimental'`": Case("""
#! trouble
#! after
tf.keras.mixed_precision.experimental.Policy("mixed_float16")
"""),
    "`cannot import name 'experimental' from 'tensorflow.keras.mixed_precision'`": Case("""
#! trouble
#! after
from tensorflow.keras.mixed_precision import experimental
import tensorflow.keras.mixed_precision.experimental
"""),
    "`module 'tensorflow' has no attribute 'mixed_precision'`": Case("""
#! trouble
scale = tf.mixed_precision.experimental.FixedLossScale(128)
#! after
assert float(scale()) == 128
"""),
    "`has no attribute 'enable_mixed_precision_graph_rewrite'`": Case("""
opt = tf.keras.optimizers.SGD(0.5)
#! trouble
opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)
#! after
legacy_step(opt, variables[0])
"""),
    "``LossScaleOptimizer no longer supports `dynamic=False` ``": Case(
        """
sgd = tf.keras.optimizers.SGD(0.5)
#! trouble
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    sgd, dynamic=False, initial_scale=128)
#! after
assert float(opt.loss_scale) == 128
""",
        keras3=True,
    ),
    "``LossScaleOptimizer does not support arguments: `loss_scale` ``": Case("""
sgd = tf.keras.optimizers.SGD(0.5)
#! trouble
opt = tf.keras.mixed_precision.LossScaleOptimizer(sgd, loss_scale="dynamic")
#! after
assert float(opt.loss_scale()) == 2**15
"""),
    "`Argument(s) not recognized: {'lr': …}`": Case(
        """
#! trouble
opt = tf.keras.optimizers.SGD(lr=0.1)
#! after
""",
        keras3=True,
    ),
    "`object has no attribute 'lr'`": Case("""
#! trouble
#! after
opt = tf.keras.optimizers.SGD(0.25)
assert float(opt.lr) == 0.25
opt.get_weights(), opt._decayed_lr(tf.float32), opt.minimize
"""),
    "The loss does not move after the upgrade": Case(
        _UNSEEN_GUARD, shows="not moved", keras3=True
    ),
    # --- Old programs and Keras 3.
    "`object has no attribute 'reset_states'`": Case(
        """
metric = tf.keras.metrics.Mean()
#! trouble
metric.reset_states()
#! after
""",
        keras3=True,
    ),
    "``the filepath provided must end in `.weights.h5` ``": Case(
        """
#! trouble
checkpoint = tf.keras.callbacks.ModelCheckpoint("w.h5", save_weights_only=True)
#! after
model = new_model()
model.compile("sgd", "mse")
model.fit(tf.ones((4, 2)), tf.ones((4, 2)), verbose=0, callbacks=[checkpoint])
""",
        keras3=True,
    ),
    "``The filename must end in `.weights.h5` ``": Case(
        """
model = new_model()
#! trouble
model.save_weights("model.h5")
#! after
""",
        keras3=True,
    ),
    "`Invalid filepath extension for saving`": Case(
        """
model = new_model()
#! trouble
model.save("model")
#! after
""",
        keras3=True,
    ),
    "`Layer.__init__() takes 1 positional argument but 2 were given`": Case(
        """
class Own(tf.keras.Model):
    def __init__(self):
        #! trouble
        super().__init__(self)
        #! after
        self.layer = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.layer(x)

Own()(tf.ones((1, 2)))
""",
        keras3=True,
    ),
    "``Argument `decay` is no longer supported and will be ignored``": Case(
        """
#! trouble
opt = tf.keras.optimizers.SGD(0.1, decay=0.01)
#! after
""",
        keras3=True,
    ),
    "`KeyError: 'lr'`": Case(
        """
model = new_model()
model.compile("sgd", "mse")
plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss")
x = tf.ones((4, 2))
history = model.fit(x, x, verbose=0, callbacks=[plateau]).history
#! trouble
rates = history["lr"]
#! after
""",
        keras3=True,
    ),
    "`TensorBoard.__init__() got an unexpected keyword argument 'write_grads'`": Case(
        """
#! trouble
tensorboard = tf.keras.callbacks.TensorBoard("logs", write_grads=True)
#! after
""",
        keras3=True,
    ),
    "`object has no attribute 'fit_generator'`": Case(
        """
model = new_model()
model.compile("sgd", "mse")
batches = (2 * (np.ones((4, 2), "float32"),) for _ in range(2))
#! trouble
model.fit_generator(batches, steps_per_epoch=2, verbose=0)
#! after
""",
        keras3=True,
    ),
    "`fit() got an unexpected keyword argument 'workers'`": Case(
        """
model = new_model()
model.compile("sgd", "mse")
x = tf.ones((4, 2))
#! trouble
model.fit(x, x, verbose=0, workers=2)
#! after
""",
        keras3=True,
    ),
    "`A KerasTensor cannot be used as input to a TensorFlow function`": Case(
        """
inputs = tf.keras.Input((2,))
#! trouble
output = tf.reduce_mean(inputs)
#! after
""",
        keras3=True,
    ),
    "``add_weight: `name` must be passed as a keyword argument``": Case(
        """
class Own(tf.keras.layers.Layer):
    def build(self, shape):
        #! trouble
        self.w = self.add_weight("w", shape=(2, 1))
        #! after

    def call(self, x):
        return x @ self.w

Own()(tf.ones((1, 2)))
""",
        shows="`name` must be passed as a keyword|multiple values for argument 'shape'",
        keras3=True,
    ),
    "`Unrecognized keyword arguments passed to …: {'batch_input_shape': …}`": Case(
        """
#! trouble
layer = tf.keras.layers.Dense(1, batch_input_shape=(4, 2))
#! after
""",
        keras3=True,
    ),
    "`keras.layers' has no attribute 'experimental'`": Case(
        """
#! trouble
layer = tf.keras.layers.experimental.preprocessing.Normalization()
#! after
""",
        keras3=True,
    ),
    "`keras.backend' has no attribute 'function'`": Case(
        """
model = new_model()
x = tf.ones((4, 2))
#! trouble
output = tf.keras.backend.function(model.inputs, model.outputs)([x])
#! after
""",
        keras3=True,
    ),
    "``Argument `name` must be a string and cannot contain character `/` ``": Case(
        """
#! trouble
layer = tf.keras.layers.Dense(1, name="block/dense")
#! after
""",
        keras3=True,
    ),
    "`object has no attribute 'output_shape'`": Case(
        """
model = new_model()
#! trouble
shape = model.layers[0].output_shape
#! after
""",
        keras3=True,
    ),
    "`overrides … Keras 3 does not call what optimizers of TensorFlow 2.0-2.15 had`": Case(
        """
import tensorflow as tf
import tf_lso
tf_lso.install()
#! trouble
class Own(tf.keras.optimizers.SGD):
    def _resource_apply_dense(self, grad, var, apply_state=None):
        return var.assign_sub(0.5 * grad)
#! after
x = tf.Variable(2.0)
Own(0.5).apply_gradients([(tf.constant(1.0), x)])
assert float(x) == 1.5
""",
        alone=True,
        keras3=True,
    ),
    "``Invalid value for argument `reduction` ``": Case(
        """
#! trouble
loss = tf.keras.losses.MeanSquaredError(reduction="auto")
#! after
""",
        keras3=True,
    ),
    # --- Installing and importing.
    "`tf_lso needs TensorFlow, which is not installed`": Case(
        """
#! trouble
import sys
from tests.programs_in_processes import hiding
exec(hiding("tensorflow", "keras"))
#! after
import tf_lso
tf_lso.LossScaleOptimizer
""",
        alone=True,
        no_tensorflow=True,
    ),
    "`tf_lso supports … but found …`": Case(
        """
import os
import tensorflow as tf
tf.__version__ = "9.9.0"
#! trouble
#! after
import tf_lso
tf_lso.LossScaleOptimizer
""",
        alone=True,
        stays=True,
    ),
    "`Keras cannot be imported. Check that it is installed.`": Case(
        """
import os, sys
from tests.programs_in_processes import hiding
os.environ["TF_USE_LEGACY_KERAS"] = "1"
exec(hiding("tf_keras"))
#! trouble
#! after
import tensorflow as tf
print(tf.keras.Model)
import tf_lso
tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
""",
        alone=True,
        keras3=True,
    ),
    "`tf_lso scales losses of TensorFlow programs, but Keras uses the backend …`": Case(
        """
import os
import keras
import tf_lso
#! trouble
keras.backend.backend = lambda: "jax"  # what KERAS_BACKEND=jax makes of it
#! after
tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1))
""",
        alone=True,
        keras3=True,
    ),
    # --- Scaling, unscaling, applying.
    "`get_scaled_loss() was called in a step in which scale_loss() has scaled the loss "
    "already`": Case(
        _SGD
        + """
#! trouble
with tf.GradientTape() as tape:
    scaled_loss = opt.scale_loss(opt.get_scaled_loss(opt.scale_loss(loss_of(variables))))
#! after
opt.apply_gradients(zip(grads, variables))
assert float(variables[0]) == 0
"""
    ),
    "`The loss … is scaled already`": Case(
        _SGD
        + """
loss = tf.constant(2.0)
#! trouble
scaled_loss = opt.get_scaled_loss(opt.get_scaled_loss(loss))
#! after
assert float(scaled_loss) == 16
"""
    ),
    "`get_unscaled_gradients() got gradients that it has returned, which are unscaled "
    "already`": Case(
        _SGD
        + """
opt.get_scaled_loss(tf.constant(1.0))
scaled_grads = [tf.constant(8.0)]
#! trouble
grads = opt.get_unscaled_gradients(opt.get_unscaled_gradients(scaled_grads))
#! after
assert float(grads[0]) == 1
"""
    ),
    "`get_unscaled_gradients() was called but get_scaled_loss() was not`": Case(
        _SGD
        + """
#! trouble
with tf.GradientTape() as tape:
    loss = loss_of(variables)
grads = opt.get_unscaled_gradients(tape.gradient(loss, variables))
#! after
opt.apply_gradients(zip(grads, variables))
"""
    ),
    "`apply_gradients() cannot know whether these gradients are still scaled`": Case(
        _SGD
        + """
def gradients_of(scaled):
    with tf.GradientTape() as tape:
        loss = scaled(loss_of(variables))
    return tape.gradient(loss, variables)

@tf.function
def look():
    return opt.get_unscaled_gradients(gradients_of(opt.get_scaled_loss))

look()
grads = tf.function(lambda: gradients_of(opt.scale_loss))()
#! trouble
opt.apply_gradients(zip(grads, variables))
#! after
assert float(variables[0]) == 0
"""
    ),
    "`scale_loss() is called, but a tf.function that only applies gradients was traced "
    "before`": Case(
        _SGD
        + """
apply = tf.function(lambda grads: opt.apply_gradients(zip(grads, variables)))
#! trouble
apply([tf.constant(0.0)])
#! after
with tf.GradientTape() as tape:
    scaled_loss = opt.scale_loss(loss_of(variables))
apply(tape.gradient(scaled_loss, variables))
assert float(variables[0]) == 0
"""
    ),
    "`A float16 loss was scaled, and stays float16`": Case(
        _SGD
        + """
loss = tf.constant(1e4, "float16")
#! trouble
#! after
opt.get_scaled_loss(loss)
"""
    ),
    "`No gradients provided for any variable`": Case(
        _SGD
        + """
#! trouble
with tf.GradientTape() as tape:
    loss = loss_of([v.numpy() for v in variables])
grads = tape.gradient(tf.constant(loss), variables)
#! after
opt.apply_gradients(zip(grads, variables))
"""
    ),
    "`Gradients must be tensors, tf.IndexedSlices or None`": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), initial_scale=8)
opt.get_scaled_loss(tf.constant(1.0))
scaled = {"v": [tf.constant(8.0)]}
#! trouble
grads = opt.get_unscaled_gradients([scaled["v"]])
#! after
assert float(grads[0]) == 1
"""
    ),
    "`'loss' must be a tensor or a callable that returns one`": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), initial_scale=8)
loss = 2.0
#! trouble
#! after
assert float(opt.get_scaled_loss(loss)) == 16
"""
    ),
    "`` `tape` is required when a tensor is passed as the loss``": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
#! trouble
opt.minimize(loss_of(variables), variables)
#! after
assert float(variables[0]) == 0
"""
    ),
    "`Unknown variables: …`": Case(
        _SGD
        + """
legacy_step(opt, variables[0])
#! trouble
#! after
legacy_step(opt, tf.Variable(1.0, name="new"))
"""
    ),
    "`… was set after a step was traced`": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1))
step = tf.function(lambda: legacy_step(opt, variables[0]))
step()
variables[0].assign(1.0)
#! trouble
opt.beta_1 = 0.5
#! after
step()  # gradients of 4 and 2
assert abs(float(opt.get_slot(variables[0], "m")) - (0.5 * 0.4 + 0.5 * 2)) < 1e-5
""",
        stays=True,
    ),
    "`last_overflow can be read in eager code only`": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
step = tf.function(lambda: legacy_step(opt, variables[0]))
#! trouble
tf.function(lambda: opt.last_overflow)()
#! after
"""
    ),
    # --- The loss scale and NaN.
    "`The gradients were not finite although the loss scale is at its minimum`": Case(
        """
x, y = np.full((4, 2), np.nan, "float32"), np.ones((4, 1), "float32")
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=1)
model.compile(opt, "mse")
#! trouble
model.fit(x, y, verbose=0)
#! after
if "report" in vars():
    assert report.first.kind == "input"
"""
    ),
    "The loss is NaN": Case(
        """
x, y = np.full((4, 2), 6e4, "float32"), np.ones((4, 1), "float32")
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(
    8, name="big", kernel_initializer="ones"), keras.layers.Dense(1)])
model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
#! trouble
history = model.fit(x, y, epochs=2, verbose=0)
print("the loss is", history.history["loss"])
#! after
assert np.isfinite(model.get_weights()[0]).all()
if "report" in vars():
    assert (report.first.kind, report.first.layer) == ("forward overflow", "big")
""",
        shows=r"the loss is \[(nan|inf)",
    ),
    "`… scales no loss, but layers that it trains may compute in float16`": Case("""
tf_lso.install()
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
#! trouble
model.d_optimizer = keras.optimizers.SGD(0.1)
#! after
model.compile("sgd", "mse")
model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0)
"""),
    "`compile() uses the loss scale of its optimizer, … but the model's policy has "
    "another`": Case("""
tf_lso.install()
mixed_precision = tf.keras.mixed_precision.experimental
mixed_precision.set_policy(mixed_precision.Policy("mixed_float16", loss_scale=128))
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
#! trouble
sgd = tf.keras.optimizers.SGD(0.1)
model.compile(mixed_precision.LossScaleOptimizer(sgd, loss_scale=64), "mse")
#! after
assert float(model.optimizer.loss_scale) in (64, 128)
"""),
    "`'loss_scale' cannot be set`": Case("""
opt = tf_lso.LossScaleOptimizer(
    tf.keras.optimizers.SGD(0.5), dynamic=False, initial_scale=256)
#! trouble
opt.loss_scale = 512
#! after
assert float(opt.loss_scale) == 512
"""),
    # A process says it once.
    "`The dtype policy mixed_float16 may run slowly`": Case(
        """
from tf_lso.keras.mixed_precision import experimental
#! trouble
policy = "mixed_float16"
#! after
experimental.set_policy(policy)
""",
        alone=True,
    ),
    "`Policies ending in '_float32_vars' were removed in TensorFlow 2.1`": Case(
        """
from tf_lso.keras.mixed_precision import experimental
#! trouble
policy = "float16_with_float32_vars"
#! after
experimental.Policy(policy)
"""
    ),
    "`because the mixed precision graph rewrite is on`": Case(
        """
from tf_lso.keras.mixed_precision import experimental
tf_lso.train.experimental.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())
#! trouble
#! after
experimental.set_policy("mixed_float16")
"""
    ),
    # --- Several replicas and workers.
    "`Loss scaling is not supported with the tf.distribute.Strategy: …`": Case("""
#! trouble
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0"])
#! after
with strategy.scope():
    tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
"""),
    "`apply_gradients() must be called in a replica context`": Case(
        _MIRRORED
        + """
with strategy.scope():
    x = tf.Variable(1.0)
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    opt.build([x])

@tf.function
def step():
    scaled_loss = opt.get_scaled_loss(tf.constant(1.0))
    gradients = opt.get_unscaled_gradients([scaled_loss])
    opt.apply_gradients([(gradients[0], x)])

#! trouble
with strategy.scope():
    step()
#! after
"""
    ),
    "`… were created outside the scope of the strategy`": Case(
        _MIRRORED
        + """
#! trouble
x = tf.Variable(1.0)
#! after
with strategy.scope():
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
tf.function(lambda: strategy.run(lambda: legacy_step(opt, x)))()
"""
    ),
    "`You must feed a value for placeholder tensor`": Case(
        _PLACEHOLDER, alone=True, keras3=True
    ),
    "`gradient_accumulation_steps=… of the inner optimizer does not work under a "
    "strategy`": Case(
        _MIRRORED
        + """
with strategy.scope():
    x = tf.Variable(1.0)
    #! trouble
    inner = tf.keras.optimizers.SGD(0.5, gradient_accumulation_steps=2)
    #! after
    opt = tf_lso.LossScaleOptimizer(inner)
tf.function(lambda: strategy.run(lambda: legacy_step(opt, x)))()
"""
    ),
    "`ema_overwrite_frequency=… of the inner optimizer does not work under a "
    "strategy`": Case(
        _MIRRORED
        + """
with strategy.scope():
    x = tf.Variable(1.0)
    #! trouble
    inner = tf.keras.optimizers.SGD(0.5, use_ema=True, ema_overwrite_frequency=2)
    #! after
    opt = tf_lso.LossScaleOptimizer(inner)
tf.function(lambda: strategy.run(lambda: legacy_step(opt, x)))()
with strategy.scope():
    opt.finalize_variable_values([x])
""",
        keras3=True,
    ),
    "`is made by Horovod's DistributedOptimizer, which is for Keras 2`": Case(
        f"""
open("train.py", "w").write('''
import sys
sys.path.insert(0, {str(_HOROVOD)!r})
import horovod.tensorflow.keras as hvd
import tensorflow as tf
import tf_lso
hvd.init()
opt = tf_lso.LossScaleOptimizer(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5)))
x = tf.Variable(2.0)
opt.minimize(lambda: x ** 2, [x])
assert float(x) == 0
''')
from tf_lso import cli
#! trouble
assert cli.main(["run", "train.py"]) == 0
#! after
""",
        alone=True,
        no_tensorflow=True,
        keras3=True,
    ),
    "Several workers hang": Case(
        _HANG, shows="one step has hung", workers=2, keras3=True
    ),
    # --- Files and checkpoints.
    "`'str' object has no attribute 'quantization_mode'`": Case(
        """
old_model("mixed_float16").save("model.h5")
#! trouble
#! after
assert keras.models.load_model("model.h5").layers[0].compute_dtype == "float16"
""",
        keras3=True,
    ),
    "`Could not locate class 'Policy'`": Case(
        """
config = {"class_name": "Policy", "config": {"name": "mixed_float16"}}
#! trouble
#! after
assert keras.saving.deserialize_keras_object(config).compute_dtype == "float16"
""",
        keras3=True,
    ),
    "`Could not locate class 'LossScaleOptimizer'`": Case(
        _SAVED_BY_TF_LSO, alone=True, keras3=True
    ),
    "`Unknown optimizer: 'LossScaleOptimizerV3'`": Case("""
tf_keras = keras2
config = {"class_name": "LossScaleOptimizerV3",
          "config": old_model(optimizer="new").optimizer.get_config()}
#! trouble
opt = tf_keras.utils.legacy.deserialize_keras_object(
    config, printable_module_name="optimizer")
#! after
assert isinstance(opt, tf_lso.LossScaleOptimizer)
"""),
    "`File format not supported: …`": Case(
        """
old_model().save("model")
model = new_model()
#! trouble
keras.models.load_model("model")
#! after
assert keras.models.load_model("model.keras").layers[0].name == "one"
""",
        keras3=True,
    ),
    "`Value in checkpoint could not be found in the restored object: …`": Case(
        """
path = old_checkpoint("ckpt")
model = new_model()
opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
#! trouble
tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
#! after
del model, opt
import gc
gc.collect()
""",
        keras3=True,
    ),
    "`tf.train.Checkpoint restores only a part of it`": Case("""
tf_lso.install()
path = old_checkpoint("ckpt")
model = new_model()
opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
#! trouble
bare = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
tf.train.Checkpoint(model=model, optimizer=bare).restore(path).expect_partial()
#! after
"""),
    "`The checkpoint was written by an optimizer of TensorFlow 2.0-2.10`": Case("""
tf_keras = keras2
path = old_checkpoint("ckpt")
model = old_model(optimizer="new")
opt = tf_lso.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1, momentum=0.9))
opt.build(model.trainable_variables)
#! trouble
tf.train.Checkpoint(model=model, optimizer=opt).restore(path).expect_partial()
#! after
"""),
    "`belongs to … by its place in the model, and to … by its name`": Case("""
old_model(names=("a", "b")).save("model.h5")
#! trouble
mapping = None
#! after
model = new_model(names=("b", "a"))
tf_lso.checkpoints.restore("model.h5", model=model, mapping=mapping)
"""),
    "`'weights' has … arrays, but …`": Case(
        """
first = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
legacy_step(first, variables[0])
#! trouble
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1))
opt.build(variables)
#! after
opt.set_weights(first.get_weights())
"""
    ),
    "`the optimizer in the file is of the class …`": Case(
        """
old_model().save("model.h5")
#! trouble
opt = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.1))
#! after
tf_lso.checkpoints.restore("model.h5", model=new_model(), optimizer=opt, partial=True)
"""
    ),
    "`has several models or optimizers that fit`": Case(
        """
one, two = old_model(), old_model()
path = tf.train.Checkpoint(generator=one, critic=two).save("ckpt")
#! trouble
names = None
#! after
tf_lso.checkpoints.restore(path, model=new_model(), names=names)
"""
    ),
    "`'model' … has no variables yet`": Case("""
path = old_checkpoint("ckpt")
model = new_model(built=False)
x = tf.ones((4, 2))
#! trouble
#! after
tf_lso.checkpoints.restore(path, model=model)
"""),
    "`has no loss scale for the optimizer`": Case("""
tf_keras = keras2
tf_keras.mixed_precision.set_global_policy("mixed_float16")
#! trouble
#! after
model = old_model("mixed_float16", optimizer="new")
model.save("model.h5")
tf_lso.install()
model = tf_keras.models.load_model("model.h5")
"""),
    "`The state of the optimizer in the file does not fit …`": Case(
        """
def compiled():
    model = new_model()
    model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.1)), "mse")
    return model

old = compiled()
old.fit(tf.ones((4, 2)), tf.ones((4, 2)), verbose=0)
old.save_weights("model.weights.h5")
model = compiled()
#! trouble
model.layers[0].trainable = False
model.optimizer.build(model.trainable_variables)
model.load_weights("model.weights.h5")
#! after
"""
    ),
    # --- Wrapping and arguments.
    "`'dynamic' must be a bool`": Case("""
sgd = tf.keras.optimizers.SGD(0.1)
#! trouble
opt = tf_lso.LossScaleOptimizer(sgd, 128)
#! after
assert float(opt.loss_scale) == 128
"""),
    "`LossScaleOptimizer does not support '…', but got …`": Case(
        """
#! trouble
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), clipnorm=1.0)
#! after
legacy_step(opt, variables[0])
"""
    ),
    "`Could not interpret loss scale identifier`": Case(
        """
from tf_lso.keras.mixed_precision import experimental
#! trouble
loss_scale = "auto"
#! after
experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), loss_scale)
"""
    ),
    "`'optimizer' must not be a LossScaleOptimizer, since the loss would be scaled "
    "twice`": Case("""
wrapped = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
#! trouble
opt = tf_lso.LossScaleOptimizer(wrapped)
#! after
legacy_step(opt, variables[0])
"""),
    "`'optimizer' is already wrapped by a LossScaleOptimizer`": Case("""
sgd = tf.keras.optimizers.SGD(0.1)
first = tf_lso.LossScaleOptimizer(sgd)
#! trouble
opt = tf_lso.LossScaleOptimizer(sgd)
#! after
legacy_step(opt, variables[0])
"""),
    "`'optimizer' must be an instance of a Keras 3 or Keras 2 optimizer`": Case("""
#! trouble
opt = tf_lso.LossScaleOptimizer("sgd")
#! after
legacy_step(opt, variables[0])
"""),
    "`overrides … which optimizers since TensorFlow 2.11 never call`": Case("""
tf_keras = keras2
#! trouble
Base = tf_keras.optimizers.SGD
#! after
class Own(Base):
    def _resource_apply_dense(self, grad, var, apply_state=None):
        return var.assign_sub(0.25 * grad)

legacy_step(tf_lso.LossScaleOptimizer(Own(0.1)), variables[0])
assert float(variables[0]) == 1
"""),
    "`… does not call as TensorFlow 2.4-2.15 did`": Case(
        """
class Clipping(tf_lso.LossScaleOptimizer):
    def get_unscaled_gradients(self, grads):
        grads = super().get_unscaled_gradients(grads)
        return [tf.clip_by_value(grad, -1.0, 1.0) for grad in grads]

def minimized(model, data):
    x, y = data
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    model.optimizer.minimize(loss, model.trainable_variables, tape=tape)
    return loss

#! trouble
Model = keras.Model
#! after
inputs = keras.Input((1,))
model = Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
model.compile(Clipping(keras.optimizers.SGD(0.5)), "mse")
model.fit(np.ones((1, 1)), np.full((1, 1), 8.0), verbose=0)
assert float(model.get_weights()[0][0, 0]) == 0.5
""",
        keras3=True,
    ),
    "`'decay' cannot be set`": Case(
        _SGD
        + """
#! trouble
opt.decay = 0.01
#! after
legacy_step(opt, variables[0])
legacy_step(opt, variables[0])
"""
    ),
    "`stateless_apply is not supported with the TensorFlow backend`": Case(
        """
opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
#! trouble
opt.stateless_apply([], [tf.constant(1.0)], variables)
#! after
"""
    ),
    # --- Commands and reports.
    "`A plot needs the package matplotlib`": Case(
        """
import sys
import tensorflow as tf
import tf_lso
#! trouble
sys.modules["matplotlib"] = None
#! after
report = tf_lso.debugging.explain_gradients({"v": tf.constant([1.0])})
report.plot("report.png")
""",
        alone=True,
    ),
    "`No layer of 'model' computes in float16`": Case("""
#! trouble
keras.mixed_precision.set_global_policy("float32")
#! after
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
tf_lso.debugging.explain(model, tf.ones((4, 2)), tf.ones((4, 1)))
"""),
    "`is not built, so it has no weights to explain`": Case(
        """
keras.mixed_precision.set_global_policy("mixed_float16")
x, y = tf.ones((4, 2)), tf.ones((4, 1))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
#! trouble
#! after
tf_lso.debugging.explain(model, x, y)
"""
    ),
    "`needs an optimizer that scales the loss`": Case("""
#! trouble
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
#! after
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(opt, "mse")
monitor = tf_lso.callbacks.LossScaleMonitor()
model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0, callbacks=[monitor])
"""),
    "`was not there when the training began`": Case(
        """
x, y = tf.ones((4, 2)), tf.ones((4, 1))
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1)), "mse")
monitor = tf_lso.callbacks.LossScaleMonitor()
#! trouble
monitor.on_epoch_end(0, {})
#! after
"""
    ),
}
