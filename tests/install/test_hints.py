"""A hint at `--like` follows an uncaught error that comes from Keras 3."""

import sys
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tf_lso.frameworks import keras_versions
from tf_lso.install import hints

pytestmark = pytest.mark.keras3

HINT = "tf_lso: This error comes from Keras 3, and not from loss scaling."
MISSING_METHOD = AttributeError(
    "'Mean' object has no attribute 'reset_states'", obj=tf.keras.metrics.Mean()
)
K = tf.keras

# The programs below use these names and `K`.
x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def network():
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


@tf.function
def reset_in_function(mean):
    """Call a removed method where AutoGraph raises a new error with the message of the old."""
    mean.reset_states()


class Layer(K.layers.Layer):
    """A layer that the program defines and that has a mistake."""

    def call(self, inputs):
        return float("many")


class Model:
    """A class that the program defines, with the same name as a class of Keras."""

    def fit(self, data):
        raise ValueError(data)


# Each of these programs worked in TensorFlow 2.0-2.15, and raises an error with Keras 3.
PROGRAMS_FOR_KERAS_2 = [
    "K.optimizers.SGD(lr=0.1)",
    "K.optimizers.SGD(0.1).lr",
    "K.optimizers.SGD(K.optimizers.schedules.CosineDecay(0.1, 9)).learning_rate(3)",
    "type('Own', (K.optimizers.Optimizer,), {})(name='Own')",
    "K.metrics.Mean().reset_states()",
    "reset_in_function(K.metrics.Mean())",
    "network().save('folder')",
    "network().compile('sgd', 'mse', sample_weight_mode='temporal')",
    "K.callbacks.ModelCheckpoint('m.keras', period=2)",
    "network().fit(x, y, workers=2, verbose=0)",
    "tf.reduce_sum(K.Input((2,)))",
    "K.backend.learning_phase()",
    "from tensorflow.keras.wrappers.scikit_learn import KerasClassifier",
    "from tensorflow.keras.utils import multi_gpu_model",
]

# Each of these programs raises an error that the program itself, TensorFlow, NumPy or tf_lso
# causes.
WRONG_PROGRAMS = [
    "Model().fit(1, workers=2)",
    "Layer()(x)",
    "Layer().missing",
    "tf_lso.LossScaleOptimizer(K.optimizers.Adam()).get_slott",
    "tf_lso.LossScaleOptimizer('adam')",
    "tf.matmul(x, x)",
    "tf.constant(3)(4)",
    "network().save('nowhere/model.keras')",
    "import no_such_module",
    "import keras_of_no_one",
    "assert x.sum() == 3",
]


def error_of(program):
    try:
        exec(program, dict(globals()))
    except Exception as error:
        return error
    raise AssertionError(f"{program} raises nothing")


@pytest.mark.parametrize("program", PROGRAMS_FOR_KERAS_2)
def test_an_error_that_comes_from_keras_3_has_a_hint(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tf_lso.install():
        assert hints.hint(error_of(program)).startswith(HINT)


@pytest.mark.parametrize("program", WRONG_PROGRAMS)
def test_another_error_has_no_hint(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tf_lso.install():
        assert hints.hint(error_of(program)) is None


def test_no_hint_if_keras_cannot_be_imported(monkeypatch):
    missing = mock.Mock(side_effect=ImportError)
    monkeypatch.setattr(keras_versions, "package_of_tensorflow", missing)
    assert hints.hint(MISSING_METHOD) is None


def test_an_error_whose_cause_comes_from_keras_3_has_a_hint():
    try:
        raise RuntimeError("cannot reset") from MISSING_METHOD
    except RuntimeError as error:
        assert hints.hint(error).startswith(HINT)


def test_an_error_while_an_error_of_keras_3_is_handled_has_no_hint():
    try:
        try:
            raise MISSING_METHOD
        except AttributeError:
            raise KeyError("batch")  # noqa: B904
    except KeyError as error:
        assert hints.hint(error) is None


def test_on_keras_2_there_is_no_hint(monkeypatch):
    monkeypatch.setattr(
        hints.keras_versions, "package_of_tensorflow", lambda: "tf_keras"
    )
    assert hints.hint(MISSING_METHOD) is None


def test_with_like_there_is_no_hint(monkeypatch):
    monkeypatch.setenv("TF_LSO_LIKE", "2.16")
    assert hints.hint(MISSING_METHOD) is None


def test_a_program_that_imports_keras_gets_the_hint_too(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "keras", sys.modules["keras"], raising=False)
    assert hints.hint(MISSING_METHOD).startswith(HINT)


@pytest.mark.slow
def test_the_last_line_of_tf_lso_run_is_the_hint(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import tensorflow as tf\ntf.keras.metrics.Mean().reset_states()"
    )
    command = ["-m", "tf_lso", "run", program, "--epochs", "3"]
    done = preloaded.run(command, TF_USE_LEGACY_KERAS="0")
    *_, error, line = done.stderr.splitlines()
    assert error.startswith(f"AttributeError: {MISSING_METHOD}")
    assert line.startswith(HINT)
    command = f"tf-lso run --like 2.4 {program} --epochs 3"
    assert line.endswith(f"{command} (replace 2.4 by the program's TensorFlow version)")
    assert done.returncode == 1


def test_in_a_notebook_the_hint_follows_the_traceback(monkeypatch, capsys):
    class Shell:
        """The part of IPython's shell that `install()` uses."""

        def showtraceback(self, *args, **kwargs):
            print(sys.exc_info()[1], file=sys.stderr)

        def run_cell(self, cell):
            try:
                exec(cell)
            except Exception:
                self.showtraceback(running_compiled_code=True)

    shell = Shell()
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with tf_lso.install():
        shell.run_cell("K.metrics.Mean().reset_states()")  # the error and the hint
        shell.run_cell("int('many')")  # only the error
    shell.run_cell("K.metrics.Mean().reset_states()")  # only the error
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith(HINT) for line in lines] == [False, True, False, False]
    assert 'tf_lso.install(like="2.4"), in a new kernel before' in lines[1]
