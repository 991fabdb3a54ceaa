"""After `install()` every old spelling leads to tf_lso, until `uninstall()`."""

import concurrent.futures
import os

import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import keras
from tests.generation import needs_tf_keras
from tests.processes import run, start
from tf_lso.install import ledger as ledger_lib

# Prints each attribute of a module with an old spelling that is not the object of tf_lso.
RESOLVE = """
    import importlib
    import importlib.util
    import sys

    {imports_before_install}
    import tf_lso
    handle = tf_lso.install()
    import tensorflow as tf
    import keras
    from tf_lso import names
    from tf_lso.frameworks import keras_versions
    from tf_lso.install import old_modules

    checked = 0
    for spelled, namespace in names.MODULES.items():
        is_tf_keras = spelled.startswith("tf_keras")  # see tests/mirrors
        if is_tf_keras or keras_versions.is_own_private(spelled):
            continue
        if spelled.startswith("keras.src.") and not importlib.util.find_spec("keras.src"):
            continue  # Keras 2.12 has no package keras.src
        mirror = old_modules.module_for(namespace, spelled)
        # Get the module by each kind of import, and as an attribute of `tf`.
        scope = {{}}
        exec(f"import {{spelled}} as found", scope)
        modules = [importlib.import_module(spelled), scope["found"]]
        parent, _, last = spelled.rpartition(".")
        exec(f"from {{parent}} import {{last}} as found", scope)
        modules.append(scope["found"])
        if spelled.startswith("tensorflow.") and "python" not in spelled:
            modules.append(eval("tf." + spelled.removeprefix("tensorflow.")))
        for module in modules:
            for name in names.mirror_names(namespace):
                checked += 1
                if getattr(module, name) is not getattr(mirror, name):
                    print(spelled, module, name)
        exec(f"from {{spelled}} import {{', '.join(mirror.__all__)}}", scope)
    print("checked", checked)
    handle.uninstall()
    for name, module in sys.modules.items():
        if getattr(module, "__name__", "").startswith("tf_lso."):
            assert name.startswith("tf_lso"), name
"""


@pytest.mark.parametrize(
    "legacy_keras", ["0", pytest.param("1", marks=[pytest.mark.slow, needs_tf_keras])]
)
@pytest.mark.parametrize(
    "imports_before_install",
    [
        "",
        pytest.param(
            "import tensorflow.keras.mixed_precision, tensorflow.train.experimental",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_spelling_leads_to_tf_lso(imports_before_install, legacy_keras):
    program = RESOLVE.format(imports_before_install=imports_before_install)
    by = preloaded.run if imports_before_install else start
    *wrong, checked = run(program, by=by, TF_USE_LEGACY_KERAS=legacy_keras)
    assert wrong == []
    assert int(checked.removeprefix("checked ")) > 100  # the loop has found the modules


def is_installed():
    return hasattr(tf, "mixed_precision")


@pytest.fixture(autouse=True)
def not_installed():
    """Make sure that tf_lso is not installed before and after each test."""
    assert not is_installed()
    yield
    tf_lso.install().uninstall()
    tf.keras.mixed_precision.set_global_policy("float32")


def test_each_handle_uninstalls_also_that_of_a_second_install():
    first, second = tf_lso.install(), tf_lso.install()
    assert is_installed()
    for handle in (second, second, first):
        handle.uninstall()
        assert not is_installed()


def test_the_end_of_a_block_uninstalls_unless_it_was_installed_before_the_block():
    for _ in range(3):
        with tf_lso.install():
            from tensorflow.keras.mixed_precision import experimental

            assert experimental.Policy("float32").loss_scale is None
            with tf_lso.install():
                pass
            assert is_installed()
        assert not is_installed()


def test_the_end_of_a_block_leaves_an_installation_that_followed_it():
    with tf_lso.install():
        tf_lso.uninstall()
        tf_lso.install()
    assert is_installed()


def test_a_handle_says_what_it_did():
    first, second = tf_lso.install(), tf_lso.install()
    assert f"on TensorFlow {tf.__version__} with Keras" in repr(first)
    assert "was already installed" in repr(second)
    first.uninstall()
    assert repr(first) == repr(second) == "<tf_lso is not installed any more>"


@pytest.mark.keras3
def test_another_install_may_repeat_the_arguments_and_not_change_them(monkeypatch):
    monkeypatch.setenv("TF_LSO_LIKE", "2.4")
    with tf_lso.install(like="2.16"):
        assert os.environ["TF_LSO_LIKE"] == "2.16"
        tf_lso.install()
        tf_lso.install(like="2.16")
        for arguments in ({"like": "2.17"}, {"like": "2.16", "import_keras": False}):
            with pytest.raises(RuntimeError, match="comes after another install"):
                tf_lso.install(**arguments)
    assert os.environ["TF_LSO_LIKE"] == "2.4"
    assert "TF_LSO_IMPORT_KERAS" not in os.environ


def test_an_error_in_a_block_uninstalls():
    with pytest.raises(KeyError), tf_lso.install():
        raise KeyError
    assert not is_installed()


def test_an_error_of_install_undoes_the_changes_before_it(monkeypatch):
    from tf_lso.install import table

    def fail(keras, ledger):
        raise OSError("no")

    row = table.PATCHES[0]._replace(where=table.EACH, when=table.INSTALL, function=fail)
    monkeypatch.setattr(table, "PATCHES", [*table.PATCHES, row])
    before = dict(vars(keras.mixed_precision))
    with pytest.raises(OSError, match="no"):
        tf_lso.install()
    assert not is_installed()
    assert vars(keras.mixed_precision) == before


def test_a_change_of_a_method_that_keras_does_not_have_is_an_error():
    ledger = ledger_lib.Ledger()
    with pytest.raises(ImportError, match=r"Model.* has no _moved_away"):
        ledger.around(keras.Model, "_moved_away")


def test_an_attribute_that_a_class_has_is_not_replaced():
    ledger, fit = ledger_lib.Ledger(), keras.Model.fit
    ledger.add_missing(keras.Model, {"fit": None})
    assert keras.Model.fit is fit


def test_threads_may_install_and_uninstall_at_the_same_time():
    before = dict(vars(keras.mixed_precision))
    compile_before = keras.Model.compile

    def install_and_uninstall(_):
        for _ in range(3):
            handle = tf_lso.install()
            tf_lso.LossScaleOptimizer(keras.optimizers.SGD())
            handle.uninstall()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        # `list` raises the errors of the threads.
        list(pool.map(install_and_uninstall, range(4)))
    assert not is_installed()
    assert vars(keras.mixed_precision) == before
    assert keras.Model.compile is compile_before


@needs_tf_keras
def test_a_tf_keras_that_is_imported_after_install_has_the_old_names():
    program = """
        import tensorflow as tf
        import tf_lso
        handle = tf_lso.install()
        import tf_keras
        from tf_keras.mixed_precision import Policy, experimental
        from tf_keras.mixed_precision import LossScaleOptimizer
        assert issubclass(LossScaleOptimizer, tf_lso.LossScaleOptimizer)
        assert isinstance(experimental.Policy("mixed_float16"), Policy)
        experimental.set_policy("mixed_float16")
        model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        assert isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
        assert tf.keras.mixed_precision.global_policy().name == "float32"
        handle.uninstall()
        assert not hasattr(tf_keras.mixed_precision, "experimental")
    """
    run(program, preloaded.run, TF_USE_LEGACY_KERAS="0")
