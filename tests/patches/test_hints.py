"""The line that names `--like`, after an uncaught error that Keras 3 makes.

The programs of keras3_errors.txt, with empty lines between them, are first those that
worked in TensorFlow 2.0-2.15, which get it, then mistakes in any TensorFlow.
"""

import linecache
import pathlib
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tf_lso.patches import hints

pytestmark = pytest.mark.keras3

HINT = "tf_lso: This is a change of Keras 3, and not of loss scaling."
GONE = AttributeError("'Mean' object has no attribute 'reset_states'")
K = tf.keras

PROGRAMS = pathlib.Path(__file__).with_name("keras3_errors.txt").read_text("utf-8")
OF_KERAS3, MISTAKES = (
    section.strip().split("\n\n")
    for section in re.split("^===.*\n", PROGRAMS, flags=re.M)[1:]
)


# What the programs use, beside the names above.
x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def network():
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def build(own):
    type("Own", (K.layers.Layer,), {"build": own})()(x)


def error_of(case):
    name = f"<{case}>"
    linecache.cache[name] = len(case), None, case.splitlines(keepends=True), name
    try:
        exec(compile(case, name, "exec"), dict(globals()))
    except Exception as error:
        return error
    raise AssertionError(f"{case} raises nothing")


@pytest.mark.parametrize("cases, wanted", [(OF_KERAS3, True), (MISTAKES, False)])
def test_it_is_said_for_what_keras_3_changed_and_for_no_mistake(
    cases, wanted, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with tf_lso.install():
        errors = [error_of(case) for case in cases]
        wrong = [repr(e) for e in errors if (hints.hint(e) is not None) != wanted]
    assert (len(cases), wrong) == (43 if wanted else 17, [])


def missing():
    raise ImportError("tf_keras is not installed")


@pytest.mark.parametrize("package", [lambda: "tf_keras", missing])
def test_it_is_not_said_on_keras_2_nor_without_a_keras(package, monkeypatch):
    monkeypatch.setattr(hints.keras_versions, "package_of_tensorflow", package)
    assert hints.hint(GONE) is None


def test_it_is_not_said_with_like(monkeypatch):
    monkeypatch.setenv("TF_LSO_LIKE", "2.16")
    assert hints.hint(GONE) is None


def test_it_is_not_said_in_a_program_that_imports_keras(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "keras", sys.modules["keras"], raising=False)
    assert hints.hint(GONE) is None


def test_run_ends_with_the_line(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import tensorflow as tf\ntf.keras.metrics.Mean().reset_states()"
    )
    command = ["-m", "tf_lso", "run", program, "--epochs", "3"]
    done = preloaded.run(command, TF_USE_LEGACY_KERAS="0")
    *_, error, line = done.stderr.splitlines()
    assert error.startswith(f"AttributeError: {GONE}")
    assert line.startswith(HINT)
    assert line.endswith(f"tf-lso run --like 2.4 {program} --epochs 3")
    assert done.returncode == 1


def test_without_tf_keras_it_names_the_line_that_installs_it(monkeypatch):
    install = ', after `pip install "tf-keras==2.'
    assert install not in hints.hint(GONE, "train.py")
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    assert install in hints.hint(GONE, "train.py")


def test_in_a_notebook_it_stands_below_the_traceback(monkeypatch, capsys):
    class Shell:
        """What `install()` asks of IPython's."""

        def showtraceback(self, *args, **kwargs):
            print(sys.exc_info()[1], file=sys.stderr)

        def run_cell(self, method):
            try:
                getattr(K.metrics.Mean(), method)()
            except AttributeError:
                self.showtraceback(running_compiled_code=True)

    shell = Shell()
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with tf_lso.install():
        shell.run_cell("reset_states")
        shell.run_cell("reset_stats")
    shell.run_cell("reset_states")
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith(HINT) for line in lines] == [False, True, False, False]
    assert lines[1].endswith(
        'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'
    )


class Old(K.optimizers.SGD):
    def _resource_apply_dense(self, grad, var, apply_state=None):
        return var.assign_sub(grad)


class Below(Old):
    pass


class Both(Old):
    def update_step(self, gradient, variable, learning_rate):
        variable.assign_sub(gradient)


class Sums(K.optimizers.SGD):
    def _aggregate_gradients(self, grads_and_vars):
        return grads_and_vars


def test_work_that_keras_3_would_pass_over_in_silence_is_an_error():
    Old(0.5)  # without install() it is Keras's own affair
    with tf_lso.install():
        Both(0.5)
        message = r"^Old overrides _resource_apply_dense\..*`tf-lso run --like 2\.4`"
        for cls in (Old, Below):
            with pytest.raises(TypeError, match=message):
                cls(0.5)
        with pytest.raises(TypeError, match=r"^Sums overrides _aggregate_gradients\."):
            Sums(0.5)
