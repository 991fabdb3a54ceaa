"""Optimizers are made from configs of TensorFlow 2.0-2.15, tf_keras and Keras 3.

Most tests run twice: once the config becomes an optimizer of Keras 3, and once an optimizer
of Keras 2. `tests/golden/replay_configs.py` compares loaded optimizers with recorded ones.
"""

import contextlib
import copy
import gzip
import itertools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import (
    FAMILIES,
    HAS_KERAS3,
    PACKAGES,
    keras,
    keras2,
    legacy_step,
    needs_keras3,
    number,
)
from tests.generation import AS_NUMBER
from tests.refused import refused
from tf_lso.frameworks import keras_configs
from tf_lso.optimizers import config as configs
from tf_lso.optimizers import experimental

_RECORD = pathlib.Path(__file__).parent / "record" / "configs.json.gz"
RECORD = json.loads(gzip.decompress(_RECORD.read_bytes()))

STABLE, EXPERIMENTAL = tf_lso.LossScaleOptimizer, experimental.LossScaleOptimizer
each_keras = pytest.mark.parametrize("family", ["keras3", "keras2"])


def of(class_name, **config):
    return {"class_name": class_name, "config": config}


SGD = of("SGD", learning_rate=0.5)


def wrapper(name="LossScaleOptimizer", inner=SGD, **config):
    return of(name, inner_optimizer=inner, **config)


def old(class_name, **config):
    """Return the config of a LossScaleOptimizer as TensorFlow 2.0-2.3 wrote it."""
    return {"optimizer": SGD, "loss_scale": of(class_name, **config)}


@contextlib.contextmanager
def kept(*values):
    """Check that the `with` block does not change the values or anything in them."""
    before = copy.deepcopy(values)
    yield
    assert values == before


def through_json(optimizer):
    """Return the config of an optimizer after a round trip through JSON."""
    return json.loads(json.dumps(optimizer.get_config(), default=AS_NUMBER))


def load(config, *args, **kwargs):
    with kept(config):
        return configs.deserialize(config, *args, **kwargs)


def assert_holds(optimizer, serialized):
    """Check that an optimizer has the class and the hyperparameters of a config."""
    config = optimizer.get_config()
    name = serialized["class_name"].split(">")[-1]
    assert type(optimizer).__name__.lower() == name.lower()
    for key, value in serialized["config"].items():
        if key in ("name", "jit_compile", "is_legacy_optimizer", "decay"):
            continue
        if key not in config:
            assert keras_configs.is_neutral(key, value), key
        elif isinstance(value, float):
            assert config[key] == pytest.approx(value, rel=1e-6), key
        else:
            assert config[key] == value, key


# --- Configs that real versions wrote.


@pytest.mark.parametrize(
    "family", ["keras3", pytest.param("keras2", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("name", "route"),
    [
        (name, route)
        for name, routes in RECORD.items()
        for route in routes
        # The `get_config()` of a bare optimizer does not contain the class name.
        if "/bare" not in name or route != "get_config"
    ],
)
def test_every_recorded_config_loads(name, route, family):
    recorded, package = RECORD[name][route], PACKAGES[family]
    kind = name.split("/")[1]
    if route == "get_config":
        with kept(recorded):
            optimizer = configs.from_config(STABLE, recorded, package=package)
            other = EXPERIMENTAL.from_config(json.loads(json.dumps(recorded)))
            assert isinstance(STABLE.from_config(recorded), STABLE)
        assert isinstance(other, EXPERIMENTAL)
        assert other.initial_scale == optimizer.initial_scale
    else:
        optimizer = load(recorded, package=package)
    if not kind.startswith("bare"):
        assert isinstance(optimizer, STABLE)
        assert not isinstance(optimizer, EXPERIMENTAL)
        fixed = kind.endswith("fixed")
        assert optimizer.dynamic is not fixed
        assert optimizer.initial_scale == (128.0 if fixed else 8.0)
        assert optimizer.dynamic_growth_steps == (None if fixed else 3)
        config = recorded if route == "get_config" else recorded["config"]
        recorded = config.get("inner_optimizer") or config["optimizer"]
        optimizer = optimizer.inner_optimizer
    assert_holds(optimizer, recorded)
    base = family if family == "keras3" else {"v2": "legacy"}.get(kind.split("-")[1])
    assert isinstance(optimizer, FAMILIES[base or "new"].Optimizer)


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
    if "is_legacy_optimizer" in config:  # this key selects the class, so it keeps its value
        config |= {"is_legacy_optimizer": False, "ema_overwrite_frequency": 7}
    return config | {"learning_rate": 0.25, "name": "mine", "clipvalue": 0.5}


@each_keras
@pytest.mark.parametrize(
    "kind, name, spelling",
    [
        *itertools.product(["legacy"], LEGACY, [str, str.lower, "Custom>{}".format]),
        *itertools.product(["new"], [*LEGACY, "AdamW"], [str]),
    ],
)
def test_each_optimizer_keeps_its_hyperparameters(kind, name, spelling, family):
    config = not_the_defaults(getattr(FAMILIES[kind], name)())
    serialized = of(spelling(name), **config)
    if kind == "new":
        serialized["config"]["weight_decay"] = 0.125
        serialized |= {"module": "keras.optimizers", "registered_name": None}
    else:
        # The default. Nadam wrote 0.004 before its first step, and the nearest float32
        # number afterwards.
        of_nadam = 0.004 if spelling is str else float(np.float32(0.004))
        serialized["config"]["decay"] = of_nadam if name == "Nadam" else 0.0
    optimizer = load(serialized, package=PACKAGES[family])
    base = FAMILIES[kind if family == "keras2" else family].Optimizer
    assert isinstance(optimizer, base)
    assert_holds(optimizer, serialized)
    kept_config = optimizer.get_config()
    assert (kept_config["clipvalue"], kept_config["name"]) == (0.5, "mine")
    assert kept_config.get("use_ema", False) == (kind == "new")


@pytest.mark.parametrize("name", [*LEGACY, "AdamW", "Lion", "Adafactor"])
@needs_keras3
def test_optimizers_of_keras3_load_into_tf_keras(name):
    theirs = getattr(keras.optimizers, name)(0.25, clipnorm=0.5)
    serialized = keras.optimizers.serialize(theirs)
    optimizer = load(serialized, package=PACKAGES["keras2"])
    assert isinstance(optimizer, FAMILIES["new"].Optimizer)
    assert_holds(optimizer, serialized)


@each_keras
def test_numbers_of_numpy_and_tensorflow_become_plain(family):
    adam = of(
        "Adam",
        learning_rate=np.float32(0.25),
        beta_1=np.float64(0.5),
        beta_2=tf.constant(0.75),
        epsilon=np.array(0.125),
        amsgrad=np.bool_(True),
        decay=np.float32(0),
    )
    config = wrapper(inner=adam, initial_scale=np.float32(4), dynamic=np.bool_(True))
    optimizer = load(config, package=PACKAGES[family])
    config = optimizer.inner_optimizer.get_config()
    numbers = [config[key] for key in ("learning_rate", "beta_1", "beta_2", "epsilon")]
    assert numbers == [0.25, 0.5, 0.75, 0.125]
    assert config["amsgrad"] is True
    json.dumps(optimizer.get_config())


def test_tensors_as_tensorflow_2_12_wrote_them_and_two_names_of_one_rate():
    rate = of("__tensor__", value=0.25, dtype="float32")
    for sgd in (of("SGD", learning_rate=rate), of("SGD", lr=0.25, learning_rate=0.25)):
        assert number(load(sgd).learning_rate) == 0.25


@each_keras
def test_integers_and_none_stand_for_floats_and_the_default(family):
    rmsprop = of("RMSprop", lr=1, momentum=0, rho=1, epsilon=None, decay=0)
    optimizer = load(rmsprop, package=PACKAGES[family])
    config = optimizer.get_config()
    assert number(optimizer.learning_rate) == 1.0
    assert (config["momentum"], config["epsilon"]) == (0.0, 1e-7)


# --- Learning rates.

_schedules = keras2.optimizers.schedules
SCHEDULES = [
    _schedules.ExponentialDecay(0.5, 3, 0.5),
    _schedules.InverseTimeDecay(0.5, 3, 0.5, staircase=True),
    _schedules.PiecewiseConstantDecay([2, 4], [0.5, 0.25, 0.125]),
    _schedules.PolynomialDecay(0.5, 4, 0.125, power=2.0, cycle=True),
    _schedules.CosineDecay(0.5, 6, alpha=0.125),
    _schedules.CosineDecayRestarts(0.5, 3, t_mul=2.0, m_mul=0.5),
]


@each_keras
@pytest.mark.parametrize("real", SCHEDULES, ids=lambda real: type(real).__name__)
@pytest.mark.parametrize("generation", ["2.0", "2.12"])
def test_each_schedule_gives_the_same_rates(real, generation, family):
    # Before TensorFlow 2.12 no schedule had arguments for a warmup.
    config = {k: v for k, v in real.get_config().items() if "warmup" not in k}
    rate = of(type(real).__name__, **config)
    if generation == "2.12":
        rate |= {"module": "keras.optimizers.schedules", "registered_name": None}
    inner = of("SGD", learning_rate=rate, decay=0.0)
    optimizer = load(wrapper(inner=inner), package=PACKAGES[family])
    variable = tf.Variable(0.0)
    for step in range(7):
        before = variable.numpy()
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
        used = before - variable.numpy()
        assert used == pytest.approx(float(real(step)), rel=1e-5)


@needs_keras3
def test_decay_becomes_the_schedule_of_the_same_rates():
    serialized = of("SGD", learning_rate=0.5, decay=0.3, momentum=0.0, nesterov=False)
    variables = {}
    for family in ("keras3", "keras2"):
        optimizer = load(wrapper(inner=serialized), package=PACKAGES[family])
        x = variables[family] = tf.Variable([1.0, 2.0])
        for step in range(20):
            gradient = float("nan") if step == 7 else 0.5 + step
            optimizer.apply_gradients([(gradient * tf.ones(2), x)])
    np.testing.assert_allclose(variables["keras3"], variables["keras2"], rtol=1e-6)
    assert variables["keras3"].numpy()[0] < -1


@needs_keras3
def test_decay_beside_a_schedule_is_refused():
    rate = of("CosineDecay", initial_learning_rate=0.5, decay_steps=6)
    inner = of("SGD", learning_rate=rate, decay=0.5)
    with refused("ValueError: 'decay': 0.5 ... SGD"):
        load(inner, package=PACKAGES["keras3"])
    assert load(inner, package=PACKAGES["keras2"]).get_config()["decay"] == 0.5


@needs_keras3
def test_a_schedule_object_in_a_config_is_used_as_it_is():
    rate = keras.optimizers.schedules.ExponentialDecay(0.5, 2, 0.5)
    optimizer = configs.deserialize(of("SGD", learning_rate=rate), package="keras")
    assert optimizer._learning_rate is rate


# --- Layouts.


def test_another_multiplier_gives_an_experimental_optimizer(family):
    config = old("DynamicLossScale", initial_loss_scale=16.0, multiplier=4.0)
    cls = type(STABLE(FAMILIES[family].SGD()))
    with kept(config):
        optimizer = cls.from_config(config)
    assert isinstance(optimizer, EXPERIMENTAL)
    assert optimizer.loss_scale.multiplier == 4.0
    assert isinstance(optimizer.inner_optimizer, FAMILIES[family].Optimizer)


def test_a_subclass_that_cannot_have_the_loss_scale_refuses_it():
    class Mine(STABLE):
        pass

    with refused("ValueError: 'loss_scale' ... Mine ... multiplier"):
        Mine.from_config(old("DynamicLossScale", multiplier=4.0))
    config = old("DynamicLossScale", initial_loss_scale=4.0)
    assert isinstance(Mine.from_config(config), Mine)


def test_a_loss_scale_of_the_users_own():
    class Halving(tf_lso.FixedLossScale):
        pass

    config = old("Halving", loss_scale_value=4.0)
    optimizer = STABLE.from_config(config, {"Halving": Halving})
    assert isinstance(optimizer.loss_scale, Halving)
    with refused("ValueError: 'Halving' ... custom_objects"):
        STABLE.from_config(config)


@pytest.mark.parametrize("loss_scale", [4, "dynamic", tf_lso.DynamicLossScale(4.0, 2)])
def test_a_loss_scale_may_stand_in_the_config_as_the_constructor_takes_it(loss_scale):
    optimizer = STABLE.from_config({"optimizer": SGD, "loss_scale": loss_scale})
    expected = 2.0**15 if loss_scale == "dynamic" else 4.0
    assert float(optimizer.loss_scale) == expected


def test_the_experimental_class_reads_arguments_of_the_stable_one():
    """`tests/golden/test_sections.py` tests the other layouts of configs."""
    config = {"inner_optimizer": SGD, "name": "mine", "min_scale": 0.25, "max_scale": 8}
    config |= {"initial_scale": 0.5, "loss_scale_factor": None}
    with kept(config):
        optimizer = EXPERIMENTAL.from_config(config)
    scale = optimizer.loss_scale
    assert (float(scale()), scale.min_loss_scale, scale.max_loss_scale) == (
        0.5,
        0.25,
        8,
    )
    assert (optimizer.name, optimizer.dynamic_growth_steps) == ("mine", 2000)
    fixed = {"inner_optimizer": SGD, "dynamic": False, "initial_scale": 0.5}
    fixed = EXPERIMENTAL.from_config(fixed)
    assert (fixed.dynamic, float(fixed.loss_scale())) == (False, 0.5)


NAMES = [
    "LossScaleOptimizer",
    "lossscaleoptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "tf_lso>LossScaleOptimizer",
    "Custom>LossScaleOptimizer",
]


@pytest.mark.parametrize("name", NAMES)
@each_keras
def test_every_name_of_the_wrapper_is_known(name, family):
    config = wrapper(name, initial_scale=4.0)
    optimizer = load(config, package=PACKAGES[family])
    assert isinstance(optimizer, STABLE) and not isinstance(optimizer, EXPERIMENTAL)
    assert float(optimizer.loss_scale) == 4.0
    # A class in `custom_objects` under the public name is used for every name.
    custom = {"LossScaleOptimizer": EXPERIMENTAL}
    assert isinstance(load(config, custom, PACKAGES[family]), EXPERIMENTAL)


def test_the_experimental_class_is_known_by_its_name_and_by_its_module():
    of_module = wrapper() | {"module": "tf_lso.optimizers.experimental"}
    for config in (wrapper("tf_lso>ExperimentalLossScaleOptimizer"), of_module):
        assert isinstance(load(config), EXPERIMENTAL)


@needs_keras3
def test_keras3s_own_wrapper_becomes_ours():
    theirs = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.25), initial_scale=4.0, dynamic_growth_steps=7
    )
    config = keras.optimizers.serialize(theirs)
    for ours in (load(config), STABLE.from_config(config["config"])):
        assert isinstance(ours, STABLE)
        assert (ours.initial_scale, ours.dynamic_growth_steps) == (4.0, 7)
        assert (ours.name, number(ours.learning_rate)) == (theirs.name, 0.25)
    again = type(theirs).from_config(ours.get_config())
    assert (again.initial_scale, again.dynamic_growth_steps) == (4.0, 7)


@pytest.mark.parametrize("kind", ["legacy", "new"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_tf_kerass_own_wrapper_becomes_ours_and_reads_ours(kind, dynamic):
    theirs = keras2.mixed_precision.LossScaleOptimizer(
        FAMILIES[kind].Adam(0.25), dynamic=dynamic, initial_scale=4.0
    )
    for legacy_format in (True, False):
        config = keras2.optimizers.serialize(theirs, use_legacy_format=legacy_format)
        ours = load(config)
        assert isinstance(ours, STABLE)
        assert isinstance(ours.inner_optimizer, FAMILIES[kind].Optimizer)
        assert (ours.dynamic, ours.initial_scale) == (dynamic, 4.0)
        if HAS_KERAS3:
            inner = load(config, package="keras").inner_optimizer
            assert isinstance(inner, FAMILIES["keras3"].Optimizer)
    assert set(ours.get_config()) == set(theirs.get_config())
    again = type(theirs).from_config(ours.get_config())
    assert again.initial_scale == 4.0


# --- The user's own classes.


class Scaled(keras.optimizers.SGD):
    def __init__(self, learning_rate=0.1, factor=1.0, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.factor = factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class ScaledV2(keras2.optimizers.legacy.SGD):
    pass


class Warm(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak):
        self.peak = peak

    def __call__(self, step):
        return self.peak

    def get_config(self):
        return {"peak": self.peak}


OWN = of("Scaled", lr=0.5, factor=3.0, jit_compile=True, decay=0.0)


def test_an_optimizer_class_of_custom_objects_decides_the_family():
    inner = load(wrapper(inner=OWN), {"Scaled": Scaled}).inner_optimizer
    assert (type(inner), inner.factor) == (Scaled, 3.0)
    assert load(of("Scaled", factor=None), {"Scaled": Scaled}).factor is None
    decaying = load(of("Scaled", lr=0.5, decay=0.5), {"Scaled": Scaled})
    rate = decaying.get_config()["learning_rate"]
    assert rate["class_name"] == "InverseTimeDecay"
    assert rate["config"]["decay_rate"] == 0.5
    inner = load(of("ScaledV2", learning_rate=0.5), {"ScaledV2": ScaledV2})
    assert type(inner) is ScaledV2
    # A class in `custom_objects` also replaces a class of Keras with the same name.
    for cls in (Scaled, keras2.optimizers.SGD):
        assert type(load(SGD, {"SGD": cls})) is cls


@pytest.mark.parametrize("name", ["Scaled", "mine>Scaled"])
def test_an_optimizer_class_of_a_scope(name):
    config = wrapper(inner={**OWN, "class_name": name})
    with keras.saving.custom_object_scope({name: Scaled}):
        assert type(load(config).inner_optimizer) is Scaled
    with keras2.saving.custom_object_scope({name: ScaledV2}):
        inner = load(wrapper(inner={**SGD, "class_name": name})).inner_optimizer
        assert type(inner) is ScaledV2
    with refused(f"ValueError: {name!r} ... custom_objects"):
        load(config)


def test_a_registered_optimizer_class():
    keras.saving.register_keras_serializable("test_configs")(Scaled)
    try:
        optimizer = STABLE(Scaled(0.5, factor=2.0))
        config = through_json(optimizer)
        again = STABLE.from_config(config)
        assert again.inner_optimizer.factor == 2.0
        assert again.get_config() == config
        # Until TensorFlow 2.11, the class name in a config contained the package.
        written = {**OWN, "class_name": "test_configs>Scaled"}
        assert type(load(written)) is Scaled
    finally:
        del keras.saving.get_custom_objects()["test_configs>Scaled"]


def test_a_users_class_without_keywords_is_not_given_what_says_nothing():
    class Plain(keras.optimizers.SGD):
        def __init__(self, learning_rate=0.1, name="Plain"):
            super().__init__(learning_rate, name=name)

    written = of("Plain", learning_rate=0.5, clipnorm=None, use_ema=False, decay=0.0)
    optimizer = load(written, {"Plain": Plain})
    assert number(optimizer.learning_rate) == 0.5


@needs_keras3
def test_a_schedule_class_of_custom_objects():
    config = wrapper(inner=of("SGD", learning_rate=of("Warm", peak=0.5)))
    optimizer = load(config, {"Warm": Warm}, package=PACKAGES["keras3"])
    assert number(optimizer.learning_rate) == 0.5
    with refused("ValueError: 'Warm' ... custom_objects"):
        load(config)
    package = PACKAGES["keras2"]
    with refused(f"TypeError: 'Warm' ... LearningRateSchedule of {package}"):
        load(config, {"Warm": Warm}, package=package)


def test_a_subclass_of_the_users_own_loads_by_its_own_from_config():
    seen = []

    class Louder(tf_lso.LossScaleOptimizer):
        @classmethod
        def from_config(cls, config, custom_objects=None):
            seen.append(config)
            return super().from_config(config, custom_objects)

    assert isinstance(load(wrapper("Louder"), {"Louder": Louder}), Louder)
    assert len(seen) == 1


# --- The family of the inner optimizer.

LEGACY_KERAS = {"TF_USE_LEGACY_KERAS": "1"}
PROGRAM = '''
import json, sys
if "tf_keras" in sys.argv[1:]:
    import tf_keras
import tf_lso
from tf_lso.optimizers import config as configs
package = lambda c: type(configs.deserialize(c)).__module__.split(".")[0]
print(json.dumps([package(c) for c in json.loads(r"""{}""")]))
assert ("tf_keras" in sys.modules) == (len(sys.argv) > 1)
'''


def written_by(module, **config):
    return of("SGD", **config) | {"module": module, "registered_name": None}


WRITTEN = {
    "2.0-2.11": of("SGD", learning_rate=0.5, decay=0.0),
    "2.9-2.11": of("Custom>SGD", jit_compile=True),
    "2.12, legacy": written_by("keras.optimizers.legacy", learning_rate=0.5, decay=0.0),
    "2.12": written_by(
        "keras.optimizers", learning_rate=0.5, is_legacy_optimizer=False
    ),
    "Keras 3": written_by(
        "keras.optimizers", learning_rate=0.5, loss_scale_factor=None
    ),
    "Keras 3, .h5": of("sgd", loss_scale_factor=None),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, env, expected",
    [
        ([], {}, "keras keras keras keras keras keras"),
        (["tf_keras"], {}, "keras keras tf_keras tf_keras keras keras"),
        (["tf_keras"], LEGACY_KERAS, "tf_keras tf_keras tf_keras tf_keras keras keras"),
    ],
    ids=["keras3", "both", "tf_keras"],
)
@needs_keras3
def test_a_program_gets_optimizers_of_the_keras_it_uses(arguments, env, expected):
    program = PROGRAM.format(json.dumps(list(WRITTEN.values())))
    done = preloaded.run(["-c", program, *arguments], **env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == expected.split()


@pytest.mark.parametrize("written", WRITTEN)
def test_the_class_of_an_optimizer_makes_inner_optimizers_of_its_family(
    written, family
):
    cls = type(STABLE(FAMILIES[family].SGD()))
    config = wrapper(inner=WRITTEN[written])["config"]
    with kept(config):
        optimizer = cls.from_config(config)
    assert isinstance(optimizer.inner_optimizer, FAMILIES[family].Optimizer)


# --- Round trips.

ROUND_TRIPS = {
    "defaults": STABLE,
    "limits": lambda o: STABLE(o, True, 4.0, 3, min_scale=0.5, max_scale=64.0),
    "rule": lambda o: STABLE(o, growth_factor=4.0, backoff_factor=0.25, hysteresis=2),
    "fixed": lambda o: STABLE(o, False, 4.0, name="mine"),
    "experimental": lambda o: EXPERIMENTAL(o, 4.0),
    "multiplier": lambda o: EXPERIMENTAL(o, tf_lso.DynamicLossScale(4.0, 3, 8.0)),
}
# The keys that a config contains only if the caller passed the argument.
ADDED = {
    "limits": {"min_scale": 0.5, "max_scale": 64.0},
    "rule": {"growth_factor": 4.0, "backoff_factor": 0.25, "hysteresis": 2},
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
def test_a_config_goes_round_through_json(family, kind):
    inner = FAMILIES[family].Adam(0.25, beta_1=0.5, clipnorm=2.0)
    optimizer = ROUND_TRIPS[kind](inner)
    x = tf.Variable([1.0, 2.0])
    for factor in (1.0, float("nan"), 1.0):  # steps do not change the config
        legacy_step(optimizer, lambda f=factor: f * tf.reduce_sum(x**2), [x])
    config = through_json(optimizer)
    cls, name = STABLE, "LossScaleOptimizer"
    if isinstance(optimizer, EXPERIMENTAL):
        cls, name = EXPERIMENTAL, "ExperimentalLossScaleOptimizer"
    else:
        usual = ("dynamic", "initial_scale", "dynamic_growth_steps")
        assert [config[key] for key in usual] == [getattr(optimizer, k) for k in usual]
        added = config.keys() - {*usual, "inner_optimizer", "name"}
        assert {key: config[key] for key in added} == ADDED.get(kind, {})
    for again in (
        type(optimizer).from_config(config),
        cls.from_config(config),
        load({"class_name": f"tf_lso>{name}", "config": config}),
    ):
        assert type(again) is type(optimizer)
        assert type(again.inner_optimizer) is type(inner)
        assert again.get_config() == config == optimizer.get_config()
        assert float(again.loss_scale_state()) == optimizer.initial_scale
        assert (number(again.learning_rate), number(again.beta_1)) == (0.25, 0.5)


def test_the_rule_is_kept_where_the_stable_class_reads_an_experimental_config(family):
    scale = tf_lso.DynamicLossScale(16.0, backoff_factor=0.25, hysteresis=3)
    config = EXPERIMENTAL(FAMILIES[family].SGD(0.1), scale).get_config()
    read = STABLE.from_config(config).loss_scale_state
    assert (read.backoff_factor, read.hysteresis) == (0.25, 3)


def test_an_optimizer_may_stand_in_place_of_its_config(family):
    inner = FAMILIES[family].SGD()
    optimizer = STABLE.from_config({"inner_optimizer": inner, "initial_scale": 2.0})
    assert optimizer.inner_optimizer is inner


# --- Refusals.


@pytest.mark.parametrize("config", [None, 3, "sgd", [SGD]])
def test_what_is_no_dict_is_refused(config):
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
        (of("Unheard"), "ValueError: 'Unheard' ... custom_objects ... 'Adam'"),
        (wrapper(inner=None), "ValueError: 'inner_optimizer'"),
        (wrapper(inner="sgd"), "TypeError: 'optimizer' ... 'sgd'"),
        (wrapper(inner=wrapper()), "TypeError: scaled twice"),
        (wrapper(inner={"config": {}}), "ValueError: 'class_name'"),
        (wrapper(dynamic="yes"), "TypeError: 'dynamic' ... 'yes'"),
        (wrapper(initial_scale=-1), "ValueError: 'initial_scale' ... -1"),
        (wrapper(dynamic_growth_steps=-1), "ValueError: 'dynamic_growth_steps' ... -1"),
        ({**wrapper(), "config": {"dynamic": True}}, "ValueError: 'inner_optimizer'"),
        (wrapper(clipnorm=1.0), "ValueError: 'clipnorm' ... 1.0"),
        (wrapper(bogus=1), "TypeError: 'bogus'"),
        (wrapper(optimizer=SGD), "ValueError: 'optimizer' ... 'inner_optimizer'"),
        (
            of("SGD", lr=0.5, learning_rate=0.25),
            "ValueError: 'lr': 0.5 ... 'learning_rate': 0.25",
        ),
    ],
)
def test_a_config_is_refused(config, expected):
    with kept(config), refused(expected):
        configs.deserialize(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"optimizer": SGD}, "ValueError: 'loss_scale'"),
        (old("Unheard"), "ValueError: 'Unheard' ... custom_objects"),
        ({"loss_scale": 4.0}, "ValueError: 'optimizer'"),
        ({"optimizer": SGD, "loss_scale": None}, "ValueError: 'loss_scale' ... None"),
        ({"optimizer": SGD, "loss_scale": {}}, "ValueError: 'class_name'"),
        (old("FixedLossScale", value=4.0), "TypeError: 'value'"),
        ({**old("FixedLossScale", loss_scale_value=2.0), "x": 1}, "TypeError: 'x'"),
    ],
)
@pytest.mark.parametrize("cls", [STABLE, EXPERIMENTAL])
def test_a_config_of_2_3_is_refused(cls, config, expected):
    with kept(config), refused(expected):
        cls.from_config(config)


@pytest.mark.parametrize(
    "family, name, key, value",
    [
        ("keras3", "SGD", "bogus", 3),
        ("keras3", "Adam", "adaptive_epsilon", True),
        ("keras3", "Nadam", "decay", 0.5),
        ("keras2", "SGD", "gradient_accumulation_steps", 4),
        ("keras2", "SGD", "loss_scale_factor", 4.0),
        ("keras2", "SGD", "bogus", 3),
    ],
)
def test_a_key_that_cannot_be_kept_is_refused(name, key, value, family):
    config = of(name, **{"learning_rate": 0.5, key: value})
    with kept(config), refused(f"ValueError: {key!r}: {value!r} ... {name}"):
        configs.deserialize(config, package=PACKAGES[family])


@each_keras
@pytest.mark.parametrize("value", ["0.5", [0.5], True])
def test_a_hyperparameter_of_the_wrong_type_is_refused(family, value):
    with refused(f"TypeError: 'learning_rate': {value!r} ... SGD"):
        configs.deserialize(of("SGD", learning_rate=value), package=PACKAGES[family])


def test_a_class_of_custom_objects_that_is_no_optimizer_is_refused():
    with refused("TypeError: 'Mine' ... optimizer"):
        load(of("Mine"), {"Mine": dict})
