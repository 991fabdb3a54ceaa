"""Dtype policies of TensorFlow 2.0-2.15, for Keras 3 and tf_keras.

What each version did with them is recorded: `tests/golden/test_sections.py` compares it.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, GENERATIONS, PACKAGES, keras2
from tf_lso import policies
from tf_lso.frameworks import log
from tf_lso.optimizers import wrapping
from tf_lso.scaling.loss_scale import DynamicLossScale, FixedLossScale


@pytest.fixture(params=GENERATIONS)
def api(request):
    """The policies of one Keras; the global one is put back."""
    api = policies.for_package(PACKAGES[request.param])
    with tf_lso.install():
        yield api
        api.set_global_policy(None)


@pytest.fixture
def keras_(api):
    return api._keras


class TestTheExperimentalPolicy:
    @pytest.mark.parametrize(
        ("given", "kind", "value"),
        [
            (8, FixedLossScale, 8.0),
            (1024.0, FixedLossScale, 1024.0),
            ("dynamic", DynamicLossScale, 2.0**15),
            ("USE_DEFAULT", DynamicLossScale, 2.0**15),
            (DynamicLossScale(8, 3, 4), DynamicLossScale, 8.0),
        ],
    )
    def test_takes_every_kind_of_loss_scale(self, api, given, kind, value):
        policy = api.ExperimentalPolicy("mixed_float16", loss_scale=given)
        assert type(policy.loss_scale) is kind
        assert float(policy.loss_scale()) == value
        assert "%g" % policy.loss_scale == f"{value:g}"  # noqa: UP031  as of old
        if isinstance(given, DynamicLossScale):
            assert policy.loss_scale is given
        again = type(policy).from_config(json.loads(json.dumps(policy.get_config())))
        assert repr(again) == repr(policy)
        if again == policy:  # Keras 3 compares by names
            assert hash(again) == hash(policy)

    def test_takes_none(self, api):
        policy = api.ExperimentalPolicy("mixed_float16", loss_scale=None)
        assert policy.loss_scale is None
        assert policy.get_config() == {"name": "mixed_float16", "loss_scale": None}
        assert type(policy).from_config(policy.get_config()).loss_scale is None

    def test_from_config_changes_no_input(self, api):
        policy = api.ExperimentalPolicy("mixed_float16", DynamicLossScale(4))
        config = policy.get_config()
        before = json.dumps(config)
        api.ExperimentalPolicy.from_config(config)
        assert json.dumps(config) == before

    def test_refuses_what_is_no_loss_scale(self, api):
        with pytest.raises(ValueError, match=r"\[8\]"):
            api.ExperimentalPolicy("mixed_float16", [8])


class TestTheGlobalPolicy:
    @pytest.mark.parametrize("unset", [None, "infer", "_infer"])
    def test_may_be_unset(self, api, unset):
        api.set_policy("mixed_float16")
        api.set_policy(unset)
        assert api.global_policy().name == "float32"

    @pytest.mark.parametrize(
        "setter", ["set_global_policy", "set_global_policy_object"]
    )
    def test_may_be_infer_on_tf_keras(self, setter):
        """As in TensorFlow 2.3-2.15: layers compute in the dtype of their first input."""
        api = policies.for_package(PACKAGES["keras2"])
        try:
            of_name = setter == "set_global_policy"
            api.set_global_policy("_infer" if of_name else api.Policy("_infer"))
            assert api.global_policy().name == "_infer"
            assert api.experimental_global_policy().loss_scale is None
            layer = keras2.layers.Dense(1)
            assert layer(tf.ones([1, 2], tf.float64)).dtype == tf.float64
            assert api.get_layer_policy(layer).compute_dtype == "float64"
            model = keras2.Sequential([keras2.layers.Dense(1)])
            model.compile("sgd", "mse")
            model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0)
            assert not isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
        finally:
            api.set_global_policy(None)

    @pytest.mark.parametrize(
        ("policy", "error"),
        [
            ("bogus", ValueError),
            (3, TypeError),
            (tf.float16, TypeError),
            ("int32", ValueError),
        ],
    )
    @pytest.mark.parametrize("setter", ["set_policy", "set_global_policy"])
    def test_stays_when_another_is_refused(self, api, setter, policy, error):
        api.set_global_policy("float64")
        with pytest.raises(error):
            getattr(api, setter)(policy)
        assert api.global_policy().name == "float64"


def test_a_layer_takes_a_policy_as_dtype(keras_, api):
    policy = api.ExperimentalPolicy("mixed_bfloat16")
    layer = keras_.layers.Dense(2, dtype=policy)
    assert api.get_layer_policy(layer) is policy
    again = type(layer).from_config(layer.get_config())
    assert layer.compute_dtype == again.compute_dtype == "bfloat16"
    assert api.get_layer_policy(again).name == "mixed_bfloat16"


def compiled(keras_, optimizer="sgd", **kwargs):
    last = keras_.layers.Activation("linear", dtype="float32")
    model = keras_.Sequential([keras_.layers.Dense(1), last])
    model.compile(optimizer, loss="mse", **kwargs)
    return model


class TestCompile:
    def test_wraps_once_by_the_policys_loss_scale(self, keras_, api):
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=16))
        inner = keras_.optimizers.SGD(0.1)
        model = compiled(keras_, inner)
        optimizer = model.optimizer
        assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
        assert optimizer.inner_optimizer is inner
        assert optimizer.loss_scale is api.global_policy().loss_scale
        model.compile(optimizer, loss="mse")
        assert model.optimizer is optimizer
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
        assert int(np.asarray(optimizer.iterations)) == 1

    def test_goes_by_the_models_policy_and_not_by_a_later_one(self, keras_, api):
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=4))
        model = keras_.Sequential([keras_.layers.Dense(1)])
        api.set_policy(None)
        model.compile("sgd", "mse")
        assert float(model.optimizer.loss_scale) == 4.0

    def test_tells_of_another_scale(self, keras_, api, caplog, monkeypatch):
        monkeypatch.setattr(wrapping, "_once", log.Once())
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=4))
        mine = tf_lso.LossScaleOptimizer(keras_.optimizers.SGD(), initial_scale=64)
        assert compiled(keras_, mine).optimizer is mine
        assert "FixedLossScale(4.0)" in caplog.text

    def test_leaves_the_familys_own_wrapper(self, keras_, api):
        own = keras_.mixed_precision.LossScaleOptimizer(keras_.optimizers.SGD())
        api.set_global_policy("mixed_float16")
        assert compiled(keras_, own).optimizer is own


class TestWithoutInstall:
    """No policy changes Keras: `compile` wraps by Keras's own class."""

    @pytest.fixture
    def api(self, family, monkeypatch):
        monkeypatch.setattr(policies.api, "_once", log.Once())
        api = policies.for_package(PACKAGES[family])
        yield api
        api.set_global_policy(None)

    def test_never_wraps_twice(self, api, family):
        api.set_policy("mixed_float16")
        mine = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1))
        assert compiled(api._keras, mine).optimizer is mine
        model = compiled(api._keras, FAMILIES[family].SGD(0.1))
        assert wrapping.validation.scales_the_loss(model.optimizer)
        assert not isinstance(model.optimizer, tf_lso.LossScaleOptimizer)

    def test_tells_of_a_loss_scale_that_keras_ignores(self, api, caplog):
        api.set_policy("mixed_float16")
        api.set_policy(api.ExperimentalPolicy("mixed_float16"))
        assert "install()" not in caplog.text
        api.set_policy(api.ExperimentalPolicy("mixed_float16", loss_scale=128))
        assert "does not use the loss scale of the policy" in caplog.text
        assert "tf_lso.install()" in caplog.text


class TestTheDeviceCheck:
    @pytest.fixture(autouse=True)
    def anew(self, monkeypatch):
        monkeypatch.setattr(policies.api, "_once", log.Once())

    def test_tells_once(self, caplog):
        for name in ("mixed_float16", "mixed_float16", "float32"):
            policies.log_device_compatibility_check(name)
        assert caplog.text.count("may run slowly") == 1

    @pytest.mark.parametrize(("capability", "told"), [((7, 5), False), ((6, 1), True)])
    def test_looks_at_the_gpus(self, monkeypatch, caplog, capability, told):
        details = {"compute_capability": capability}
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
        in_details = tf.config.experimental
        monkeypatch.setattr(in_details, "get_device_details", lambda gpu: details)
        policies.log_device_compatibility_check("mixed_float16")
        assert (str(capability) in caplog.text) == bool(caplog.text) == told
