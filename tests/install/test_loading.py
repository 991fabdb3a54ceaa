"""Under `install()`, Keras 3 and Keras 2 load configs and models of all versions.

The versions are TensorFlow 2.0-2.15, Keras 3 and tf_lso.
"""

import contextlib
import copy
import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
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
from tf_lso.optimizers import experimental

X = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
Y = np.float32([[1.0], [2.0], [3.0]])
EXPERIMENTAL = experimental.LossScaleOptimizer
CLASSES = {"stable": tf_lso.LossScaleOptimizer, "experimental": EXPERIMENTAL}
LEGACY = FAMILIES["legacy"]


def load(module, path, **kwargs):
    with tf_lso.install():
        return module.models.load_model(path, **kwargs)


# --- Configs.


def serialized(class_name, **config):
    return {"class_name": class_name, "config": config}


def sgd(class_name="SGD", **config):
    return serialized(class_name, learning_rate=0.25, momentum=0.5, **config)


OLD_SGD = sgd(decay=0.0)


def stable(class_name="LossScaleOptimizer", inner=OLD_SGD, **config):
    config = {"initial_scale": 4.0, "dynamic_growth_steps": 3, **config}
    return serialized(class_name, inner_optimizer=inner, **config)


SCALE = serialized("DynamicLossScale", initial_loss_scale=4.0, increment_period=3)
OF_2_3 = serialized("LossScaleOptimizer", optimizer=OLD_SGD, loss_scale=SCALE)
SAVED = {
    "2.3": OF_2_3,
    "2.4": stable(dynamic=True),
    "2.4 experimental": stable("LossScaleOptimizerV1", dynamic=True),
    "2.9 new": stable("LossScaleOptimizerV3", sgd("Custom>SGD")),
    "keras3": stable(inner=sgd(), name="mine", loss_scale_factor=None),
}


def assert_ours(optimizer, family):
    bases = (keras2.optimizers.Optimizer, LEGACY.Optimizer)
    bases = keras.optimizers.Optimizer if family == "keras3" else bases
    assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
    assert isinstance(optimizer.inner_optimizer, bases)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (4.0, 3)
    assert number(optimizer.learning_rate) == 0.25
    assert number(optimizer.momentum) == 0.5


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("saved", SAVED)
def test_deserialize_and_get_load_every_wrapper(saved, family):
    config = copy.deepcopy(SAVED[saved])
    with tf_lso.install():
        modules = [KERASES[family]]
        if keras_versions.package_of(tf.keras.Model) == PACKAGES[family]:
            # `tf.keras` may be a module of its own, with copies of these functions.
            modules.append(tf.keras)
        for module in modules:
            make = module.optimizers.deserialize
            assert_ours(make(config), family)
            assert_ours(make(config, custom_objects={}), family)
            assert_ours(module.optimizers.get(config), family)
    assert config == SAVED[saved]


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("by", ["argument", "scope"])
def test_custom_objects_may_name_the_class(cls, family, by):
    module, custom = KERASES[family], {"LossScaleOptimizer": CLASSES[cls]}
    with tf_lso.install():
        if by == "argument":
            optimizer = module.optimizers.deserialize(stable(), custom_objects=custom)
        else:
            with module.saving.custom_object_scope(custom):
                optimizer = module.optimizers.get(stable())
    assert_ours(optimizer, family)
    assert isinstance(optimizer, EXPERIMENTAL) == (cls == "experimental")


@pytest.mark.parametrize("family", GENERATIONS)
def test_configs_of_other_optimizers_are_left_to_keras(family):
    module = KERASES[family]
    config = module.optimizers.serialize(module.optimizers.Adam(0.25))
    with tf_lso.install():
        assert not loading_configs.holds_wrapper(config)
        assert type(module.optimizers.deserialize(config)) is module.optimizers.Adam
        assert type(module.optimizers.get("adam")) is module.optimizers.Adam
        assert module.optimizers.get(None) is None if family == "keras3" else True
        with pytest.raises(ValueError, match="bogus"):
            module.optimizers.get("bogus")


@pytest.mark.parametrize("value", [None, "adam", 3, {}, {"class_name": 3}])
def test_what_is_no_config_is_left_to_keras(value):
    assert not loading_configs.holds_wrapper(value)


@needs_keras3
def test_without_it_keras3_does_not_load_them():
    # If Keras 3 loaded these configs itself, the tests above would not test tf_lso.
    for config in (OF_2_3, stable("LossScaleOptimizerV3")):
        with pytest.raises((KeyError, TypeError, ValueError)):
            keras.optimizers.get(copy.deepcopy(config))


# --- Whole models.


def skip_later(version, family):
    """Skip the test if the installed Keras 2 is older than the one that wrote the file."""
    minor = int(version.removeprefix("TF2.").split("-")[0].split(".")[0])
    if family == "keras2" and not keras_versions.is_at_least(KERAS2_PACKAGE, 2, minor):
        pytest.skip(f"{version} is later than this Keras 2")


def has_state(version, case, path):
    """Return whether the version that wrote the file saved the optimizer's state."""
    is_new, is_bare = case.split("-")[1] == "new", case.startswith("bare")
    if path.suffix == ".keras":
        return is_new
    left_out = ["TF2.9.3", "TF2.10.1", *([] if is_bare else ["TF2.11.1"])]
    return not (is_new and version in left_out)


def readable(path, family, folder):
    """Copy a file so that the Keras of a family can read it. Return the path of the copy.

    Keras 3 does not find a loss by its name in an .h5 file, and refuses the shape of the
    batch in a .keras file. A copy for Keras 3 does not contain them.
    """
    copied = folder / path.name
    shutil.copy(path, copied)
    if family != "keras3":
        return str(copied)
    if path.suffix == ".h5":
        with h5py.File(copied, "r+") as file:
            training = json.loads(file.attrs["training_config"])
            file.attrs["training_config"] = json.dumps({**training, "loss": None})
        return str(copied)
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    config = json.loads(contents["config.json"])
    for layer in config["config"]["layers"][1:]:
        layer["config"].pop("batch_input_shape", None)
    contents["config.json"] = json.dumps(config)
    with zipfile.ZipFile(copied, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return str(copied)


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize(
    "version", [name for name in artifacts.VERSIONS if "models" not in name]
)
def test_models_that_real_versions_wrote_load_and_go_on(version, family, tmp_path):
    skip_later(version, family)
    if (version, family) == ("TF2.1.4", "keras3"):
        pytest.skip("Keras 3 adds a dimension to the inputs of such a model")
    for path in sorted(artifacts.folder(version).glob("*/model.*")):
        name, place = path.parent.name, f"{path.parent.name}/{path.name}"
        if name.startswith("bare") and family == "keras3":
            continue  # tf_lso loads only wrapped optimizers into Keras 3
        written = artifacts.expected(version, name, path.name)
        loaded = load(KERASES[family], readable(path, family, tmp_path))
        optimizer = loaded.optimizer
        assert loaded.input_shape == (None, 3)
        assert artifacts.close(loaded.get_weights(), written["after5"]["weights"], 0, 0)
        start = {"dynamic": (8.0, 0), "fixed": (128.0, None)}.get(name.split("-")[-1])
        assert artifacts.scale_of(optimizer) == (start or (None, None)), place
        bare = optimizer.inner_optimizer if start else optimizer
        assert keras_versions.package_of(type(bare)) == PACKAGES[family], place
        is_whole = has_state(version, name, path)
        steps = written["after5"]["iterations"] if is_whole else 0
        assert number(optimizer.iterations) == steps, place
        artifacts.go_on(version, name, loaded, optimizer)
        # TensorFlow 2.1 treats skipped steps differently: see step_differences.py.
        if is_whole and version != "TF2.1.4":
            after = written["after10"]["weights"]
            assert artifacts.close(loaded.get_weights(), after), place


OF_2_15 = artifacts.folder("TF2.15.1") / "stable-new-Adam-dynamic"


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize(
    "name", ["model.h5", pytest.param("model.keras", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("custom", CLASSES)
def test_custom_objects_may_name_the_class_of_models(custom, name, family, tmp_path):
    skip_later("TF2.15.1", family)
    custom_objects = {"LossScaleOptimizer": CLASSES[custom]}
    path = readable(OF_2_15 / name, family, tmp_path)
    loaded = load(KERASES[family], path, custom_objects=custom_objects)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    assert isinstance(loaded.optimizer, EXPERIMENTAL) == (custom == "experimental")


def test_only_paths_are_looked_into(tmp_path):
    """tf_lso does not read open files, because this would move the position in the file."""
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = "2.15.0"
        assert not loading_keras3._is_of_keras2(file)
    with open(path, "rb") as file:
        assert not loading_keras3._is_of_keras2(file)
        assert file.tell() == 0
    assert loading_keras3._is_of_keras2(path)


def test_a_file_without_a_scale_is_named(caplog):
    path = str(OF_2_15 / "model.h5")
    load(keras2, path)
    with h5py.File(path) as file:
        load(keras2, file)
    assert caplog.text.count(f"{path} has no loss scale") == 2


@needs_keras3
def test_a_file_of_keras2_without_its_state_says_so(tmp_path, caplog):
    path = readable(OF_2_15 / "model.h5", "keras3", tmp_path)
    with h5py.File(path, "r+") as file:
        del file["optimizer_weights"]
    loaded = load(keras, path)
    assert "starts without its saved state" in caplog.text
    assert artifacts.scale_of(loaded.optimizer) == (8.0, 0)


# --- Parts of models.


FIXED = serialized("FixedLossScale", loss_scale_value=128.0)
OF_2_1 = serialized("Policy", name="mixed_float16")
POLICIES = {
    "2.1": OF_2_1,
    "2.4 experimental": serialized("PolicyV1", name="mixed_float16", loss_scale=FIXED),
    "none": serialized("PolicyV1", name="mixed_float16", loss_scale=None),
    "2.12": OF_2_1 | {"module": "keras.mixed_precision", "registered_name": None},
}


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_dtype_policies_of_old_load(policy, family):
    config = {"units": 2, "dtype": POLICIES[policy]}
    with tf_lso.install():
        layer = KERASES[family].layers.Dense.from_config(config)
    assert layer.compute_dtype == "float16"
    assert layer.dtype_policy.name == "mixed_float16"


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_models_with_dtype_policies_of_old_load(policy, family, tmp_path):
    skip_later("TF2.15.1", family)
    path = readable(OF_2_15 / "model.h5", family, tmp_path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            if layer["class_name"] == "Dense":
                layer["config"]["dtype"] = POLICIES[policy]
        file.attrs["model_config"] = json.dumps(config)
    loaded = load(KERASES[family], path)
    for layer in loaded.layers:
        assert layer.compute_dtype == "float16"
        assert layer.dtype_policy.name == "mixed_float16"
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    artifacts.train(loaded, loaded.optimizer, [X], [np.ones((3, 1), "float16")])
    assert number(loaded.optimizer.iterations) > 0


@pytest.mark.parametrize("name", ["infer", "_infer"])
@needs_keras3
def test_the_policy_that_nobody_set_is_the_global_one(name):
    config = {"units": 2, "dtype": serialized("Policy", name=name)}
    with tf_lso.install():
        layer = keras.layers.Dense.from_config(config)
    assert layer.dtype_policy.name == keras.config.dtype_policy().name


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize(
    "installed", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "cls", ["stable", pytest.param("experimental", marks=pytest.mark.slow)]
)
def test_a_model_that_was_saved_with_tf_lso_loads(
    kind, suffix, installed, cls, tmp_path
):
    if suffix == "h5" and kind == "keras3" and OLD_KERAS3:
        pytest.skip("Keras 3.0 cannot write its own wrapper either")
    module, inner = KERASES[kind], FAMILIES[kind].SGD(0.25, momentum=0.5)
    if cls == "stable":
        optimizer = tf_lso.LossScaleOptimizer(inner, True, 4.0, 3)
    else:
        optimizer = EXPERIMENTAL(inner, tf_lso.DynamicLossScale(4.0, 3, 8.0))
    source = artifacts.network(module)
    source.compile(optimizer, module.losses.MeanSquaredError())
    # No file stores `run_eagerly`, so the loaded model trains in a traced function.
    source.run_eagerly = True
    source.train_on_batch(X, Y)
    path = str(tmp_path / f"model.{suffix}")
    source.save(path)
    with tf_lso.install() if installed else contextlib.nullcontext():
        loaded = module.models.load_model(path)
    assert_ours(loaded.optimizer, kind)
    assert type(loaded.optimizer) is type(optimizer)
    np.testing.assert_allclose(loaded(X), source(X), rtol=1e-6, atol=1e-6)
    loaded.train_on_batch(X, Y)


# --- Enabling and disabling.


@needs_keras3
def test_a_name_copied_while_it_was_enabled_does_nothing_afterwards():
    with tf_lso.install():
        copied = keras.optimizers.deserialize
    own = keras.optimizers.LossScaleOptimizer
    config = keras.optimizers.serialize(own(keras.optimizers.SGD(0.25)))
    assert type(copied(config)) is own


@needs_keras3
def test_a_registered_policy_of_the_users_own_is_kept(monkeypatch):
    registered = keras.saving.get_custom_objects()
    monkeypatch.setitem(registered, "Policy", keras.DTypePolicy)
    with tf_lso.install():
        assert registered["Policy"] is keras.DTypePolicy
    assert registered["Policy"] is keras.DTypePolicy


@needs_keras3
def test_load_model_has_one_more_name():
    with tf_lso.install():
        assert keras.saving.load_model is keras.models.load_model
        assert hasattr(keras.models.load_model, "__wrapped__")
