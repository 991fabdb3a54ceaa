"""Keras 3 and tf_keras load what any generation saved, while `loading` is enabled."""

import contextlib
import copy
import functools
import json
import shutil
import tempfile

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    GENERATIONS,
    KERASES,
    OLD_KERAS3,
    PACKAGES,
    keras,
    keras2,
    needs_keras3,
    number,
)
from tests.generation import ZIPPED
from tf_lso import keras_versions
from tf_lso.optimizers import experimental
from tf_lso.patches import loading_configs, loading_keras3
from tf_lso.patches import table as patches

X = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
Y = np.float32([[1.0], [2.0], [3.0]])


@contextlib.contextmanager
def enabled(module):
    package = keras_versions.package_of(module)
    patches.enable(patches.LOADING, package)
    try:
        yield
    finally:
        patches.disable(patches.LOADING, package)


@pytest.fixture
def in_keras3():
    with enabled(keras):
        yield


@pytest.fixture
def in_tf_keras():
    with enabled(keras2):
        yield


def model(module=keras, **kwargs):
    return module.Sequential(
        [
            module.layers.InputLayer((3,)),
            module.layers.Dense(2, activation="tanh", name="dense_a", **kwargs),
            module.layers.Dense(1, name="dense_b", **kwargs),
        ],
        name="tiny",
    )


def trained(module, optimizer, loss="mse", **kwargs):
    made = model(module, **kwargs)
    made.compile(optimizer, loss)
    made.run_eagerly = True  # which no file has: what is loaded is traced
    made.train_on_batch(X, Y)
    return made


def sgd(**config):
    return {"class_name": "SGD", "config": {"learning_rate": 0.25, **config}}


def stable(class_name="LossScaleOptimizer", inner=None, **config):
    config = {"initial_scale": 4.0, "dynamic_growth_steps": 3, **config}
    inner = inner or sgd(decay=0.0, momentum=0.5)
    return {"class_name": class_name, "config": {"inner_optimizer": inner, **config}}


def of_2_3(**config):
    config = {"initial_loss_scale": 4.0, "increment_period": 3, **config}
    loss_scale = {"class_name": "DynamicLossScale", "config": config}
    inner = sgd(decay=0.0, momentum=0.5)
    return {
        "class_name": "LossScaleOptimizer",
        "config": {"optimizer": inner, "loss_scale": loss_scale},
    }


SAVED = {
    "2.3": of_2_3(),
    "2.4": stable(dynamic=True),
    "2.4 experimental": stable("LossScaleOptimizerV1", dynamic=True),
    "2.9 new": stable(
        "LossScaleOptimizerV3",
        {
            "class_name": "Custom>SGD",
            "config": {"learning_rate": 0.25, "momentum": 0.5},
        },
    ),
    "keras3": stable(inner=sgd(momentum=0.5), name="mine", loss_scale_factor=None),
}


def assert_ours(optimizer, family):
    base = keras.optimizers.Optimizer if family == "keras3" else None
    kinds = base or (
        keras2.optimizers.Optimizer,
        keras2.optimizers.legacy.Optimizer,
    )
    assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
    assert isinstance(optimizer.inner_optimizer, kinds)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (4.0, 3)
    assert number(optimizer.learning_rate) == 0.25
    assert number(optimizer.momentum) == 0.5


# --- Optimizers.


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("saved", SAVED)
def test_deserialize_and_get_load_every_wrapper(saved, family):
    config = copy.deepcopy(SAVED[saved])
    with enabled(KERASES[family]):
        modules = [KERASES[family]]
        if keras_versions.package_of(tf.keras.Model) == PACKAGES[family]:
            modules.append(tf.keras)  # which has names of its own for them
        for module in modules:
            load = module.optimizers.deserialize
            assert_ours(load(config), family)
            assert_ours(load(config, custom_objects={}), family)
            assert_ours(module.optimizers.get(config), family)
    assert config == SAVED[saved]


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize(
    "cls", [tf_lso.LossScaleOptimizer, experimental.LossScaleOptimizer]
)
@pytest.mark.parametrize("by", ["argument", "scope"])
def test_custom_objects_may_name_the_class(cls, family, by):
    module = KERASES[family]
    custom = {"LossScaleOptimizer": cls}
    with enabled(module):
        if by == "argument":
            optimizer = module.optimizers.deserialize(stable(), custom_objects=custom)
        else:
            with module.saving.custom_object_scope(custom):
                optimizer = module.optimizers.get(stable())
    assert_ours(optimizer, family)
    is_experimental = isinstance(optimizer, experimental.LossScaleOptimizer)
    assert is_experimental == (cls is experimental.LossScaleOptimizer)


@needs_keras3
def test_bare_optimizers_of_keras2_load_into_keras3(in_keras3):
    config = sgd(decay=0.0, momentum=0, jit_compile=True)
    before = copy.deepcopy(config)
    for load in (keras.optimizers.deserialize, keras.optimizers.get):
        optimizer = load(config)
        assert type(optimizer) is keras.optimizers.SGD
        assert number(optimizer.learning_rate) == 0.25
    assert config == before


def test_bare_optimizers_of_keras3_load_into_tf_keras(in_tf_keras):
    config = keras.optimizers.serialize(keras.optimizers.SGD(0.25, momentum=0.5))
    before = copy.deepcopy(config)
    optimizer = keras2.optimizers.deserialize(config)
    assert type(optimizer) is keras2.optimizers.SGD
    assert optimizer.momentum == 0.5
    assert config == before


@pytest.mark.parametrize("family", GENERATIONS)
def test_a_kerass_own_configs_are_left_to_it_and_unchanged(family):
    module = KERASES[family]
    config = module.optimizers.serialize(module.optimizers.Adam(0.25))
    before = copy.deepcopy(config)
    with enabled(module):
        assert not loading_configs.is_foreign(config, family != "keras3")
        assert type(module.optimizers.deserialize(config)) is module.optimizers.Adam
        assert type(module.optimizers.get("adam")) is module.optimizers.Adam
        assert module.optimizers.get(None) is None if family == "keras3" else True
        with pytest.raises(ValueError, match="bogus"):
            module.optimizers.get("bogus")
    assert config == before


@pytest.mark.parametrize("value", [None, "adam", 3, {}, {"class_name": 3}])
def test_what_is_no_config_is_left_to_keras(value):
    assert not loading_configs.is_foreign(value, True)
    assert not loading_configs.is_foreign(value, False)


def to_legacy(optimizer):
    return keras2.__internal__.optimizers.convert_to_legacy_optimizer(optimizer)


@pytest.mark.parametrize("kind", ["stable", "experimental"])
def test_conversion_to_legacy_keeps_the_scale_and_the_arguments(kind, in_tf_keras):
    schedule = keras2.optimizers.schedules.ExponentialDecay(0.25, 1, 0.5)
    inner = keras2.optimizers.Adam(schedule, beta_1=0.5)
    if kind == "stable":
        given = tf_lso.LossScaleOptimizer(inner, initial_scale=4.0)
    else:
        given = experimental.LossScaleOptimizer(inner, 4)
    converted = to_legacy(given)
    assert isinstance(converted.inner_optimizer, keras2.optimizers.legacy.Adam)
    assert isinstance(converted, keras2.optimizers.legacy.Optimizer)
    assert float(converted.loss_scale) == 4.0
    assert converted.dynamic == given.dynamic == (kind == "stable")
    assert converted.inner_optimizer._get_hyper("learning_rate") is schedule
    assert number(converted.beta_1) == 0.5
    is_experimental = isinstance(converted, experimental.LossScaleOptimizer)
    assert is_experimental == (kind == "experimental")


def test_conversion_to_legacy_of_what_is_not_wrapped_is_as_before(in_tf_keras):
    converted = to_legacy(keras2.optimizers.SGD(0.25))
    assert type(converted) is keras2.optimizers.legacy.SGD
    assert number(converted.learning_rate) == 0.25
    with pytest.raises(ValueError, match="should only be called on instances"):
        to_legacy(tf_lso.LossScaleOptimizer(FAMILIES["legacy"].SGD()))


def test_a_file_without_a_scale_is_named(in_tf_keras, tmp_path, caplog):
    path = str(tmp_path / "model.h5")
    optimizer = keras2.mixed_precision.LossScaleOptimizer(FAMILIES["legacy"].SGD())
    trained(keras2, optimizer).save(path)
    keras2.models.load_model(path)
    with h5py.File(path) as file:
        keras2.models.load_model(file)
    assert caplog.text.count(f"{path} has no loss scale") == 2


@needs_keras3
def test_without_it_keras3_does_not_load_them():
    # Otherwise the tests above would prove nothing.
    for config in (of_2_3(), stable("LossScaleOptimizerV3"), sgd(jit_compile=True)):
        with pytest.raises((KeyError, TypeError, ValueError)):
            keras.optimizers.get(copy.deepcopy(config))


# --- Models.


def rewrite_h5(path, rewritten=None, policy=None, first_input=False):
    """Let an .h5 file of tf_keras hold what another version wrote: its optimizer, ..."""
    with h5py.File(path, "r+") as file:
        if rewritten is not None:
            config = json.loads(file.attrs["training_config"])
            config["optimizer_config"] = rewritten
            file.attrs["training_config"] = json.dumps(config)
        config = json.loads(file.attrs["model_config"])
        layers = config["config"]["layers"]
        if first_input:  # 2.0-2.2 had no InputLayer in a Sequential
            del layers[0]
        for layer in layers:
            layer["config"].pop("optional", None)  # of tf_keras 2.21
            if layer["class_name"] == "Dense" and policy is not None:
                layer["config"]["dtype"] = policy
        layers[0]["config"].setdefault("batch_input_shape", [None, 3])
        file.attrs["model_config"] = json.dumps(config)


@functools.cache
def of_sgd():
    """A trained model of Keras 2, and its .h5 file; to be copied."""
    source = trained(keras2, keras2.optimizers.legacy.SGD(0.25))
    folder = tempfile.TemporaryDirectory()
    source.save(folder.name + "/model.h5")
    return source, folder


def saved_h5(folder, optimizer=None, **options):
    """Returns a trained model of Keras 2, and the .h5 file that it is saved in."""
    path = str(folder / "model.h5")
    if optimizer is None:
        source, made = of_sgd()
        shutil.copy(made.name + "/model.h5", path)
    else:
        source = trained(keras2, optimizer)
        source.save(path)
    rewrite_h5(path, **options)
    return source, path


def load(module, path, **kwargs):
    with enabled(module):
        return module.models.load_model(path, **kwargs)


@pytest.mark.parametrize(
    # Each wrapper with each class, and both in both Kerases.
    "saved, family, custom",
    [
        (saved, GENERATIONS[(row + column) % len(GENERATIONS)], custom)
        for row, saved in enumerate(SAVED)
        for column, custom in enumerate([None, "stable", "experimental"])
    ],
)
def test_h5_models_load_and_train(saved, family, custom, tmp_path):
    source, path = saved_h5(tmp_path, rewritten=SAVED[saved])
    cls = (experimental if custom == "experimental" else tf_lso).LossScaleOptimizer
    custom_objects = None if custom is None else {"LossScaleOptimizer": cls}
    loaded = load(KERASES[family], path, custom_objects=custom_objects)
    assert_ours(loaded.optimizer, family)
    assert_predict_equally(source, loaded)
    before = loaded.get_weights()[0]
    steps = number(loaded.optimizer.iterations)
    loaded.fit(X, Y, verbose=0)
    assert number(loaded.optimizer.iterations) == steps + 1
    assert not np.array_equal(loaded.get_weights()[0], before)
    is_experimental = isinstance(loaded.optimizer, experimental.LossScaleOptimizer)
    assert is_experimental == (custom == "experimental")


@pytest.mark.parametrize("kind", ["legacy", "new"])
@needs_keras3
def test_h5_models_with_a_bare_optimizer_load_and_train(kind, in_keras3, tmp_path):
    _, path = saved_h5(tmp_path, FAMILIES[kind].Adam(0.25, beta_1=0.5))
    loaded = keras.models.load_model(path)
    assert type(loaded.optimizer) is keras.optimizers.Adam
    assert loaded.optimizer.beta_1 == pytest.approx(0.5)
    loaded.fit(X, Y, verbose=0)


@pytest.mark.parametrize("kind", ["legacy", "new"])
def test_h5_models_with_a_wrapped_adam_go_on(kind, in_keras3, tmp_path):
    # The state of the two has the same arrays in another order.
    optimizer = keras2.mixed_precision.LossScaleOptimizer(
        FAMILIES[kind].Adam(0.25), initial_scale=4.0
    )
    source, path = saved_h5(tmp_path, optimizer)
    loaded = keras.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    assert_go_on_equally(source, loaded)


def assert_predict_equally(source, loaded):
    np.testing.assert_allclose(loaded(X), source(X), rtol=1e-6, atol=1e-6)


def assert_go_on_equally(one, other):
    assert number(one.optimizer.iterations) == number(other.optimizer.iterations) > 0
    for model in (one, other):
        for _ in range(5):
            model.train_on_batch(X, Y)
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        # A weight near 0 is the difference of float32 numbers of about 1.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_only_paths_are_looked_into(tmp_path):
    """Reading an open file would move its position."""
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = "2.15.0"
        assert not loading_keras3._is_of_keras2(file)
    with open(path, "rb") as file:
        assert not loading_keras3._is_of_keras2(file)
        assert file.tell() == 0
    assert loading_keras3._is_of_keras2(path)


@needs_keras3
def test_a_file_of_keras2_without_its_state_says_so(in_keras3, tmp_path, caplog):
    optimizer = keras2.mixed_precision.LossScaleOptimizer(FAMILIES["new"].SGD())
    _, path = saved_h5(tmp_path, optimizer)
    with h5py.File(path, "r+") as file:
        del file["optimizer_weights"]
    with caplog.at_level("WARNING"):
        loaded = keras.models.load_model(path)
    assert "starts without its saved state" in caplog.text
    loaded.train_on_batch(X, Y)


def test_an_h5_model_without_an_input_layer_gets_the_right_shape(in_keras3, tmp_path):
    source, path = saved_h5(tmp_path, rewritten=of_2_3(), first_input=True)
    loaded = keras.models.load_model(path)
    assert loaded.input_shape == (None, 3)
    assert_predict_equally(source, loaded)
    loaded.train_on_batch(X, Y)


@pytest.mark.parametrize("kind", ["legacy", "new"])
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("custom", [None, "experimental"])
@pytest.mark.parametrize("family", GENERATIONS)
def test_keras_models_of_keras2_load_and_train(kind, wrapped, custom, family, tmp_path):
    inner = FAMILIES[kind].SGD(0.25, momentum=0.5)
    optimizer = inner
    if wrapped:
        optimizer = keras2.mixed_precision.LossScaleOptimizer(
            inner, initial_scale=4.0, dynamic_growth_steps=3
        )
    source = trained(keras2, optimizer)
    path = tmp_path / "model.keras"
    source.save(path, **ZIPPED)
    has_state = wrapped and kind == "new"  # others tf_keras does not save
    for_2_15(path)
    module = KERASES[family]
    cls = experimental.LossScaleOptimizer
    custom_objects = {"LossScaleOptimizer": cls} if custom else None
    loaded = load(module, path, custom_objects=custom_objects)
    if wrapped:
        assert_ours(loaded.optimizer, family)
        assert isinstance(loaded.optimizer, cls) == (custom is not None)
    else:
        assert keras_versions.package_of(type(loaded.optimizer)) == PACKAGES[family]
        assert number(loaded.optimizer.learning_rate) == 0.25
    assert_predict_equally(source, loaded)
    if has_state:
        assert_go_on_equally(source, loaded)
    loaded.fit(X, Y, verbose=0)


@pytest.mark.parametrize("family", GENERATIONS)
def test_a_keras_model_that_keras2_compiled_with_a_name_loads_and_trains(
    family, tmp_path
):
    """`compile` keeps the name, and its own arguments as None."""
    source = trained(keras2, "sgd")
    path = tmp_path / "model.keras"
    source.save(path, **ZIPPED)
    loaded = load(KERASES[family], path)
    assert_predict_equally(source, loaded)
    loaded.fit(X, Y, verbose=0)


def for_2_15(path):
    """Let a .keras file that tf_keras wrote be as TensorFlow 2.12-2.15 wrote it."""
    import zipfile

    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    config = json.loads(content["config.json"])
    for layer in config["config"]["layers"]:
        layer["config"].pop("optional", None)
    config["config"]["layers"][1]["config"].setdefault("batch_input_shape", [None, 3])
    assert config["compile_config"]["steps_per_execution"] is None
    content["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)


POLICIES = {
    "2.1": {"class_name": "Policy", "config": {"name": "mixed_float16"}},
    "2.4 experimental": {
        "class_name": "PolicyV1",
        "config": {
            "name": "mixed_float16",
            "loss_scale": {
                "class_name": "FixedLossScale",
                "config": {"loss_scale_value": 128.0},
            },
        },
    },
    "none": {
        "class_name": "PolicyV1",
        "config": {"name": "mixed_float16", "loss_scale": None},
    },
    "2.12": {
        "class_name": "Policy",
        "config": {"name": "mixed_float16"},
        "module": "keras.mixed_precision",
        "registered_name": None,
    },
}


@pytest.mark.parametrize("family", GENERATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_models_with_dtype_policies_of_old_load(policy, family, tmp_path):
    _, path = saved_h5(tmp_path, rewritten=stable(), policy=POLICIES[policy])
    loaded = load(KERASES[family], path)
    for layer in loaded.layers:
        assert layer.compute_dtype == "float16"
        assert layer.dtype_policy.name == "mixed_float16"
    loaded.train_on_batch(X, Y)
    assert_ours(loaded.optimizer, family)


@pytest.mark.parametrize("name", ["infer", "_infer"])
@needs_keras3
def test_the_policy_that_nobody_set_is_the_global_one(in_keras3, name):
    config = {"class_name": "Policy", "config": {"name": name}}
    layer = keras.layers.Dense.from_config({"units": 2, "dtype": config})
    assert layer.dtype_policy.name == keras.config.dtype_policy().name


@pytest.mark.parametrize("metrics", [["mae"], ["accuracy"], []])
@pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 cannot load any metrics of .h5 files")
def test_losses_and_metrics_by_name_load(in_keras3, metrics, tmp_path):
    source = model(keras2)
    source.compile(keras2.optimizers.legacy.SGD(0.25), "mse", metrics)
    source.train_on_batch(X, Y)
    path = str(tmp_path / "model.h5")
    source.save(path)
    rewrite_h5(path)
    loaded = keras.models.load_model(path)
    assert loaded.evaluate(X, Y, verbose=0) == pytest.approx(
        source.evaluate(X, Y, verbose=0), rel=1e-5
    )


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("cls", ["stable", "experimental"])
def test_a_model_that_was_saved_with_tf_lso_loads(
    kind, suffix, installed, cls, tmp_path
):
    module = keras if kind == "keras3" else keras2
    family = "keras3" if kind == "keras3" else "keras2"
    if suffix == "h5" and not installed and kind != "keras3":
        pytest.skip("tf_keras makes its own wrapper of that name")
    if suffix == "h5" and kind == "keras3" and OLD_KERAS3:
        pytest.skip("Keras 3.0 cannot write its own wrapper either")
    inner = FAMILIES[kind].SGD(0.25, momentum=0.5)
    if cls == "stable":
        optimizer = tf_lso.LossScaleOptimizer(inner, True, 4.0, 3)
    else:
        scale = tf_lso.DynamicLossScale(4.0, 3, 8.0)
        optimizer = experimental.LossScaleOptimizer(inner, scale)
    source = trained(module, optimizer, module.losses.MeanSquaredError())
    path = str(tmp_path / f"model.{suffix}")
    source.save(path)
    with enabled(module) if installed else contextlib.nullcontext():
        loaded = module.models.load_model(path)
    assert_ours(loaded.optimizer, family)
    assert type(loaded.optimizer) is type(optimizer)
    assert_predict_equally(source, loaded)
    loaded.train_on_batch(X, Y)


# --- Enabling and disabling.


@needs_keras3
def test_a_name_copied_while_it_was_enabled_does_nothing_afterwards():
    with enabled(keras):
        copied = keras.optimizers.deserialize
    config = keras.optimizers.serialize(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.25))
    )
    assert type(copied(config)) is keras.optimizers.LossScaleOptimizer


@needs_keras3
def test_a_registered_policy_of_the_users_own_is_kept():
    registered = keras.saving.get_custom_objects()
    registered["Policy"] = keras.DTypePolicy
    try:
        with enabled(keras):
            assert registered["Policy"] is keras.DTypePolicy
        assert registered["Policy"] is keras.DTypePolicy
    finally:
        del registered["Policy"]


@needs_keras3
def test_load_model_has_one_more_name():
    with enabled(keras):
        assert keras.saving.load_model is keras.models.load_model
        assert hasattr(keras.models.load_model, "__wrapped__")
