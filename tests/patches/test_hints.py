"""The line that names `--like`, after an uncaught error that Keras 3 makes."""

import pathlib
import sys

import pytest

from tests import preloaded
from tests.processes import hiding, run, start
from tf_lso.patches import hints

ERRORS = pathlib.Path(__file__).with_name("keras3_errors.py")
HINT = "tf_lso: This is a change of Keras 3, and not of loss scaling."


def as_script(text, tmp_path, *options, by=start, **environment):
    path = tmp_path / "train.py"
    path.write_text(text)
    command = ["-m", "tf_lso", "run", *options, str(path), "--epochs", "3"]
    return by(command, **environment)


@pytest.mark.keras3
def test_it_is_said_for_what_keras_3_changed_and_for_no_mistake():
    done = preloaded.run([str(ERRORS)])
    assert done.returncode == 0, done.stderr
    of_keras3, own = done.stdout.splitlines()
    assert (of_keras3, own) == ("43 {}", "17 {}")


CHANGED = "import tensorflow as tf\ntf.keras.metrics.Mean().reset_states()\n"
OWN = "import tensorflow as tf\ntf.keras.metrics.Mean().reset_stats()\n"


@pytest.mark.keras3
def test_run_ends_with_the_line(tmp_path):
    done = as_script(CHANGED, tmp_path)
    *_, error, line = done.stderr.splitlines()
    assert error.startswith("AttributeError: 'Mean' object has no attribute")
    assert line.startswith(HINT)
    assert line.endswith(f"tf-lso run --like 2.4 {tmp_path}/train.py --epochs 3")
    assert done.returncode == 1


@pytest.mark.keras3
@pytest.mark.parametrize(
    ("program", "options", "environment"),
    [
        (OWN, [], {}),
        (CHANGED, ["--like", "2.16"], {}),
        ("import keras\n" + CHANGED, [], {}),
        (CHANGED.replace("states", "stats"), [], {"TF_USE_LEGACY_KERAS": "1"}),
    ],
)
def test_run_does_not(program, options, environment, tmp_path):
    done = as_script(program, tmp_path, *options, by=preloaded.run, **environment)
    assert "AttributeError" in done.stderr
    assert HINT not in done.stderr


# `train.py` of this folder is for the command line; this one has no tf_keras.
WITHOUT = """
import tf_lso
tf_lso.install()
import tensorflow as tf
from tf_lso.patches import hints
try:
    tf.keras.metrics.Mean().reset_states()
except AttributeError as error:
    print(hints.hint(error, "train.py"))
"""


@pytest.mark.keras3
def test_without_tf_keras_it_names_the_line_that_installs_it():
    (line,) = run(hiding("tf_keras") + WITHOUT)
    assert ', after `pip install "tf-keras==2.' in line


# A stand-in for IPython: what `install()` asks of it.
NOTEBOOK = """
    import sys
    import traceback
    import types

    class Shell:
        def showtraceback(self, *args, **kwargs):
            print(traceback.format_exc().splitlines()[-1], file=sys.stderr)

        def run_cell(self, text):
            try:
                exec(text, vars(sys.modules["__main__"]))
            except Exception:
                self.showtraceback(running_compiled_code=True)

    shell = Shell()
    sys.modules["IPython"] = types.ModuleType("IPython")
    sys.modules["IPython"].get_ipython = lambda: shell
    sys.stderr = sys.stdout
    shell.run_cell("import tf_lso; tf_lso.install()")
    shell.run_cell("import tensorflow as tf")
    shell.run_cell("tf.keras.metrics.Mean().reset_states()")
    shell.run_cell("tf.keras.metrics.Mean().reset_stats()")
    tf_lso.uninstall()
    shell.run_cell("tf.keras.metrics.Mean().reset_states()")
"""


@pytest.mark.keras3
def test_in_a_notebook_it_stands_below_the_traceback():
    lines = [line for line in run(NOTEBOOK) if "reset" in line or "tf_lso:" in line]
    assert [line.startswith(HINT) for line in lines] == [False, True, False, False]
    assert lines[1].endswith(
        'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'
    )


def test_where_the_import_of_tensorflow_failed_there_is_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # as far as it came

    def missing():
        raise ImportError("tf_keras is not installed")

    monkeypatch.setattr(hints.keras_versions, "package_of_tensorflow", missing)
    assert hints.hint(AttributeError("'Mean' object has no attribute 'ref'")) is None


SILENT = """
    import tensorflow as tf
    import tf_lso

    keras = tf.keras

    class Old(keras.optimizers.SGD):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return var.assign_sub(grad)

    class Below(Old):
        pass

    class Both(Old):
        def update_step(self, gradient, variable, learning_rate):
            variable.assign_sub(gradient)

    class Sums(keras.optimizers.SGD):
        def _aggregate_gradients(self, grads_and_vars):
            return grads_and_vars

    Old(0.5)  # without install() it is Keras's own affair
    with tf_lso.install():
        for cls in (Old, Below, Both, Sums):
            try:
                cls(0.5)
                print(cls.__name__, "is made")
            except TypeError as error:
                print(error)
"""


@pytest.mark.keras3
def test_work_that_keras_3_would_pass_over_in_silence_is_an_error():
    old, below, both, sums = run(SILENT, preloaded.run)
    assert both == "Both is made"
    for message in (old, below):
        assert message.startswith("Old overrides _resource_apply_dense.")
        assert "tf-lso run --like 2.4" in message
    assert sums.startswith("Sums overrides _aggregate_gradients.")
