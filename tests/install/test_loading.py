"""Under `install()`, Keras 3 and Keras 2 load configs and models of all versions.

The versions are TensorFlow 2.0-2.15, Keras 3 and tf_lso.
"""

import copy
import itertools
import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints.helpers import make_model
from tests.families import (
    FAMILIES,
    GENERATIONS,
    KERAS2_PACKAGE,
    KERASES,
    OLD_KERAS3,
    PACKAGES,
    keras,
    keras2,
    needs_keras3,
    number,
)
from tf_lso.frameworks import keras_versions
from tf_lso.install import loading_configs, loading_keras3
from tf_lso.optimizers import experimental, manifest

X = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
Y = np.float32([[1.0], [2.0], [3.0]])
EXPERIMENTAL = experimental.LossScaleOptimizer


def load(module, path, **kwargs):
    with tf_lso.install():
        return module.models.load_model(path, **kwargs)


# --- Configs.


def serialized(class_name, **config):
    return {"class_name": class_name, "config": config}


def sgd_config(class_name="SGD", **config):
    return serialized(class_name, learning_rate=0.25, momentum=0.5, **config)


SGD_OF_KERAS_2 = sgd_config(decay=0.0)


def wrapper_config(class_name="LossScaleOptimizer", inner=SGD_OF_KERAS_2, **config):
    config = {"initial_scale": 4.0, "dynamic_growth_steps": 3, **config}
    return serialized(class_name, inner_optimizer=inner, **config)


WRAPPER_OF_2_3 = serialized(
    "LossScaleOptimizer",
    optimizer=SGD_OF_KERAS_2,
    loss_scale=serialized(
        "DynamicLossScale", initial_loss_scale=4.0, increment_period=3
    ),
)
# Configs of wrappers as different versions wrote them.
WRAPPER_CONFIGS = {
    "2.3": WRAPPER_OF_2_3,
    "2.4": wrapper_config(dynamic=True),
    "2.4 experimental": wrapper_config("LossScaleOptimizerV1", dynamic=True),
    "2.9 new": wrapper_config("LossScaleOptimizerV3", sgd_config("Custom>SGD")),
    "keras3": wrapper_config(inner=sgd_config(), name="mine", loss_scale_factor=None),
}


def assert_wrapper_of_configs(optimizer, family):
    """Assert that an optimizer is a wrapper of tf_lso with the values of the configs above."""
    if family == "keras3":
        inner_classes = (keras.optimizers.Optimizer,)
    else:
        inner_classes = (keras2.optimizers.Optimizer, FAMILIES["legacy"].Optimizer)
    assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
    assert isinstance(optimizer.inner_optimizer, inner_classes)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (4.0, 3)
    assert number(optimizer.learning_rate) == 0.25
    assert number(optimizer.momentum) == 0.5


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("saved_by", WRAPPER_CONFIGS)
def test_deserialize_and_get_load_every_wrapper(saved_by, family):
    config = copy.deepcopy(WRAPPER_CONFIGS[saved_by])
    with tf_lso.install():
        modules = [KERASES[family]]
        if keras_versions.package_of(tf.keras.Model) == PACKAGES[family]:
            # `tf.keras` may be a module of its own, with copies of these functions.
            modules.append(tf.keras)
        for module in modules:
            deserialize = module.optimizers.deserialize
            assert_wrapper_of_configs(deserialize(config), family)
            assert_wrapper_of_configs(deserialize(config, custom_objects={}), family)
            assert_wrapper_of_configs(module.optimizers.get(config), family)
    assert config == WRAPPER_CONFIGS[saved_by]


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("wrapper", [tf_lso.LossScaleOptimizer, EXPERIMENTAL])
def test_custom_objects_may_name_the_class(wrapper, family):
    optimizers, objects = KERASES[family].optimizers, {"LossScaleOptimizer": wrapper}
    with tf_lso.install():
        by_argument = optimizers.deserialize(wrapper_config(), custom_objects=objects)
        with KERASES[family].saving.custom_object_scope(objects):
            by_scope = optimizers.get(wrapper_config())
    for optimizer in (by_argument, by_scope):
        assert_wrapper_of_configs(optimizer, family)
        assert isinstance(optimizer, EXPERIMENTAL) == (wrapper is EXPERIMENTAL)


@pytest.mark.parametrize("family", GENERATIONS)
def test_configs_of_other_optimizers_are_left_to_keras(family):
    optimizers = KERASES[family].optimizers
    config = optimizers.serialize(optimizers.Adam(0.25))
    with tf_lso.install():
        assert not loading_configs.holds_wrapper(config)
        assert type(optimizers.deserialize(config)) is optimizers.Adam
        assert type(optimizers.get("adam")) is optimizers.Adam
        if family == "keras3":
            assert optimizers.get(None) is None
        with pytest.raises(ValueError, match="bogus"):
            optimizers.get("bogus")


# --- Whole models.


def skip_if_keras2_is_older(version, family):
    """Skip the test if the installed Keras 2 is older than the one that wrote the file."""
    # The minor version of the TensorFlow in names such as "TF2.15.1" or "TF2.21-tf_keras".
    minor = int(version.removeprefix("TF2.").split("-")[0].split(".")[0])
    if family == "keras2" and not keras_versions.is_at_least(KERAS2_PACKAGE, 2, minor):
        pytest.skip(f"{version} is later than this Keras 2")


def has_state(version, case, path):
    """Return whether the version that wrote the file saved the optimizer's state."""
    api, family = case.split("-")[:2]  # such as "stable-new-Adam-dynamic"
    if path.suffix == ".keras":
        return family == "new"
    if family != "new":
        return True
    if version == "TF2.11.1":
        return api == "bare"
    return version not in ("TF2.9.3", "TF2.10.1")


def readable(path, family, folder):
    """Copy a file so that the Keras of a family can read it. Return the path of the copy.

    Keras 3 refuses the shape of the batch in a .keras file. A copy for Keras 3 does not
    contain it.
    """
    copied = folder / path.name
    shutil.copy(path, copied)
    if family == "keras3" and path.suffix == ".keras":
        remove_batch_shapes(copied)
    return str(copied)


def remove_batch_shapes(path):
    """Remove the shapes of batches from the layers in a .keras file."""
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    config = json.loads(contents["config.json"])
    for layer in config["config"]["layers"][1:]:
        layer["config"].pop("batch_input_shape", None)
    contents["config.json"] = json.dumps(config)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)


# Each case takes some seconds. The others are slow.
QUICK = [("TF2.4.4", "keras2"), ("TF2.15.1", "keras3")]


@pytest.mark.parametrize(
    ("version", "family"),
    [
        pytest.param(
            *case, marks=[] if case in QUICK else pytest.mark.slow, id="-".join(case)
        )
        for case in itertools.product(artifacts.VERSIONS, GENERATIONS)
        if "models" not in case[0]
    ],
)
def test_models_that_real_versions_wrote_load_and_train_on(version, family, tmp_path):
    skip_if_keras2_is_older(version, family)
    if (version, family) == ("TF2.1.4", "keras3"):
        pytest.skip("Keras 3 adds a dimension to the inputs of such a model")
    for path in sorted(artifacts.folder(version).glob("*/model.*")):
        case = path.parent.name  # such as "stable-new-Adam-dynamic"
        if case.startswith("bare") and family == "keras3":
            continue  # tf_lso loads only wrapped optimizers into Keras 3
        written = artifacts.expected(version, case, path.name)
        model = load(KERASES[family], readable(path, family, tmp_path))
        assert model.input_shape == (None, 3)
        assert artifacts.close(model.get_weights(), written["after5"]["weights"], 0, 0)
        optimizer = inner = model.optimizer
        if case.endswith("-dynamic"):
            inner = optimizer.inner_optimizer
            assert artifacts.scale_of(optimizer) == (8.0, 0), path
        elif case.endswith("-fixed"):
            inner = optimizer.inner_optimizer
            assert artifacts.scale_of(optimizer) == (128.0, None), path
        else:
            assert artifacts.scale_of(optimizer) == (None, None), path
        assert keras_versions.package_of(type(inner)) == PACKAGES[family], path
        is_whole = has_state(version, case, path)
        steps = written["after5"]["iterations"] if is_whole else 0
        assert number(optimizer.iterations) == steps, path
        artifacts.go_on(version, case, model, optimizer)
        # TensorFlow 2.1 treats skipped steps differently: see test_restore.py of checkpoints.
        if is_whole and version != "TF2.1.4":
            after = written["after10"]["weights"]
            assert artifacts.close(model.get_weights(), after), path


CASE_OF_2_15 = artifacts.folder("TF2.15.1") / "stable-new-Adam-dynamic"


@pytest.mark.parametrize("family", GENERATIONS)
def test_custom_objects_may_name_the_class_of_a_file_without_loss_scale(
    family, tmp_path, caplog
):
    skip_if_keras2_is_older("TF2.15.1", family)
    path = readable(CASE_OF_2_15 / "model.h5", family, tmp_path)
    objects = {"LossScaleOptimizer": EXPERIMENTAL}
    model = load(KERASES[family], path, custom_objects=objects)
    assert isinstance(model.optimizer, EXPERIMENTAL)
    assert caplog.text.count("has no loss scale") == 1
    assert path in caplog.text


@needs_keras3
@pytest.mark.parametrize(
    "metrics", [["accuracy"], pytest.param(["mse", "mae"], marks=pytest.mark.slow)]
)
def test_keras_3_resolves_the_names_in_an_hdf5_file_of_keras_2(metrics, tmp_path):
    """Keras 2 saved a metric as the name of a function, which Keras 3 itself would call."""
    path = tmp_path / "model.hdf5"
    model = artifacts.network(keras2)
    inner = FAMILIES["legacy"].Adam(0.1)
    wrapper = keras2.mixed_precision.LossScaleOptimizer(inner)
    model.compile(wrapper, "mse", metrics=metrics)
    model.fit(X, Y, verbose=0)
    expected = model.evaluate(X, Y, verbose=0, return_dict=True)
    model.save(path)
    loaded = load(keras, str(path))
    actual = loaded.evaluate(X, Y, verbose=0, return_dict=True)
    assert metrics[-1] in actual
    for name in actual:
        assert actual[name] == pytest.approx(expected[name], rel=1e-2), name
    loaded.fit(X, Y, verbose=0)
    assert number(loaded.optimizer.iterations) == 2


@needs_keras3
def test_a_metric_of_keras_2_keeps_its_name_and_dtype():
    config = {"name": "error", "dtype": "float64", "fn": "mean_absolute_error"}
    config = serialized("MeanMetricWrapper", **config)
    metric = loading_keras3._from_config(keras.metrics, config)
    assert (metric.name, metric.dtype) == ("error", "float64")


@needs_keras3
def test_the_losses_of_several_outputs_keep_their_form():
    losses = {"a": ["mse", serialized("Huber", delta=2.0)], "b": None}
    found = loading_keras3._from_config(keras.losses, losses)
    (name, huber), nothing = found["a"], found["b"]
    assert (name, type(huber), nothing) == ("mse", keras.losses.Huber, None)


@needs_keras3
@pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 ignores compile=False for .h5")
@pytest.mark.parametrize("name", ["model.h5", "model.keras"])
def test_a_model_may_be_loaded_without_its_optimizer(name, tmp_path, caplog):
    path = readable(CASE_OF_2_15 / name, "keras3", tmp_path)
    assert getattr(load(keras, path, compile=False), "optimizer", None) is None
    assert "tf_lso" not in caplog.text


@needs_keras3
def test_an_h5_file_of_a_model_that_was_not_compiled_is_loaded(tmp_path):
    artifacts.network(keras).save(tmp_path / "m.h5")
    assert load(keras, tmp_path / "m.h5").input_shape == (None, 3)


def test_an_h5_file_without_a_manifest_has_the_loss_scale(tmp_path):
    """Earlier versions of tf_lso wrote such files."""
    model, path = artifacts.network(keras2), tmp_path / "m.h5"
    inner = FAMILIES["legacy"].SGD(0.1)
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8)
    optimizer.apply_gradients([(tf.ones(v.shape), v) for v in model.weights])
    model.compile(optimizer, "mse")
    with tf_lso.install():
        model.save(path)
    with h5py.File(path, "a") as file:
        del file["optimizer_weights"].attrs[f"{manifest.NAME}0"]
    assert artifacts.scale_of(load(keras2, path).optimizer) == (8.0, 1)


@needs_keras3
def test_keras_3_keeps_what_the_program_passed_to_compile_of_keras_2(tmp_path):
    model = make_model(keras2)
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES["legacy"].SGD(0.1))
    model.compile(optimizer, "mse", steps_per_execution=2, run_eagerly=True)
    with tf_lso.install():
        model.save(tmp_path / "m.keras")
    loaded = load(keras, tmp_path / "m.keras")
    assert (loaded.steps_per_execution, loaded.run_eagerly) == (2, True)


@needs_keras3
def test_keras_3_itself_says_that_a_file_cannot_be_read(tmp_path):
    for name in ("m.keras", "m.h5"):
        (tmp_path / name).write_text("no model")
    with pytest.raises(ValueError, match="Please ensure the file is an accessible"):
        load(keras, tmp_path / "m.keras")
    with pytest.raises(OSError, match="file signature not found"):
        load(keras, tmp_path / "m.h5")


@pytest.mark.parametrize(
    ("of", "name"), [("keras3", "m.h5"), ("new", "m.h5"), ("new", "folder")]
)
def test_a_model_with_a_bare_optimizer_is_saved_and_loaded_by_keras_alone(
    of, name, tmp_path
):
    module = KERASES[of]
    model = make_model(module)
    model.compile(FAMILIES[of].Adam(0.1), module.losses.MeanSquaredError())
    model.fit(X, np.ones((3, 3), "float32"), verbose=0)
    with tf_lso.install():
        model.save(tmp_path / name, **({} if "." in name else {"save_format": "tf"}))
    loaded = load(module, tmp_path / name)
    assert type(loaded.optimizer).__name__ == "Adam"
    # Keras 2 does not save the state of the newer optimizers in a SavedModel.
    assert number(loaded.optimizer.iterations) == (0 if name == "folder" else 1)
    np.testing.assert_equal(loaded.get_weights(), model.get_weights())


def test_an_open_h5_file_is_loaded(tmp_path):
    model, optimizer = artifacts.network(keras2), FAMILIES["legacy"].SGD(0.1)
    optimizer = tf_lso.LossScaleOptimizer(optimizer, initial_scale=8)
    optimizer.apply_gradients([(tf.ones(v.shape), v) for v in model.weights])
    model.compile(optimizer, "mse")
    with tf_lso.install():
        model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r") as file:
        assert artifacts.scale_of(load(keras2, file).optimizer) == (8.0, 1)


@needs_keras3
@pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 cannot save its wrapper in .h5")
def test_an_h5_file_of_keras_3_may_name_its_loss_and_metrics(tmp_path):
    model = artifacts.network(keras)
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.1))
    metrics = {"metrics": ["mae"], "weighted_metrics": ["mape"]}
    model.compile(optimizer, "mse", loss_weights=[0.5], **metrics)
    model.fit(X, Y, verbose=0)
    expected = model.evaluate(X, Y, verbose=0)
    model.save(tmp_path / "m.h5")
    loaded = load(keras, tmp_path / "m.h5")
    assert loaded.evaluate(X, Y, verbose=0) == pytest.approx(expected, rel=1e-2)
    assert number(loaded.optimizer.iterations) == 1


@needs_keras3
def test_a_warning_says_that_a_file_of_keras_2_has_no_state(tmp_path, caplog):
    path = readable(CASE_OF_2_15 / "model.h5", "keras3", tmp_path)
    with h5py.File(path, "r+") as file:
        del file["optimizer_weights"]
    model = load(keras, path)
    assert "starts without its saved state" in caplog.text
    assert artifacts.scale_of(model.optimizer) == (8.0, 0)


@needs_keras3
def test_a_file_of_keras_3_is_loaded_by_keras_alone(tmp_path, monkeypatch):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.5)), "mse")
    model.save(tmp_path / "m.keras")
    monkeypatch.setattr("tf_lso.checkpoints.restoring.restore", None)
    loaded = load(keras, tmp_path / "m.keras")
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)


# --- Dtype policies.


FIXED_LOSS_SCALE = serialized("FixedLossScale", loss_scale_value=128.0)
# Configs of policies as different versions wrote them.
POLICIES = {
    "2.1": serialized("Policy", name="mixed_float16"),
    "2.4 experimental": serialized(
        "PolicyV1", name="mixed_float16", loss_scale=FIXED_LOSS_SCALE
    ),
    "2.4 without loss scale": serialized(
        "PolicyV1", name="mixed_float16", loss_scale=None
    ),
    "2.12": {
        **serialized("Policy", name="mixed_float16"),
        "module": "keras.mixed_precision",
        "registered_name": None,
    },
}


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("saved_by", POLICIES)
def test_a_layer_with_an_old_policy_loads(saved_by, family):
    config = {"units": 2, "dtype": POLICIES[saved_by]}
    with tf_lso.install():
        layer = KERASES[family].layers.Dense.from_config(config)
    assert layer.compute_dtype == "float16"
    assert layer.dtype_policy.name == "mixed_float16"


@pytest.mark.parametrize("name", ["infer", "_infer"])
@needs_keras3
def test_the_default_policy_of_2_1_becomes_the_global_policy(name):
    config = {"units": 2, "dtype": serialized("Policy", name=name)}
    with tf_lso.install():
        layer = keras.layers.Dense.from_config(config)
    assert layer.dtype_policy.name == keras.config.dtype_policy().name


@needs_keras3
@pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 does not deserialize policies")
def test_an_old_policy_keeps_its_loss_scale():
    """A layer that Keras loads gets only the name of its policy."""
    with tf_lso.install():
        policy = keras.dtype_policies.deserialize(POLICIES["2.4 experimental"])
    assert float(policy.loss_scale()) == 128


# --- The changes that `install()` makes for loading.


@needs_keras3
def test_a_function_that_was_imported_under_install_is_keras_own_afterwards():
    with tf_lso.install():
        assert keras.saving.load_model is keras.models.load_model
        assert hasattr(keras.models.load_model, "__wrapped__")
        deserialize = keras.optimizers.deserialize
    keras_wrapper = keras.optimizers.LossScaleOptimizer
    optimizer = keras_wrapper(keras.optimizers.SGD(0.25))
    config = keras.optimizers.serialize(optimizer)
    assert type(deserialize(config)) is keras_wrapper


@needs_keras3
def test_a_class_that_the_program_registered_as_policy_stays(monkeypatch):
    registered = keras.saving.get_custom_objects()
    monkeypatch.setitem(registered, "Policy", keras.DTypePolicy)
    with tf_lso.install():
        assert registered["Policy"] is keras.DTypePolicy
    assert registered["Policy"] is keras.DTypePolicy


def test_a_weights_file_has_the_slots_of_an_optimizer_of_some_layers(tmp_path):
    """A model may keep an optimizer, which `compile` did not get, for some of its layers."""

    def make_model():
        model = artifacts.network(keras2)
        model.own = tf_lso.LossScaleOptimizer(FAMILIES["legacy"].Adam(0.1))
        model.own.build(model.layers[-1].trainable_variables)
        return model

    with tf_lso.install():
        saved, loaded = make_model(), make_model()
        saved.own.apply_gradients(
            [(tf.ones(v.shape), v) for v in saved.layers[-1].trainable_variables]
        )
        expected = saved.own.get_weights()
        saved.save_weights(str(tmp_path / "m.weights.h5"))
        loaded.load_weights(str(tmp_path / "m.weights.h5"))
    for one, other in zip(expected, loaded.own.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_model_without_a_variable_of_the_optimizer_is_refused(tmp_path):
    """Keras 2 wrote it, so it has no manifest that names its slots."""

    class Own(keras2.optimizers.Adam):
        names = ("one",)

        def build(self, variables):
            super().build(variables)
            if not hasattr(self, "own"):
                self.own = {
                    name: self.add_variable((), name=name) for name in self.names
                }

    model = artifacts.network(keras2)
    model.compile(keras2.mixed_precision.LossScaleOptimizer(Own(0.1)), "mse")
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "m", save_format="tf")
    Own.names = ("one", "two")
    with pytest.raises(AssertionError, match="two"):
        load(keras2, tmp_path / "m", custom_objects={"Own": Own})
