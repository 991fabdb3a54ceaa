"""Importing tf_lso changes nothing and reports versions that do not work."""

import importlib
import importlib.metadata
import sys
import textwrap

import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import FAMILIES, keras, needs_keras3
from tests.processes import hiding, run
from tf_lso.frameworks import environment, keras_versions

# Prints which attributes of the frameworks have changed after the import of tf_lso, after its
# use, and after the import of all mirrors, and whether tf_keras was imported.
FIRST_IMPORT = """
    import importlib
    import pickle
    import sys
    import tempfile
    import tensorflow as tf
    import keras

    NAMESPACES = (
        keras, keras.optimizers, keras.mixed_precision, keras.saving, keras.Model,
        keras.optimizers.Optimizer, tf.keras.mixed_precision.LossScaleOptimizer,
        keras.optimizers.SGD, tf, tf.keras, tf.train, tf.distribute, tf.compat.v1,
        tf.compat.v1.train, tf.compat.v1.mixed_precision, tf.GradientTape, tf.Variable,
    )

    # Modules of TensorFlow load some attributes only when the attributes are read.
    for namespace in NAMESPACES:
        for name in dir(namespace):
            getattr(namespace, name, None)

    def contents():
        return [{n: id(v) for n, v in vars(space).items()} for space in NAMESPACES]

    def report():
        changed = []
        for namespace, old, new in zip(NAMESPACES, before, contents()):
            for name in old.keys() | new.keys():
                # Python itself creates `__annotations__` when it is read.
                if old.get(name) != new.get(name) and name != "__annotations__":
                    changed.append(f"{namespace.__name__}.{name}")
        print(sorted(changed), "tf_keras" in sys.modules)

    before = contents()
    import tf_lso
    report()

    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.5))
    x = tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    pickle.loads(pickle.dumps(optimizer))
    mixed_precision = tf_lso.keras.mixed_precision
    mixed_precision.experimental.set_policy("mixed_float16")
    model = keras.Sequential([keras.layers.Dense(1)])
    mixed_precision.experimental.set_policy(None)
    model.compile(tf_lso.wrap(keras.optimizers.SGD(0.5), model), "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder + "/m.keras")
        keras.models.load_model(folder + "/m.keras")
    report()

    from tf_lso import names
    for namespace in [*names.NAMESPACES, *names.PRIVATE]:
        importlib.import_module(f"tf_lso.{namespace}")
    import tf_lso.cli, tf_lso.install
    report()
"""


def test_without_install_nothing_changes_and_tf_keras_is_not_imported():
    assert run(FIRST_IMPORT, by=preloaded.run) == ["[] False"] * 3


def test_without_tensorflow_the_error_names_the_extras():
    statements = (
        "tf_lso.LossScaleOptimizer",
        "tf_lso.wrap",
        "import tf_lso.keras.mixed_precision",
        "import tf_lso.compat.v1.keras.mixed_precision",
        "import tf_lso.mixed_precision.experimental",
        "import tf_lso.train.experimental",
    )
    program = textwrap.dedent(f"""
        import tf_lso
        print(tf_lso.__version__)
        for statement in {statements!r}:
            try:
                exec(statement)
            except ImportError as error:
                print(error)
    """)
    version, *messages = run(hiding("tensorflow", "keras") + program)
    assert (version, len(messages)) == (tf_lso.__version__, len(statements))
    for message in messages:
        assert message.startswith("tf_lso needs TensorFlow")
        assert "tf-lso[tensorflow]" in message
        assert "tf-lso[tensorflow-cpu]" in message


def test_without_tensorboard_the_error_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    tf_lso.callbacks.LossScaleMonitor()
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES["new"].SGD(0.1))
    for call in (
        lambda: tf_lso.callbacks.LossScaleMonitor(log_dir="logs"),
        lambda: tf_lso.summary.loss_scale(optimizer),
    ):
        with pytest.raises(ImportError, match="pip install tensorboard") as caught:
            call()
        assert caught.value.name == "tensorboard"


# Each row has the version of TensorFlow, a Keras package and its version, and the
# requirement that the message tells the user to install.
REFUSED_VERSIONS = [
    (("2.11.1", "keras", "2.11.0"), "tensorflow>=2.12"),
    (("2.12.1", "keras", "2.11.0"), "keras>=2.12,<2.13"),
    (("2.12.1", "keras", "2.13.1"), "keras>=2.12,<2.13"),
    (("2.14.1", "tf_keras", "2.15.0"), "keras>=2.14,<2.15"),
    (("2.15.1", "keras", "3.15.0"), "keras>=2.15,<2.16"),
    (("2.16.1", "keras", "2.15.0"), "keras>=3.0"),
    (("2.21.0", "tf_keras", "2.15.0"), "keras>=2.16"),
    (("2.22.0", "keras", "2.15.0"), "keras>=3.0"),
]
TESTED_VERSIONS = [
    ("2.12.1", "keras", "2.12.0"),
    ("2.15.1", "tf_keras", "2.15.1"),
    ("2.16.0", "keras", "3.0.5"),
    ("2.21.0-rc1", "keras", "3.15.1"),
    ("2.21.0", "tf_keras", "2.21.0"),
]
NEWER_VERSIONS = [
    ("2.22.0.dev20260101", "keras", "3.15.0"),
    ("3.0.0", "keras", "4.0.0"),
    ("2.21.0", "keras", "3.99.0"),
    ("2.21.0", "tf_keras", "2.22.0.dev2026101709"),
]


def pretend_tensorflow_is_from(monkeypatch, distribution):
    """Pretend that TensorFlow was installed from this distribution."""
    installed = {"tensorflow": [distribution]}
    metadata = importlib.metadata
    monkeypatch.setattr(metadata, "packages_distributions", lambda: installed)


class TestVersions:
    @pytest.fixture(autouse=True)
    def forget_earlier_warnings(self, monkeypatch, caplog):
        monkeypatch.setattr(environment, "_warnings", [])
        caplog.set_level("WARNING", "tensorflow")

    @pytest.mark.parametrize(("pair", "remedy"), REFUSED_VERSIONS)
    def test_that_are_too_old_or_do_not_fit_are_refused(self, pair, remedy):
        tensorflow_version, _, keras_version = pair
        with pytest.raises(ImportError) as caught:
            environment.check_pair(*pair)
        message = str(caught.value)
        assert tensorflow_version in message
        assert f'{remedy}"`' in message.replace("tensorflow-cpu", "tensorflow")
        assert "pip install" in message
        assert keras_version in message or "tensorflow>=" in remedy

    @pytest.mark.parametrize("pair", TESTED_VERSIONS)
    def test_that_are_tested_are_accepted_silently(self, pair, caplog):
        environment.check_pair(*pair)
        assert not caplog.text

    @pytest.mark.parametrize("pair", NEWER_VERSIONS)
    def test_that_are_newer_are_accepted_with_a_warning(self, pair, caplog):
        environment.check_pair(*pair)
        tensorflow_version, _, keras_version = pair
        (record,) = caplog.records
        major, newest = max(environment.PAIRS)
        tested = f"tested with TensorFlow 2.12 to {major}.{newest}, Keras 3.0"
        assert tested in record.message
        assert tensorflow_version in record.message
        assert keras_version in record.message

    def test_the_warning_appears_once_in_a_process(self, caplog):
        for pair in NEWER_VERSIONS:
            environment.check_pair(*pair)
        assert len(caplog.records) == 1

    def test_of_an_old_nightly_build_are_refused_with_the_release(self, monkeypatch):
        pretend_tensorflow_is_from(monkeypatch, "tf_nightly_cpu")
        with pytest.raises(ImportError, match=r'"tensorflow>=2\.12"'):
            environment.check_pair("2.11.0.dev20220901", "keras", "2.11.0")

    @pytest.mark.parametrize(
        ("distribution", "version", "requirement"),
        [
            ("tf_nightly_cpu", (2, 99), "--no-deps tf_keras-nightly"),
            ("tensorflow", (2, 21), r'"tf-keras==2\.21\.\*"'),
        ],
    )
    def test_of_tf_keras_follow_tensorflow(
        self, monkeypatch, distribution, version, requirement
    ):
        pretend_tensorflow_is_from(monkeypatch, distribution)
        monkeypatch.setitem(sys.modules, "tf_keras", None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match=requirement):
            environment.require_tf_keras("like='2.4'", version)

    def test_of_an_installed_tf_keras_need_no_metadata(self, monkeypatch):
        """`install` asks a hundred times, and each reading of the metadata takes 0.1 s."""
        monkeypatch.delattr(importlib.metadata, "packages_distributions")
        monkeypatch.setitem(sys.modules, "tf_keras", tf)
        environment.require_tf_keras("like='2.4'", (2, 21))

    @pytest.mark.skipif(tf.__version__ < "2.15", reason="needs the choice of a Keras")
    @pytest.mark.parametrize("value", ["1", "true", "True"])
    def test_of_a_missing_tf_keras_are_refused_for_each_value_that_chooses_it(
        self, monkeypatch, value
    ):
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
        monkeypatch.setitem(sys.modules, "tf_keras", None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        minor = tf.__version__.rpartition(".")[0]
        # The policies of `tf_lso.keras.mixed_precision` are made for this package.
        for call in (tf_lso.install, keras_versions.package_of_tensorflow):
            with pytest.raises(ImportError) as caught:
                call()
            message = str(caught.value)
            assert message.startswith(f"TF_USE_LEGACY_KERAS={value} ")
            assert "or remove TF_USE_LEGACY_KERAS" in message
            assert f'pip install "tf-keras=={minor}.*"' in message

    @pytest.mark.parametrize("changed", ["tensorflow", "keras"])
    def test_of_the_imported_frameworks_are_checked(self, monkeypatch, changed):
        monkeypatch.setattr(sys.modules[changed], "__version__", "1.2.3")
        with pytest.raises(ImportError, match=r"found 1\.2\.3"):
            environment.require_tensorflow()

    def test_of_a_keras_that_cannot_be_imported_are_checked(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "keras", None)
        with pytest.raises(ImportError, match=r"needs Keras.*force-reinstall"):
            environment.require_tensorflow()
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.3")
        with pytest.raises(ImportError, match=r"found 1\.2\.3"):
            environment.require_tensorflow()

    def test_are_checked_whatever_is_used_first_and_nothing_changes(self):
        *messages, unchanged = run(
            """
            import sys
            import tensorflow as tf
            import keras, tf_lso

            def state():
                return set(vars(tf)), set(vars(keras.optimizers)), len(sys.meta_path)

            before = state()
            real, keras.__version__ = keras.__version__, "1.2.3"
            for statement in (
                "tf_lso.install()",
                "tf_lso.LossScaleOptimizer",
                "from tf_lso.keras import mixed_precision",
            ):
                try:
                    exec(statement)
                except ImportError as error:
                    print(error)
            keras.__version__ = real
            print(state() == before, hasattr(tf.keras.mixed_precision, "experimental"))
        """,
            by=preloaded.run,
        )
        assert len(messages) == 3
        assert all("keras" in text and "1.2.3" in text for text in messages)
        assert unchanged == "True False"


@needs_keras3
def test_another_keras_backend_is_refused(monkeypatch):
    inner = keras.optimizers.SGD()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"'jax'.*KERAS_BACKEND=tensorflow"):
        tf_lso.LossScaleOptimizer(inner)
    monkeypatch.undo()
    tf_lso.LossScaleOptimizer(inner)


@needs_keras3
def test_another_keras_backend_does_not_matter_to_tf_keras(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert tf_lso.LossScaleOptimizer(FAMILIES["legacy"].SGD()).dynamic


MODULES = {
    "callbacks",
    "checkpoints",
    "compat",
    "debugging",
    "keras",
    "mixed_precision",
    "summary",
    "train",
}
NAMES = {
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "install",
    "raise_if_stuck",
    "uninstall",
    "wrap",
}


class TestThePublicNames:
    def test_are_those_that_a_notebook_completes(self):
        importlib.import_module("tf_lso.scaling.rule")
        completed = {name for name in dir(tf_lso) if not name.startswith("__")}
        assert completed == NAMES | MODULES
        assert all(hasattr(tf_lso, name) for name in completed)

    def test_are_in_all(self):
        assert list(tf_lso.__all__) == sorted({*NAMES, "__version__"})
