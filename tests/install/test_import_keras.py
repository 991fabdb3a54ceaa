"""Under `--like` up to 2.15 `import keras` is the Keras of `tf.keras`, as it was then."""

import textwrap

import pytest

from tests import processes
from tests.troubleshooting.page import assert_explained

pytestmark = pytest.mark.keras3


def run(program, *arguments, options=("--like", "2.8"), **variables):
    """Run a program by `tf-lso run`, and return the finished process."""
    return processes.start(
        ["-m", "tf_lso", "run", *options, *map(str, [program, *arguments])], **variables
    )


def write(folder, files):
    """Write files of Python programs, given as {name: text}. Return the path of the first."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder / next(iter(files))


# The program imports `keras` before TensorFlow. It is a package, starts a child process, and
# pickles a class, which Python refuses if the class was loaded twice.
PACKAGE = {
    "trainer/__main__.py": """
        import keras  # before TensorFlow
        import pickle, subprocess, sys
        import tensorflow as tf
        import tf_lso
        from trainer import model

        print(keras.__version__, keras.layers is tf.keras.layers, keras.Model is tf.keras.Model)
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        mixed = keras.Sequential([tf.keras.layers.Dense(2), keras.layers.Dense(1)])
        mixed.compile(keras.optimizers.SGD(0.5), "mse")
        mixed.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0)
        print(type(mixed.optimizer).__module__, mixed.layers[1].compute_dtype)
        print(pickle.loads(pickle.dumps(model.base_layer.Layer)) is keras.layers.Layer)

        monitor = tf_lso.callbacks.LossScaleMonitor()
        print(isinstance(monitor, keras.callbacks.Callback))
        print(keras.engine.__spec__.name, keras.engine.base_layer.__spec__.name)

        files = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            # `tensorflow.keras` is a copy of the public names.
            if "tf_keras" in path and not name.startswith("tensorflow."):
                files.setdefault(path, set()).add(id(module))
        print(len(files) > 300, [path for path, found in files.items() if len(found) > 1])

        child = "import keras.engine as e; print(e.__name__)"
        done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
        print(done.stdout.strip())

        of_2_8 = keras
        tf_lso.uninstall()
        import keras
        print(keras.__version__[0], keras.__name__, hasattr(of_2_8, "engine"))
        print("tf_keras.api._v2.keras.utils.tf_utils" in sys.modules)
    """,
    "trainer/__init__.py": "",
    "trainer/model.py": """
        from keras import backend
        from keras.engine import base_layer
        from keras.layers import Dense
        from keras.utils import tf_utils
        import keras.src.engine.training as training
        import tensorflow as tf
        import tf_keras

        assert training.Model is tf.keras.Model and Dense is tf_keras.layers.Dense
        assert base_layer.Layer is tf.keras.layers.Layer
    """,
}


def test_a_package_gets_the_keras_of_tf_keras(tmp_path):
    write(tmp_path, PACKAGE)
    done = processes.start(
        ["-m", "tf_lso", "run", "--like", "2.8", "-m", "trainer"], cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "2.8.0 True True",
        "tf_lso.optimizers.loss_scale_optimizer float16",
        "True",
        "True",
        "tf_keras.src.engine tf_keras.src.engine.base_layer",
        "True []",
        "tf_keras.src.engine",
        "3 keras False",
        "False",
    ], done.stderr


# Imports by each of the names that Keras moved, the names of loss scaling, and names that
# only Keras 3 has. In a notebook, the first cell calls `install`.
NAMES = """
    import importlib
    import tf_lso
    tf_lso.install(like="2.12")
    import keras, tf_keras
    from tf_lso.frameworks import moved_homes

    for path in moved_homes.HOMES:
        importlib.import_module(f"keras.{path}")
    import keras.optimizer_v2.adam, keras.saving.saved_model.load
    from keras.optimizers.optimizer_experimental import adam
    print(keras.optimizer_v2.adam.Adam is keras.optimizers.legacy.Adam)
    print(adam.Adam is keras.optimizers.Adam, keras.__version__)

    from keras.mixed_precision import loss_scale_optimizer
    import keras.mixed_precision.policy
    policy = keras.mixed_precision.policy
    print(loss_scale_optimizer.__name__, policy.__name__)
    for line in (
        "from keras import ops", "import keras.ops", "from keras import Variable",
        "import keras.src.random", "import keras.no_such_module",
        "import keras.wrappers.scikit_learn",  # Keras 3 has another `keras.wrappers`.
    ):
        try:
            exec(line)
        except ModuleNotFoundError as error:
            print(error.name, "import_keras=False" in str(error))
    from tf_lso.install import hints
    try:
        keras.ops.ones(())
    except AttributeError as error:
        print(hints.hint(error))
"""


def test_the_old_names_of_modules_lead_to_their_new_homes_and_to_tf_lso():
    *lines, hint = processes.run(NAMES)
    assert lines == [
        "True",
        "True 2.12.0",
        "tf_lso.keras.mixed_precision.loss_scale_optimizer "
        "tf_lso.keras.mixed_precision.policy",
        "keras.ops True",
        "keras.ops True",
        "keras.Variable True",
        "keras.random True",
        "keras.no_such_module False",
        "keras.wrappers False",
    ]
    assert hint.startswith(
        "tf_lso: keras.ops is part of Keras 3, but like='2.12' makes"
    )
    assert_explained("import-keras", hint)


# What `keras` had as attributes in TensorFlow 2.6-2.12, and names that Keras has moved since.
ATTRIBUTES = """
    import tf_lso
    tf_lso.install(like="2.8")
    import keras

    print(keras.utils.np_utils.to_categorical is keras.utils.to_categorical)
    print(keras.engine.training.Model is keras.Model, keras.layers.recurrent.LSTM.__name__)
    print(keras.backend.get_session.__name__, keras.layers.CuDNNLSTM.__name__)
    from keras.models import Functional
    from keras.layers.core.dropout import Dropout
    from keras.layers.merge import _Merge
    from keras.engine.base_layer import InputSpec, Layer
    from keras.utils.generic_utils import deserialize_keras_object, get_custom_objects
    print(issubclass(keras.layers.Add, _Merge), InputSpec is keras.layers.InputSpec)
    print(get_custom_objects is keras.utils.get_custom_objects)
    print(hasattr(keras.utils, "no_such_name"), hasattr(keras, "ops"))
    tf_lso.uninstall()
    import tf_keras
    print(hasattr(tf_keras.utils, "np_utils"), hasattr(tf_keras.layers, "CuDNNLSTM"))
    from tf_lso.install import hints
    try:
        tf_keras.ops
    except AttributeError as error:
        print(hints.hint(error))  # no hint at `import keras`, which is Keras 3 again
"""


def test_modules_have_the_attributes_that_they_had():
    assert processes.run(ATTRIBUTES) == [
        "True",
        "True LSTM",
        "get_session CuDNNLSTM",
        "True True",
        "True",
        "False False",
        "False False",
        "None",
    ]


FIRST = {
    "train.py": """
        import library
        import tf_lso
        try:
            tf_lso.install(like="2.4")
        except RuntimeError as error:
            print(error)
        tf_lso.install(like="2.4", import_keras=False)
        import keras, tensorflow as tf
        print(keras.__version__[0], tf.keras.__version__)
    """,
    "library.py": "from keras.layers import Dense",
}


def test_keras_3_that_was_imported_before_is_refused(tmp_path):
    program = write(tmp_path, FIRST)
    refused, versions = processes.run(
        program.read_text(),
        PYTHONPATH=f"{tmp_path}:{processes.ROOT}",
        TF_USE_LEGACY_KERAS="1",
    )
    assert refused.startswith(
        "like='2.4' makes `import keras` Keras 2, but the module 'library' has already "
        "imported Keras 3."
    )
    assert_explained("import-keras", refused)
    assert versions == "3 2.4.0"


@pytest.mark.slow
def test_the_command_lets_import_keras_stay_keras_3(tmp_path):
    child = "import keras; print(keras.__version__[0])"
    program = write(
        tmp_path,
        {
            "train.py": f"""
        import subprocess, sys
        import keras
        import tensorflow as tf
        print(keras.__version__[0], tf.keras.__version__)
        subprocess.run([sys.executable, "-c", {child!r}])
    """
        },
    )
    done = run(program, options=("--like", "2.8", "--no-import-keras"))
    assert sorted(done.stdout.splitlines()) == ["3", "3 2.8.0"], done.stderr
