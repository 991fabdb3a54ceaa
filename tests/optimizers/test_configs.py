"""Optimizers are made from configs of TensorFlow 2.0-2.15, tf_keras and Keras 3.

Most tests run twice: once the config becomes an optimizer of Keras 3, and once an optimizer
of Keras 2. `tests/golden/test_configs.py` loads the configs that real versions wrote.
"""

import contextlib
import copy
import json

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    PACKAGES,
    keras,
    keras2,
    legacy_step,
    needs_keras3,
    number,
)
from tests.generation import AS_NUMBER
from tests.refused import refused
from tf_lso.frameworks import keras_configs, keras_versions
from tf_lso.optimizers import config as configs
from tf_lso.optimizers import experimental

STABLE, EXPERIMENTAL = tf_lso.LossScaleOptimizer, experimental.LossScaleOptimizer
each_keras = pytest.mark.parametrize("family", ["keras3", "keras2"])


def make_config(class_name, **config):
    """Return the config of an object of Keras, which contains the name of its class."""
    return {"class_name": class_name, "config": config}


SGD = make_config("SGD", learning_rate=0.5)


def wrapper_config(name="LossScaleOptimizer", inner=SGD, **config):
    """Return the config of a LossScaleOptimizer as TensorFlow 2.4-2.15 wrote it."""
    return make_config(name, inner_optimizer=inner, **config)


def config_of_2_3(loss_scale_class, **config):
    """Return what `get_config()` of a LossScaleOptimizer gave in TensorFlow 2.0-2.3."""
    return {"optimizer": SGD, "loss_scale": make_config(loss_scale_class, **config)}


@contextlib.contextmanager
def unchanged(*values):
    """Check that the `with` block does not change the values or anything in them."""
    before = copy.deepcopy(values)
    yield
    assert values == before


def config_through_json(optimizer):
    """Return the config of an optimizer after a round trip through JSON."""
    return json.loads(json.dumps(optimizer.get_config(), default=AS_NUMBER))


def load(config, *args, **kwargs):
    """Make an optimizer from a config, and check that the config does not change."""
    with unchanged(config):
        return configs.deserialize(config, *args, **kwargs)


def assert_has_hyperparameters(optimizer, config):
    """Check that an optimizer has the class and the hyperparameters of a config."""
    name = config["class_name"].split(">")[-1]
    assert type(optimizer).__name__.lower() == name.lower()
    actual = optimizer.get_config()
    for key, value in config["config"].items():
        if key in ("name", "jit_compile", "is_legacy_optimizer", "decay"):
            continue
        if key not in actual:
            assert keras_configs.is_neutral(key, value), key
        elif isinstance(value, float):
            assert actual[key] == pytest.approx(value, rel=1e-6), key
        else:
            assert actual[key] == value, key


# --- Every optimizer class, with hyperparameters that are not the defaults.

LEGACY = ["SGD", "RMSprop", "Adam", "Adamax", "Nadam", "Adagrad", "Adadelta", "Ftrl"]


def not_the_defaults(inner):
    """Return the config of an optimizer with other values than the optimizer has."""
    config = inner.get_config()
    for name, value in config.items():
        if isinstance(value, bool):
            config[name] = not value
        elif isinstance(value, float):
            config[name] = -0.375 if value < 0 else 0.375
    if (
        "is_legacy_optimizer" in config
    ):  # this key selects the class, so it keeps its value
        config |= {"is_legacy_optimizer": False, "ema_overwrite_frequency": 7}
    return config | {"learning_rate": 0.25, "name": "mine", "clipvalue": 0.5}


@each_keras
@pytest.mark.parametrize(
    "written_by, name",
    [
        *(("legacy", name) for name in LEGACY),
        *(("new", name) for name in [*LEGACY, "AdamW"]),
    ],
)
def test_each_optimizer_keeps_its_hyperparameters(written_by, name, family):
    arguments = not_the_defaults(getattr(FAMILIES[written_by], name)())
    if written_by == "new":
        config = make_config(name, **{**arguments, "weight_decay": 0.125})
        config |= {"module": "keras.optimizers", "registered_name": None}
    else:
        decay = 0.004 if name == "Nadam" else 0.0  # the defaults
        config = make_config(name, **{**arguments, "decay": decay})
    optimizer = load(config, package=PACKAGES[family])
    expected_family = written_by if family == "keras2" else "keras3"
    assert isinstance(optimizer, FAMILIES[expected_family].Optimizer)
    assert_has_hyperparameters(optimizer, config)
    loaded = optimizer.get_config()
    assert (loaded["clipvalue"], loaded["name"]) == (0.5, "mine")
    assert loaded.get("use_ema", False) == (written_by == "new")


@each_keras
def test_a_nadam_that_had_taken_a_step_loads(family):
    # A legacy Nadam wrote 0.004 as `decay`, and after its first step the nearest float32.
    config = make_config("Nadam", decay=float(np.float32(0.004)), beta_1=0.5)
    optimizer = load(config, package=PACKAGES[family])
    assert_has_hyperparameters(optimizer, config)


@pytest.mark.parametrize("name", ["SGD", "Nadam", "AdamW", "Adafactor"])
@needs_keras3
def test_an_optimizer_of_keras_3_loads_into_tf_keras(name):
    optimizer_of_keras3 = getattr(keras.optimizers, name)(0.25, clipnorm=0.5)
    config = keras.optimizers.serialize(optimizer_of_keras3)
    optimizer = load(config, package=PACKAGES["keras2"])
    assert isinstance(optimizer, FAMILIES["new"].Optimizer)
    assert_has_hyperparameters(optimizer, config)


@each_keras
def test_numbers_of_numpy_and_tensorflow_become_python_numbers(family):
    adam = make_config(
        "Adam",
        # TensorFlow 2.12 wrote tensors so.
        learning_rate=make_config("__tensor__", value=0.25, dtype="float32"),
        beta_1=np.float32(0.5),
        beta_2=tf.constant(0.75),
        epsilon=np.array(0.125),
        amsgrad=np.bool_(True),
        decay=np.float32(0),
    )
    config = wrapper_config(
        inner=adam, initial_scale=np.float32(4), dynamic=np.bool_(True)
    )
    optimizer = load(config, package=PACKAGES[family])
    config = optimizer.inner_optimizer.get_config()
    numbers = [config[key] for key in ("learning_rate", "beta_1", "beta_2", "epsilon")]
    assert numbers == [0.25, 0.5, 0.75, 0.125]
    assert config["amsgrad"] is True
    json.dumps(optimizer.get_config())


def test_lr_and_learning_rate_may_both_have_the_same_value():
    optimizer = load(make_config("SGD", lr=0.25, learning_rate=0.25))
    assert number(optimizer.learning_rate) == 0.25


@each_keras
def test_integers_become_floats_and_none_becomes_the_default(family):
    rmsprop = make_config("RMSprop", lr=1, momentum=0, rho=1, epsilon=None, decay=0)
    optimizer = load(rmsprop, package=PACKAGES[family])
    config = optimizer.get_config()
    assert number(optimizer.learning_rate) == 1.0
    assert (config["momentum"], config["epsilon"]) == (0.0, 1e-7)


# --- Learning rates.

_schedules = keras2.optimizers.schedules
SCHEDULES = [
    _schedules.InverseTimeDecay(0.5, 3, 0.5, staircase=True),
    _schedules.PiecewiseConstantDecay([2, 4], [0.5, 0.25, 0.125]),
    _schedules.CosineDecayRestarts(0.5, 3, t_mul=2.0, m_mul=0.5),
]


@needs_keras3
def test_a_function_that_keras_3_itself_saved_is_the_learning_rate():
    @keras.saving.register_keras_serializable("tests")
    def rate():
        return 0.5

    config = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(rate)).get_config()
    assert float(tf_lso.LossScaleOptimizer.from_config(config).learning_rate) == 0.5


@each_keras
@pytest.mark.parametrize(
    "schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__
)
def test_each_schedule_gives_the_same_rates(schedule, family):
    # Before TensorFlow 2.12 no schedule had arguments for a warmup.
    config = {k: v for k, v in schedule.get_config().items() if "warmup" not in k}
    rate = make_config(type(schedule).__name__, **config)
    inner = make_config("SGD", learning_rate=rate, decay=0.0)
    optimizer = load(wrapper_config(inner=inner), package=PACKAGES[family])
    variable = tf.Variable(0.0)
    for step in range(7):
        before = variable.numpy()
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
        rate_of_step = before - variable.numpy()
        assert rate_of_step == pytest.approx(float(schedule(step)), rel=1e-5)


@needs_keras3
def test_decay_becomes_the_schedule_of_the_same_rates():
    config = make_config("SGD", learning_rate=0.5, decay=0.3)
    variables = {}
    for family in ("keras3", "keras2"):
        optimizer = load(wrapper_config(inner=config), package=PACKAGES[family])
        x = variables[family] = tf.Variable([1.0, 2.0])
        for step in range(20):
            gradient = float("nan") if step == 7 else 0.5 + step
            optimizer.apply_gradients([(gradient * tf.ones(2), x)])
    np.testing.assert_allclose(variables["keras3"], variables["keras2"], rtol=1e-6)
    assert variables["keras3"].numpy()[0] < -1  # the steps have changed the variables


@needs_keras3
def test_decay_together_with_a_schedule_is_refused_by_keras_3():
    rate = make_config("CosineDecay", initial_learning_rate=0.5, decay_steps=6)
    inner = make_config("SGD", learning_rate=rate, decay=0.5)
    with refused("ValueError: 'decay': 0.5 ... SGD"):
        load(inner, package=PACKAGES["keras3"])
    assert load(inner, package=PACKAGES["keras2"]).get_config()["decay"] == 0.5


# --- The LossScaleOptimizer: layouts of its config, and names of its class.


def test_another_multiplier_gives_an_experimental_optimizer(family):
    config = config_of_2_3("DynamicLossScale", initial_loss_scale=16.0, multiplier=4.0)
    config["name"] = "mine"
    class_of_the_family = type(STABLE(FAMILIES[family].SGD()))
    with unchanged(config):
        optimizer = class_of_the_family.from_config(config)
    assert isinstance(optimizer, EXPERIMENTAL)
    assert (optimizer.loss_scale.multiplier, optimizer.name) == (4.0, "mine")
    assert isinstance(optimizer.inner_optimizer, FAMILIES[family].Optimizer)


def test_a_subclass_refuses_a_multiplier_that_only_the_experimental_class_has():
    class Subclass(STABLE):
        pass

    with refused("ValueError: 'loss_scale' ... Subclass ... multiplier"):
        Subclass.from_config(config_of_2_3("DynamicLossScale", multiplier=4.0))
    config = config_of_2_3("DynamicLossScale", initial_loss_scale=4.0)
    assert isinstance(Subclass.from_config(config), Subclass)


def test_a_users_class_of_loss_scales_is_found_in_custom_objects():
    class Halving(tf_lso.FixedLossScale):
        pass

    config = config_of_2_3("Halving", loss_scale_value=4.0)
    optimizer = STABLE.from_config(config, {"Halving": Halving})
    assert isinstance(optimizer.loss_scale, Halving)
    with refused("ValueError: 'Halving' ... custom_objects"):
        STABLE.from_config(config)


def test_a_users_loss_scale_may_have_the_name_of_a_class_of_tf_lso():
    class FixedLossScale(tf_lso.FixedLossScale):
        pass

    config = config_of_2_3("FixedLossScale", loss_scale_value=4.0)
    optimizer = STABLE.from_config(config, {"FixedLossScale": FixedLossScale})
    assert type(optimizer.loss_scale) is FixedLossScale


def test_the_experimental_class_reads_the_limits_of_the_stable_class():
    """`tests/golden/test_configs.py` tests the other layouts of configs."""
    config = {
        "inner_optimizer": SGD,
        "name": "mine",
        "initial_scale": 0.5,
        "min_scale": 0.25,
        "max_scale": 8,
        "loss_scale_factor": None,
    }
    with unchanged(config):
        optimizer = EXPERIMENTAL.from_config(config)
    scale = optimizer.loss_scale
    assert float(scale()) == 0.5
    assert (scale.min_loss_scale, scale.max_loss_scale) == (0.25, 8)
    assert (optimizer.name, optimizer.dynamic_growth_steps) == ("mine", 2000)
    fixed = {"inner_optimizer": SGD, "dynamic": False, "initial_scale": 4.0}
    assert type(EXPERIMENTAL.from_config(fixed).loss_scale) is tf_lso.FixedLossScale
    for wrong, error in (
        ({"dynamic": "yes"}, "TypeError: 'dynamic' ... 'yes'"),
        ({"clipnorm": 1.0}, "ValueError: 'clipnorm' ... on the inner optimizer"),
    ):
        with refused(error):
            EXPERIMENTAL.from_config({"inner_optimizer": SGD, **wrong})


@pytest.mark.parametrize(
    "name", ["BaseLossScaleOptimizer", "Custom>lossscaleoptimizer"]
)
def test_a_class_name_of_any_version_may_be_replaced_by_custom_objects(name):
    """`tests/install/test_loading.py` loads the other names."""
    config = wrapper_config(name, initial_scale=4.0)
    optimizer = load(config)
    assert isinstance(optimizer, STABLE) and not isinstance(optimizer, EXPERIMENTAL)
    assert float(optimizer.loss_scale) == 4.0
    custom_objects = {"LossScaleOptimizer": EXPERIMENTAL}
    assert isinstance(load(config, custom_objects), EXPERIMENTAL)


def test_custom_objects_do_not_replace_the_experimental_class_of_tf_lso():
    """A program gives the name "LossScaleOptimizer" to a class in place of the stable one."""

    class Own(STABLE):
        pass

    arguments = config_of_2_3("FixedLossScale", loss_scale_value=4.0)
    config = make_config("ExperimentalLossScaleOptimizer", **arguments)
    loaded = load(config, {"LossScaleOptimizer": Own})
    assert isinstance(loaded, EXPERIMENTAL)
    assert float(loaded.loss_scale()) == 4.0


def test_the_experimental_class_is_known_by_its_module():
    config = wrapper_config() | {"module": "tf_lso.optimizers.experimental"}
    assert isinstance(load(config), EXPERIMENTAL)


@needs_keras3
def test_configs_are_exchanged_with_the_loss_scale_optimizer_of_keras_3():
    of_keras = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.25), initial_scale=4.0, dynamic_growth_steps=7
    )
    config = keras.optimizers.serialize(of_keras)
    for of_tf_lso in (load(config), STABLE.from_config(config["config"])):
        assert isinstance(of_tf_lso, STABLE)
        assert (of_tf_lso.initial_scale, of_tf_lso.dynamic_growth_steps) == (4.0, 7)
        assert (of_tf_lso.name, number(of_tf_lso.learning_rate)) == (
            of_keras.name,
            0.25,
        )
    again = type(of_keras).from_config(of_tf_lso.get_config())
    assert (again.initial_scale, again.dynamic_growth_steps) == (4.0, 7)


# --- The user's own classes.


class FactorSGD(keras.optimizers.SGD):
    """A user's optimizer of the current Keras, with an argument of its own."""

    def __init__(self, learning_rate=0.1, factor=1.0, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.factor = factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class PlainLegacySGD(keras2.optimizers.legacy.SGD):
    """A user's legacy optimizer."""


class ConstantRate(keras.optimizers.schedules.LearningRateSchedule):
    """A user's schedule of the current Keras."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate

    def get_config(self):
        return {"rate": self.rate}


FACTOR_SGD_CONFIG = make_config(
    "FactorSGD", lr=0.5, factor=3.0, jit_compile=True, decay=0.0
)


def test_a_users_optimizer_class_is_found_in_custom_objects():
    config = wrapper_config(inner=FACTOR_SGD_CONFIG)
    inner = load(config, {"FactorSGD": FactorSGD}).inner_optimizer
    assert (type(inner), inner.factor) == (FactorSGD, 3.0)
    for cls in (PlainLegacySGD, keras2.optimizers.SGD):
        assert type(load(SGD, {"SGD": cls})) is cls


@pytest.mark.parametrize("name", ["FactorSGD", "mine>FactorSGD"])
def test_a_users_optimizer_class_is_found_in_a_custom_object_scope(name):
    config = wrapper_config(inner={**FACTOR_SGD_CONFIG, "class_name": name})
    with keras.saving.custom_object_scope({name: FactorSGD}):
        assert type(load(config).inner_optimizer) is FactorSGD
    with keras2.saving.custom_object_scope({name: PlainLegacySGD}):
        inner = load(wrapper_config(inner={**SGD, "class_name": name})).inner_optimizer
        assert type(inner) is PlainLegacySGD
    with refused(f"ValueError: {name!r} ... custom_objects"):
        load(config)


def test_a_registered_optimizer_class_is_found():
    keras.saving.register_keras_serializable("test_configs")(FactorSGD)
    try:
        optimizer = STABLE(FactorSGD(0.5, factor=2.0))
        config = config_through_json(optimizer)
        loaded = STABLE.from_config(config)
        assert loaded.inner_optimizer.factor == 2.0
        assert loaded.get_config() == config
        # Until TensorFlow 2.11, the class name in a config contained the package.
        written = {**FACTOR_SGD_CONFIG, "class_name": "test_configs>FactorSGD"}
        assert type(load(written)) is FactorSGD
    finally:
        del keras.saving.get_custom_objects()["test_configs>FactorSGD"]


def test_none_is_passed_to_a_users_optimizer_class():
    config = make_config("FactorSGD", factor=None)
    assert load(config, {"FactorSGD": FactorSGD}).factor is None


def test_neutral_keys_are_not_passed_to_a_users_class_without_these_arguments():
    class Plain(keras.optimizers.SGD):
        def __init__(self, learning_rate=0.1, name="Plain"):
            super().__init__(learning_rate, name=name)

    neutral = {"clipnorm": None, "use_ema": False, "decay": 0.0}
    config = make_config("Plain", learning_rate=0.5, **neutral)
    optimizer = load(config, {"Plain": Plain})
    assert number(optimizer.learning_rate) == 0.5


@needs_keras3
def test_a_users_schedule_class_is_found_in_custom_objects():
    rate = make_config("ConstantRate", rate=0.5)
    config = wrapper_config(inner=make_config("SGD", learning_rate=rate))
    optimizer = load(config, {"ConstantRate": ConstantRate}, package=PACKAGES["keras3"])
    assert number(optimizer.learning_rate) == 0.5
    with refused("ValueError: 'ConstantRate' ... custom_objects"):
        load(config)
    package = PACKAGES["keras2"]
    with refused(f"TypeError: 'ConstantRate' ... LearningRateSchedule of {package}"):
        load(config, {"ConstantRate": ConstantRate}, package=package)


def test_a_users_subclass_loads_by_its_own_from_config():
    calls = []

    class Subclass(tf_lso.LossScaleOptimizer):
        @classmethod
        def from_config(cls, config, custom_objects=None):
            calls.append(config)
            return super().from_config(config, custom_objects)

    config = wrapper_config("Subclass")
    assert isinstance(load(config, {"Subclass": Subclass}), Subclass)
    assert len(calls) == 1


# --- The family of the inner optimizer.


def config_since_2_12(module, **config):
    """Return the config of an SGD with the keys that TensorFlow 2.12 and Keras 3 add."""
    return make_config("SGD", **config) | {"module": module, "registered_name": None}


# Maps what wrote a config to the config.
SGD_CONFIGS = {
    "2.0-2.11": make_config("SGD", learning_rate=0.5, decay=0.0),
    "2.9-2.11": make_config("Custom>SGD", jit_compile=True),
    "2.12, legacy": config_since_2_12(
        "keras.optimizers.legacy", learning_rate=0.5, decay=0.0
    ),
    "2.12": config_since_2_12(
        "keras.optimizers", learning_rate=0.5, is_legacy_optimizer=False
    ),
    "Keras 3": config_since_2_12(
        "keras.optimizers", learning_rate=0.5, loss_scale_factor=None
    ),
    "Keras 3, .h5": make_config("sgd", loss_scale_factor=None),
}


# Without the family, Keras 2 would make a legacy optimizer of the first config, and a newer
# one of the second config.


@pytest.mark.parametrize(
    # The Keras 2 that the program has imported, the Keras of `tf.keras`, and for each of
    # SGD_CONFIGS the package of the optimizer.
    "imported, of_tensorflow, expected",
    [
        ([], "keras", "keras keras keras keras keras keras"),
        (["tf_keras"], "keras", "keras keras tf_keras tf_keras keras keras"),
        (["tf_keras"], "tf_keras", "tf_keras tf_keras tf_keras tf_keras keras keras"),
    ],
)
@needs_keras3
def test_a_program_gets_optimizers_of_the_keras_it_uses(
    imported, of_tensorflow, expected, monkeypatch
):
    monkeypatch.setattr(keras_versions, "imported_keras2", lambda: imported)
    monkeypatch.setattr(keras_versions, "package_of_tensorflow", lambda: of_tensorflow)
    modules = [type(load(config)).__module__ for config in SGD_CONFIGS.values()]
    assert [module.split(".")[0] for module in modules] == expected.split()


# --- Round trips.

ROUND_TRIPS = {
    "defaults": STABLE,
    "limits": lambda o: STABLE(o, True, 4.0, 3, min_scale=0.5, max_scale=64.0),
    "rule": lambda o: STABLE(o, growth_factor=4.0, backoff_factor=0.25),
    "fixed": lambda o: STABLE(o, False, 4.0, name="mine"),
    "experimental": lambda o: EXPERIMENTAL(o, 4.0, name="mine"),
    "multiplier": lambda o: EXPERIMENTAL(o, tf_lso.DynamicLossScale(4.0, 3, 8.0)),
}
# The keys that a config contains only if the caller passed the argument.
OPTIONAL_KEYS = {
    "limits": {"min_scale": 0.5, "max_scale": 64.0},
    "rule": {"growth_factor": 4.0, "backoff_factor": 0.25},
    "fixed": {"name": "mine"},
    "experimental": {"name": "mine"},
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
def test_a_config_survives_a_round_trip_through_json(family, kind):
    inner = FAMILIES[family].Adam(0.25, beta_1=0.5, clipnorm=2.0)
    optimizer = ROUND_TRIPS[kind](inner)
    x = tf.Variable([1.0, 2.0])
    for factor in (1.0, float("nan"), 1.0):  # steps do not change the config
        legacy_step(optimizer, lambda f=factor: f * tf.reduce_sum(x**2), [x])
    config = config_through_json(optimizer)
    assert OPTIONAL_KEYS.get(kind, {}).items() <= config.items()
    name = "LossScaleOptimizer"
    if isinstance(optimizer, EXPERIMENTAL):
        name = "ExperimentalLossScaleOptimizer"
    for loaded in (
        type(optimizer).from_config(config),
        load({"class_name": f"tf_lso>{name}", "config": config}),
    ):
        assert type(loaded) is type(optimizer)
        assert type(loaded.inner_optimizer) is type(inner)
        assert loaded.get_config() == config == optimizer.get_config()
        assert float(loaded.loss_scale_state()) == optimizer.initial_scale
        assert (number(loaded.learning_rate), number(loaded.beta_1)) == (0.25, 0.5)


def test_the_stable_class_reads_the_rule_in_an_experimental_config():
    scale = tf_lso.DynamicLossScale(16.0, backoff_factor=0.25)
    config = EXPERIMENTAL(keras.optimizers.SGD(0.1), scale, name="mine").get_config()
    optimizer = STABLE.from_config(config)
    loaded = optimizer.loss_scale_state
    assert (loaded.initial_loss_scale, loaded.backoff_factor) == (16.0, 0.25)
    assert optimizer.name == "mine"


# --- Refusals.


@pytest.mark.parametrize("config", [None, "sgd"])
def test_a_config_that_is_not_a_dict_is_refused(config):
    with refused(f"TypeError: 'config' ... {config!r:.5}"):
        STABLE.from_config(config)
    with refused(f"TypeError: dict ... {config!r:.5}"):
        configs.deserialize(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "ValueError: 'class_name' ... 'config'"),
        ({"class_name": "SGD"}, "ValueError: 'config' ... ['class_name']"),
        ({"class_name": 3, "config": {}}, "TypeError: 'class_name' ... 3"),
        ({"class_name": "SGD", "config": 3}, "TypeError: 'config' ... dict ... 3"),
        (make_config("Unheard"), "ValueError: 'Unheard' ... custom_objects ... 'Adam'"),
        (wrapper_config(inner=None), "ValueError: 'inner_optimizer'"),
        (wrapper_config(dynamic="yes"), "TypeError: 'dynamic' ... 'yes'"),
        (
            wrapper_config(optimizer=SGD),
            "ValueError: 'optimizer' ... 'inner_optimizer'",
        ),
        (
            make_config("SGD", lr=0.5, learning_rate=0.25),
            "ValueError: 'lr': 0.5 ... 'learning_rate': 0.25",
        ),
    ],
)
def test_a_config_is_refused(config, expected):
    with unchanged(config), refused(expected):
        configs.deserialize(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"optimizer": SGD}, "ValueError: 'loss_scale'"),
        (config_of_2_3("Unheard"), "ValueError: 'Unheard' ... custom_objects"),
        ({"loss_scale": 4.0}, "ValueError: 'optimizer'"),
        (config_of_2_3("FixedLossScale", value=4.0), "TypeError: 'value'"),
        (
            {"optimizer": SGD, "loss_scale": {"class_name": "FixedLossScale"}},
            "ValueError: 'class_name' and 'config' ... FixedLossScale",
        ),
        (
            {
                "optimizer": SGD,
                "loss_scale": make_config("FixedLossScale") | {"config": 3},
            },
            "ValueError: 'class_name' and 'config' ... 3",
        ),
        (
            {**config_of_2_3("FixedLossScale", loss_scale_value=2.0), "x": 1},
            "TypeError: 'x'",
        ),
    ],
)
@pytest.mark.parametrize("cls", [STABLE, EXPERIMENTAL])
def test_a_config_of_2_3_is_refused(cls, config, expected):
    with unchanged(config), refused(expected):
        cls.from_config(config)


@pytest.mark.parametrize(
    "family, name, key, value",
    [
        ("keras3", "SGD", "bogus", 3),
        ("keras3", "Nadam", "decay", 0.5),
        ("keras2", "SGD", "gradient_accumulation_steps", 4),
    ],
)
def test_a_key_that_the_optimizer_does_not_support_is_refused(name, key, value, family):
    config = make_config(name, **{"learning_rate": 0.5, key: value})
    with unchanged(config), refused(f"ValueError: {key!r}: {value!r} ... {name}"):
        configs.deserialize(config, package=PACKAGES[family])


@each_keras
@pytest.mark.parametrize("value", ["0.5", True])
def test_a_hyperparameter_of_the_wrong_type_is_refused(family, value):
    with refused(f"TypeError: 'learning_rate': {value!r} ... SGD"):
        configs.deserialize(
            make_config("SGD", learning_rate=value), package=PACKAGES[family]
        )


def test_a_class_in_custom_objects_that_is_not_an_optimizer_is_refused():
    with refused("TypeError: 'NotAnOptimizer' ... optimizer"):
        load(make_config("NotAnOptimizer"), {"NotAnOptimizer": dict})
