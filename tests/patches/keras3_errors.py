"""Errors of programs under `install()` on Keras 3: prints which of them get the hint.

The functions of `OLD` do what worked in TensorFlow 2.0-2.15; those of `OWN` are mistakes
in any TensorFlow.
"""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

import tf_lso
from tf_lso.patches import hints

K = tf.keras
OLD, OWN = {}, {}
x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def old(function):
    OLD[function.__name__] = function


def own(function):
    OWN[function.__name__] = function


def network():
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def layer_whose_build(build):
    class Own(K.layers.Layer):
        pass

    Own.build = build
    Own()(x)


# --- Optimizers.


@old
def an_argument_of_old_optimizers():
    K.optimizers.Adam(0.1, gradient_transformers=[])


@old
def the_name_first():
    class Own(K.optimizers.Optimizer):
        def __init__(self, name="Own", **kwargs):
            super().__init__(name, **kwargs)

    Own()


@old
def the_name_alone():
    class Own(K.optimizers.Optimizer):
        def __init__(self):
            super().__init__(name="Own")

    Own()


@old
def set_hyper():
    class Own(K.optimizers.Adam):
        def __init__(self):
            super().__init__(0.1)
            self._set_hyper("weight", 1.0)

    Own()


@old
def get_slot():
    K.optimizers.Adam().get_slot(tf.Variable(1.0), "m")


@old
def get_updates():
    K.optimizers.Adam().get_updates(loss=1, params=[])


@old
def an_attribute_of_the_wrapped():
    tf_lso.LossScaleOptimizer(K.optimizers.Adam())._get_hyper("learning_rate")


@old
def an_update_of_2_11():
    class Own(K.optimizers.SGD):
        def update_step(self, gradient, variable):
            variable.assign_sub(gradient)

    model = K.Sequential([K.layers.Dense(1)])
    model.compile(Own(), "mse")
    model.fit(x, y, verbose=0)


# --- Metrics and variables.


@old
def reset_states():
    K.metrics.Mean().reset_states()


@old
def reset_states_in_a_function():
    mean = K.metrics.Mean()

    @tf.function
    def reset():
        mean.reset_states()

    reset()


@old
def reset_states_of_compiled_metrics():
    class Own(K.Sequential):
        def train_step(self, data):
            self.compiled_metrics.reset_states()

    model = Own([K.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)


@old
def metrics_names_as_keys():
    model = network()
    results = dict(zip(model.metrics_names, model.evaluate(x, y, verbose=0)))
    results["mae"]


@old
def the_place_in_metrics_names():
    network().metrics_names.index("mae")


@old
def ref():
    network().trainable_variables[0].ref()


@old
def read_value():
    network().trainable_variables[0].read_value()


# --- Files.


@old
def save_weights_to_h5():
    network().save_weights("w.h5")


@old
def save_weights_to_a_checkpoint():
    network().save_weights("w")


@old
def load_weights_from_a_checkpoint():
    tf.train.Checkpoint(x=tf.Variable(1.0)).write("checkpoint")
    network().load_weights("checkpoint")


@old
def load_a_saved_model():
    tf.saved_model.save(tf.Module(), "saved")
    K.models.load_model("saved")


@old
def save_to_a_folder():
    network().save("folder")


@old
def save_with_a_format():
    network().save("model", save_format="tf")


@old
def save_with_options():
    network().save("model.keras", options=None)


@old
def a_checkpoint_of_weights():
    K.callbacks.ModelCheckpoint("m.h5", save_weights_only=True)


@old
def a_checkpoint_with_a_period():
    K.callbacks.ModelCheckpoint("m.keras", period=2)


# --- Models and layers.


@old
def a_model_that_passes_itself():
    class Own(K.Model):
        def __init__(self):
            super().__init__(self)

    Own()


@old
def add_weight_with_the_name_first():
    layer_whose_build(lambda self, shape: self.add_weight("w", shape=[2, 2]))


@old
def add_weight_with_name_and_shape_first():
    layer_whose_build(lambda self, shape: self.add_weight("w", [2, 2]))


@old
def add_weight_with_use_resource():
    layer_whose_build(
        lambda self, shape: self.add_weight(name="w", shape=[2], use_resource=True)
    )


@old
def add_metric():
    class Own(K.layers.Layer):
        def call(self, inputs):
            self.add_metric(inputs, name="m", aggregation="mean")
            return inputs

    Own()(x)


@old
def fit_generator():
    network().fit_generator(iter([(x, y)]), steps_per_epoch=1)


@old
def workers_of_fit():
    network().fit(x, y, workers=2, verbose=0)


@old
def an_argument_of_compile():
    network().compile("sgd", "mse", experimental_run_tf_function=False)


@old
def output_shape():
    _ = network().layers[0].output_shape


@old
def batch_input_shape():
    K.layers.Dense(1, batch_input_shape=(1, 2))


@old
def symbols_in_tensorflow():
    tf.reduce_sum(K.Input((2,)))


@old
def symbols_in_add_loss():
    inputs = K.Input((2,))
    outputs = K.layers.Dense(1)(inputs)
    K.Model(inputs, outputs).add_loss(tf.reduce_mean(outputs))


@old
def reduction_auto():
    K.losses.MeanSquaredError(reduction="auto")


# --- Names that are gone.


@old
def a_name_of_utils():
    _ = K.utils.multi_gpu_model


@old
def a_name_of_backend():
    K.backend.learning_phase()


@old
def an_import_from_utils():
    from tensorflow.keras.utils import multi_gpu_model  # noqa: F401


@old
def an_import_of_a_module():
    from tensorflow.keras.wrappers.scikit_learn import KerasClassifier  # noqa: F401


@old
def a_module_of_layers():
    _ = K.layers.experimental.preprocessing


@old
def raised_from_such_an_error():
    try:
        K.metrics.Mean().reset_states()
    except AttributeError as error:
        raise RuntimeError("cannot reset") from error


# --- Mistakes of the program's own.


@own
def a_misspelled_argument():
    K.optimizers.Adam(learning_rat=0.1)


@own
def a_rate_that_is_a_text():
    K.optimizers.Adam("fast")


@own
def a_misspelled_name():
    _ = K.layers.Densee


@own
def a_misspelled_import():
    from tensorflow.keras.layers import Densee  # noqa: F401


@own
def a_module_that_never_was():
    import tensorflow.keras.layerz  # noqa: F401


@own
def an_attribute_that_never_was():
    network().fitt()


@own
def an_attribute_of_the_wrapped_that_never_was():
    _ = tf_lso.LossScaleOptimizer(K.optimizers.Adam()).get_slott


@own
def a_class_of_its_own_without_the_attribute():
    class Trainer:
        pass

    Trainer().reset_states()


@own
def a_function_of_its_own():
    class Trainer:
        def fit(self, data):
            pass

    Trainer().fit(1, workers=2)


@own
def a_shape_that_does_not_fit():
    network().fit(np.ones((4, 3)), y, verbose=0)


@own
def weights_that_are_not_there():
    network().load_weights("nowhere")


@own
def a_folder_that_is_not_there():
    network().save("nowhere/model.keras")


@own
def a_loss_that_never_was():
    K.losses.get("msee")


@own
def a_key_of_its_own():
    results = dict(zip(network().metrics_names, [1, 2]))
    settings = {"rate": len(results)}
    settings["batch"]


@own
def a_number_that_is_no_number():
    float("many")


@own
def an_error_in_the_handler_of_such_an_error():
    try:
        K.metrics.Mean().reset_states()
    except AttributeError:
        {}["batch"]


@own
def a_check_of_its_own():
    assert x.sum() == 3


def error_of(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError(f"{function.__name__} raises nothing")


if __name__ == "__main__":  # not where pytest imports it
    tf_lso.install()
    os.chdir(tempfile.mkdtemp())
    for functions, wanted in ((OLD, True), (OWN, False)):
        wrong = {}
        for name, function in functions.items():
            error = error_of(function)
            if (hints.hint(error) is not None) != wanted:
                wrong[name] = f"{type(error).__name__}: {error}"
        print(len(functions), json.dumps(wrong))
