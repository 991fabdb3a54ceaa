"""The dtype policies of TensorFlow 2.0-2.15, for Keras 3 and tf_keras.

`tests/golden/test_policies.py` compares policies with recorded results of each TensorFlow
version.
"""

import json
import pickle

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, GENERATIONS, PACKAGES, keras2, needs_keras3
from tests.families import keras as keras3
from tf_lso import policies
from tf_lso.frameworks import keras_versions, log
from tf_lso.optimizers import wrapping
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale


@pytest.fixture(params=GENERATIONS)
def api(request):
    """The policy functions for one Keras. The fixture resets the global policy afterwards."""
    api = policies.for_package(PACKAGES[request.param])
    with tf_lso.install():
        yield api
        api.set_global_policy(None)


@pytest.fixture
def keras(api):
    """The module of the Keras for which `api` is."""
    return api._keras


class TestTheExperimentalPolicy:
    @pytest.mark.parametrize(
        ("loss_scale", "expected_class", "value"),
        [
            (8, FixedLossScale, 8.0),
            ("USE_DEFAULT", DynamicLossScale, 2.0**15),
            (DynamicLossScale(8, 3, 4), DynamicLossScale, 8.0),
        ],
    )
    def test_accepts_every_kind_of_loss_scale(
        self, api, loss_scale, expected_class, value
    ):
        policy = api.ExperimentalPolicy("mixed_float16", loss_scale=loss_scale)
        assert type(policy.loss_scale) is expected_class
        assert float(policy.loss_scale()) == value
        assert "%g" % policy.loss_scale == f"{value:g}"  # noqa: UP031  old programs do this
        if isinstance(loss_scale, DynamicLossScale):
            assert policy.loss_scale is loss_scale
        config = json.loads(json.dumps(policy.get_config()))
        assert ("loss_scale" in config) == (loss_scale != "USE_DEFAULT")
        copied = type(policy).from_config(config)
        assert repr(copied) == repr(policy)
        if copied == policy:  # Keras 3 compares policies by their names
            assert hash(copied) == hash(policy)

    def test_accepts_none(self, api):
        policy = api.ExperimentalPolicy("mixed_float16", loss_scale=None)
        assert policy.loss_scale is None
        assert policy.get_config() == {"name": "mixed_float16", "loss_scale": None}
        assert type(policy).from_config(policy.get_config()).loss_scale is None

    def test_from_config_finds_a_loss_scale_among_the_custom_objects(self, api):
        class Own(DynamicLossScale):
            """A loss scale that the program defines."""

            @classmethod
            def from_config(cls, config):
                return cls(config.pop("initial_loss_scale"))

        config = api.ExperimentalPolicy("mixed_float16", Own(4)).get_config()
        before = json.dumps(config)
        copied = api.ExperimentalPolicy.from_config(config, {"Own": Own})
        assert json.dumps(config) == before
        assert type(copied.loss_scale) is Own
        assert float(copied.loss_scale()) == 4.0

    @pytest.mark.parametrize(
        ("name", "warns"),
        [("mixed_float16", False), ("float16", False), ("mixed_bfloat16", True)],
    )
    def test_warns_of_a_loss_scale_without_use(
        self, api, name, warns, monkeypatch, caplog
    ):
        monkeypatch.setattr(policies.experimental, "_once", log.Once())
        api.ExperimentalPolicy(name, loss_scale=8)
        assert ("A loss scale is useful only" in caplog.text) == warns


@pytest.mark.parametrize("name", ["set_policy", "experimental_global_policy"])
def test_a_function_can_be_pickled(name):
    function = getattr(policies, name)
    assert pickle.loads(pickle.dumps(function)) is function


class TestTheGlobalPolicy:
    @pytest.mark.parametrize("unset", [None, "infer", "_infer"])
    def test_may_be_unset(self, api, unset):
        api.set_policy("mixed_float16")
        api.set_policy(unset)
        assert api.global_policy().name == "float32"

    def test_is_that_of_floatx_if_it_is_unset(self, api, keras):
        keras.backend.set_floatx("float64")
        try:
            api.set_global_policy(None)
        finally:
            keras.backend.set_floatx("float32")
        assert api.global_policy().name == "float64"

    @pytest.mark.parametrize("is_name", [True, False], ids=["name", "policy"])
    def test_may_be_infer_with_tf_keras(self, is_name):
        """As in TensorFlow 2.3-2.15: layers compute in the dtype of their first input."""
        api = policies.for_package(PACKAGES["keras2"])
        try:
            api.set_global_policy("_infer" if is_name else api.Policy("_infer"))
            assert api.global_policy().name == "_infer"
            assert api.experimental_global_policy().loss_scale is None
            layer = keras2.layers.Dense(1)
            assert layer(tf.ones([1, 2], tf.float64)).dtype == tf.float64
            assert api.get_layer_policy(layer).compute_dtype == "float64"
        finally:
            api.set_global_policy(None)

    @pytest.mark.parametrize(
        ("setter", "policy", "error"),
        [
            ("set_policy", "bogus", ValueError),
            ("set_policy", tf.float16, TypeError),
            ("set_global_policy", 3, TypeError),
            ("set_global_policy", "int32", ValueError),
        ],
    )
    def test_stays_the_same_if_a_policy_is_refused(self, api, setter, policy, error):
        api.set_global_policy("float64")
        with pytest.raises(error):
            getattr(api, setter)(policy)
        assert api.global_policy().name == "float64"


def test_a_layer_accepts_a_policy_as_dtype(keras, api):
    policy = api.ExperimentalPolicy("mixed_bfloat16")
    layer = keras.layers.Dense(2, dtype=policy)
    assert layer.compute_dtype == "bfloat16"
    assert api.get_layer_policy(layer) is policy
    copied = type(layer).from_config(layer.get_config())
    assert copied.compute_dtype == "bfloat16"
    assert api.get_layer_policy(copied).name == "mixed_bfloat16"
    with pytest.raises(ValueError, match="needs a layer"):
        api.get_layer_policy(policy)


@needs_keras3
def test_the_policy_of_a_quantized_layer_is_that_of_keras():
    """Keras 3 has policies that no name of the experimental Policy describes."""
    if not hasattr(keras3, "dtype_policies"):
        pytest.skip("this Keras has no quantized policies")
    layer = keras3.layers.Dense(1, dtype=keras3.dtype_policies.get("int8_from_float32"))
    api = policies.for_package(PACKAGES["keras3"])
    assert api.get_layer_policy(layer) is layer.dtype_policy


def compiled_model(keras, optimizer):
    """Return a compiled model with the global policy and a float32 output."""
    output = keras.layers.Activation("linear", dtype="float32")
    model = keras.Sequential([keras.layers.Dense(1), output])
    model.compile(optimizer, loss="mse")
    return model


class TestCompile:
    def test_uses_the_policy_of_the_model_and_not_a_later_one(
        self, keras, api, monkeypatch, caplog
    ):
        monkeypatch.setattr(policies.api, "_once", log.Once())
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=4))
        model = keras.Sequential([keras.layers.Dense(1)])
        api.set_policy(None)
        model.compile("sgd", "mse")
        assert float(model.optimizer.loss_scale) == 4.0
        assert "ignores the loss scale" not in caplog.text


class TestWithoutInstall:
    """Without `tf_lso.install()`, `compile` wraps an optimizer with Keras's own class."""

    @pytest.fixture
    def api(self, family, monkeypatch):
        monkeypatch.setattr(policies.api, "_once", log.Once())
        api = policies.for_package(PACKAGES[family])
        yield api
        api.set_global_policy(None)

    def test_never_wraps_twice(self, api, family):
        api.set_policy("mixed_float16")
        mine = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1))
        assert compiled_model(api._keras, mine).optimizer is mine
        model = compiled_model(api._keras, FAMILIES[family].SGD(0.1))
        assert wrapping.validation.scales_the_loss(model.optimizer)
        assert not isinstance(model.optimizer, tf_lso.LossScaleOptimizer)

    def test_warns_of_a_loss_scale_that_keras_ignores(self, api, caplog):
        api.set_policy("mixed_float16")
        api.set_policy(api.ExperimentalPolicy("mixed_float16"))
        assert "install()" not in caplog.text
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=128))
        assert "Keras ignores the loss scale of the policy" in caplog.text
        assert "tf_lso.install()" in caplog.text


class TestTheDeviceCheck:
    @pytest.fixture(autouse=True)
    def log_again(self, monkeypatch):
        """Let each test log the warning, which a process logs only once."""
        monkeypatch.setattr(policies.api, "_once", log.Once())

    def test_warns_once(self, caplog):
        for name in ("mixed_float16", "mixed_float16", "float32"):
            policies.log_device_compatibility_check(name)
        assert caplog.text.count("may run slowly") == 1

    @pytest.mark.parametrize(
        ("details", "warns"),
        [
            ({"compute_capability": (6, 1)}, True),
            ({"compute_capability": (7, 0)}, False),
            ({}, False),  # a GPU of another maker
        ],
    )
    def test_warns_of_slow_gpus(self, details, warns, monkeypatch, caplog):
        """Call the function as on a machine whose second GPU has these details."""
        gpus = {"first": {"compute_capability": (8, 0)}, "second": details}
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(gpus))
        monkeypatch.setattr(tf.config.experimental, "get_device_details", gpus.get)
        policies.log_device_compatibility_check("mixed_float16")
        assert ("may run slowly" in caplog.text) == warns

    @pytest.mark.parametrize(
        "call", ["set_policy", "set_global_policy", "ExperimentalPolicy"]
    )
    def test_leaves_the_warning_to_keras_2(self, api, keras, call, monkeypatch, caplog):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda *kind: [])
        getattr(api, call)("mixed_float16")
        is_keras2 = keras_versions.is_keras2(keras_versions.package_of(keras))
        assert ("may run slowly, because" in caplog.text) is not is_keras2
