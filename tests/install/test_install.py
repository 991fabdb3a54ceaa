"""After `install()` every old spelling leads to tf_lso, and `uninstall()` undoes this."""

import concurrent.futures

import numpy as np
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

    {first}
    import tf_lso
    handle = tf_lso.install()
    import tensorflow as tf
    import keras
    from tf_lso import names
    from tf_lso.frameworks import keras_versions
    from tf_lso.install import spellings

    checked = 0
    for spelled, namespace in names.MODULES.items():
        if keras_versions.is_own_private(spelled):
            continue
        if spelled.startswith("keras.src.") and not importlib.util.find_spec("keras.src"):
            continue  # of Keras 2.13 and newer
        mirror = spellings.module_for(namespace, spelled)
        scope = {{}}
        exec(f"import {{spelled}} as found", scope)
        found = [importlib.import_module(spelled), scope["found"]]
        parent, _, last = spelled.rpartition(".")
        exec(f"from {{parent}} import {{last}} as found", scope)
        found.append(scope["found"])
        if spelled.startswith("tensorflow.") and "python" not in spelled:
            found.append(eval("tf." + spelled.removeprefix("tensorflow.")))
        for module in found:
            checked += len(names.MODULES)
            for name in names.mirror_names(namespace):
                if getattr(module, name) is not getattr(mirror, name):
                    print(spelled, module, name)
        exec(f"from {{spelled}} import {{', '.join(mirror.__all__)}}", scope)
    print("checked", checked > 1000)
    handle.uninstall()
    for name, module in sys.modules.items():
        if getattr(module, "__name__", "").startswith("tf_lso."):
            assert name.startswith("tf_lso"), name
"""


LEGACY = ["0", pytest.param("1", marks=[pytest.mark.slow, needs_tf_keras])]


@pytest.mark.parametrize("legacy", LEGACY)
@pytest.mark.parametrize(
    "first",
    [
        "",
        pytest.param("import tensorflow", marks=pytest.mark.slow),
        "import tensorflow.keras.mixed_precision, tensorflow.train.experimental",
    ],
)
def test_every_spelling_leads_to_tf_lso(first, legacy):
    by = preloaded.run if first.startswith("import tensorflow") else start
    lines = run(RESOLVE.format(first=first), by=by, TF_USE_LEGACY_KERAS=legacy)
    assert lines == ["checked True"]


TRACES = """
    import sys
    import tensorflow as tf
    import keras
    {first}
    import tf_lso
    from tests.install import traces

    def listed():
        return list(getattr(tf.compat.v1.mixed_precision, "__all__", ()))  # 2.12: none

    traces.create_lazy_objects(*{packages})
    before, all_before = traces.snapshot(), listed()
    handle = tf_lso.install()
    print("installed", len(traces.changes_since(before)) > 50)
    handle.uninstall()
    print("uninstalled", *traces.changes_since(before), listed() == all_before)
    tf_lso.install().uninstall()
    print("again", *traces.changes_since(before))
"""


@pytest.mark.parametrize("legacy", LEGACY)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param("", marks=pytest.mark.slow),
        pytest.param("import tf_keras", marks=needs_tf_keras),
        "import tensorflow.keras.mixed_precision",
    ],
)
def test_uninstall_leaves_no_trace(first, legacy):
    packages = ["keras", *["tf_keras"] * (legacy == "1" or "tf_keras" in first)]
    program = TRACES.format(first=first, packages=packages)
    lines = run(program, by=preloaded.run, TF_USE_LEGACY_KERAS=legacy)
    assert lines == ["installed True", "uninstalled True", "again"]


def is_installed():
    return hasattr(tf, "mixed_precision")


@pytest.fixture(autouse=True)
def clean():
    """Make sure that tf_lso is not installed before and after each test."""
    assert not is_installed()
    yield
    tf_lso.install().uninstall()
    tf.keras.mixed_precision.set_global_policy("float32")


def test_a_handle_undoes_it_also_that_of_a_second_install():
    first, second = tf_lso.install(), tf_lso.install()
    assert is_installed()
    for handle in (second, second, first):
        handle.uninstall()
        assert not is_installed()


def test_the_end_of_a_block_undoes_what_the_block_has_installed():
    for _ in range(3):
        with tf_lso.install() as handle:
            from tensorflow.keras.mixed_precision import experimental

            assert handle is not None
            assert experimental.Policy("float32").loss_scale is None
            with tf_lso.install():
                pass
            assert is_installed()
        assert not is_installed()
    with pytest.raises(KeyError), tf_lso.install():
        raise KeyError
    assert not is_installed()


def test_nothing_is_half_installed_after_an_error(monkeypatch):
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


@pytest.mark.parametrize("name", ["SGD", "Model"])
def test_a_method_that_keras_has_moved_is_refused_by_name(name):
    ledger = ledger_lib.Ledger()
    owner = getattr(keras.optimizers, name, keras.Model)
    with pytest.raises(ImportError, match=rf"{name}.* has no _moved_away"):
        ledger.around(owner, "_moved_away")


def test_threads_install_once():
    before = dict(vars(keras.mixed_precision))
    compile_before = keras.Model.compile

    def work(_):
        for _ in range(5):
            handle = tf_lso.install()
            tf_lso.LossScaleOptimizer(keras.optimizers.SGD())
            handle.uninstall()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))  # `list` raises the errors of the threads
    assert not is_installed()
    assert vars(keras.mixed_precision) == before
    assert keras.Model.compile is compile_before


def test_an_unknown_name_is_an_error_that_names_the_nearest():
    with tf_lso.install():
        with pytest.raises(AttributeError, match="Did you mean 'set_policy'"):
            tf.keras.mixed_precision.experimental.set_polycy  # noqa: B018
        with pytest.raises(ImportError, match="set_polycy"):
            from tensorflow.keras.mixed_precision.experimental import (
                set_polycy,  # noqa: F401
            )


@needs_tf_keras
def test_tf_keras_imported_after_install_gets_the_names_too():
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


@pytest.mark.parametrize("bad", [0, 1])
def test_plain_fit_survives_a_nan_on_one_replica(mirrored2, bad):
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1))
    x[bad * 4] = np.nan  # the batch of 8 is split in two halves
    with tf_lso.install(), mirrored2.scope():
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        head = keras.layers.Activation("linear", dtype="float32")
        # On Keras 3.0 some random weights would make the gradients overflow at the first scale.
        body = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([body, head])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.build((None, 2))
        before = [np.array(w) for w in model.get_weights()]
        model.fit(x, y, batch_size=8, verbose=0)
        assert isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
        assert float(model.optimizer.loss_scale) == 2.0**14
        np.testing.assert_equal(model.get_weights(), before)
        model.fit(np.ones((8, 2)), y, batch_size=8, verbose=0)
        assert np.isfinite(model.get_weights()[0]).all()
        assert (model.get_weights()[0] != before[0]).any()
