"""Errors of programs under `install()` on Keras 3: prints which of them get the hint.

What `OLD` does worked in TensorFlow 2.0-2.15; `OWN` are mistakes in any TensorFlow.
"""

import json
import linecache
import os
import tempfile
import textwrap

import numpy as np
import tensorflow as tf

import tf_lso
from tf_lso.patches import hints

K = tf.keras
x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def network():
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def build(own):
    class Own(K.layers.Layer):
        build = own

    Own()(x)


OLD = [
    # Optimizers.
    "K.optimizers.Adam(0.1, gradient_transformers=[])",
    """
    class Own(K.optimizers.Optimizer):
        def __init__(self, name="Own", **kwargs):
            super().__init__(name, **kwargs)

    Own()
    """,
    """
    class Own(K.optimizers.Optimizer):
        def __init__(self):
            super().__init__(name="Own")

    Own()
    """,
    """
    class Own(K.optimizers.Adam):
        def __init__(self):
            super().__init__(0.1)
            self._set_hyper("weight", 1.0)

    Own()
    """,
    "K.optimizers.Adam().get_slot(tf.Variable(1.0), 'm')",
    "K.optimizers.Adam().get_updates(loss=1, params=[])",
    "tf_lso.LossScaleOptimizer(K.optimizers.Adam())._get_hyper('learning_rate')",
    """
    class Own(K.optimizers.SGD):
        def update_step(self, gradient, variable):
            variable.assign_sub(gradient)

    model = K.Sequential([K.layers.Dense(1)])
    model.compile(Own(), "mse")
    model.fit(x, y, verbose=0)
    """,
    # Metrics and variables.
    "K.metrics.Mean().reset_states()",
    "tf.function(lambda mean=K.metrics.Mean(): mean.reset_states())()",
    """
    class Own(K.Sequential):
        def train_step(self, data):
            self.compiled_metrics.reset_states()

    model = Own([K.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    """,
    """
    model = network()
    results = dict(zip(model.metrics_names, model.evaluate(x, y, verbose=0)))
    results["mae"]
    """,
    "network().metrics_names.index('mae')",
    "network().trainable_variables[0].ref()",
    "network().trainable_variables[0].read_value()",
    # Files.
    "network().save_weights('w.h5')",
    "network().save_weights('w')",
    """
    tf.train.Checkpoint(x=tf.Variable(1.0)).write("checkpoint")
    network().load_weights("checkpoint")
    """,
    """
    tf.saved_model.save(tf.Module(), "saved")
    K.models.load_model("saved")
    """,
    "network().save('folder')",
    "network().save('model', save_format='tf')",
    "network().save('model.keras', options=None)",
    "K.callbacks.ModelCheckpoint('m.h5', save_weights_only=True)",
    "K.callbacks.ModelCheckpoint('m.keras', period=2)",
    # Models and layers.
    """
    class Own(K.Model):
        def __init__(self):
            super().__init__(self)

    Own()
    """,
    "build(lambda self, shape: self.add_weight('w', shape=[2, 2]))",
    "build(lambda self, shape: self.add_weight('w', [2, 2]))",
    "build(lambda self, shape: self.add_weight(name='w', shape=[2], use_resource=True))",
    """
    class Own(K.layers.Layer):
        def call(self, inputs):
            self.add_metric(inputs, name="m", aggregation="mean")
            return inputs

    Own()(x)
    """,
    "network().fit_generator(iter([(x, y)]), steps_per_epoch=1)",
    "network().fit(x, y, workers=2, verbose=0)",
    "network().compile('sgd', 'mse', experimental_run_tf_function=False)",
    "network().layers[0].output_shape",
    "K.layers.Dense(1, batch_input_shape=(1, 2))",
    "tf.reduce_sum(K.Input((2,)))",
    """
    inputs = K.Input((2,))
    outputs = K.layers.Dense(1)(inputs)
    K.Model(inputs, outputs).add_loss(tf.reduce_mean(outputs))
    """,
    "K.losses.MeanSquaredError(reduction='auto')",
    # Names that are gone.
    "K.utils.multi_gpu_model",
    "K.backend.learning_phase()",
    "from tensorflow.keras.utils import multi_gpu_model",
    "from tensorflow.keras.wrappers.scikit_learn import KerasClassifier",
    "K.layers.experimental.preprocessing",
    """
    try:
        K.metrics.Mean().reset_states()
    except AttributeError as error:
        raise RuntimeError("cannot reset") from error
    """,
]
OWN = [
    "K.optimizers.Adam(learning_rat=0.1)",
    "K.optimizers.Adam('fast')",
    "K.layers.Densee",
    "from tensorflow.keras.layers import Densee",
    "import tensorflow.keras.layerz",
    "network().fitt()",
    "tf_lso.LossScaleOptimizer(K.optimizers.Adam()).get_slott",
    "type('Trainer', (), {})().reset_states()",
    "type('Trainer', (), {'fit': lambda self, data: None})().fit(1, workers=2)",
    "network().fit(np.ones((4, 3)), y, verbose=0)",
    "network().load_weights('nowhere')",
    "network().save('nowhere/model.keras')",
    "K.losses.get('msee')",
    """
    results = dict(zip(network().metrics_names, [1, 2]))
    settings = {"rate": len(results)}
    settings["batch"]
    """,
    "float('many')",
    """
    try:
        K.metrics.Mean().reset_states()
    except AttributeError:
        {}["batch"]
    """,
    "assert x.sum() == 3",
]


def error_of(case):
    text, name = textwrap.dedent(case), f"<{case}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    try:
        exec(compile(text, name, "exec"), dict(globals()))
    except Exception as error:
        return error
    raise AssertionError(f"{case} raises nothing")


if __name__ == "__main__":  # not where pytest imports it
    tf_lso.install()
    os.chdir(tempfile.mkdtemp())
    for cases, wanted in ((OLD, True), (OWN, False)):
        errors = {case: error_of(case) for case in cases}
        wrong = {
            case: f"{type(error).__name__}: {error}"
            for case, error in errors.items()
            if (hints.hint(error) is not None) != wanted
        }
        print(len(cases), json.dumps(wrong))
