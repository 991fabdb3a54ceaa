"""Replay the graph rewrite to float16, and the loss-scaled optimizers of `tf.compat.v1`."""

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, PACKAGES, here
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import INF, NAN, attempt, equal, without
from tests.golden.harness import apply
from tests.golden.test_policies import LOSS_SCALES, loss_scale_argument
from tf_lso import policies

V1 = tf.compat.v1.train
Wrapper = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer

# The modules that contain `enable_mixed_precision_graph_rewrite`.
_MODULES = {"v1": tf_lso.compat.v1.mixed_precision, "v2": tf_lso.train.experimental}

_OPTIMIZERS = {
    "keras_SGD": lambda sgd: sgd(0.1),
    "keras_new_SGD": lambda sgd: FAMILIES["new"].SGD(0.1),
    "clipnorm": lambda sgd: sgd(0.1, clipnorm=1.0),
    "v1_GD": lambda sgd: V1.GradientDescentOptimizer(0.1),
    "lso": lambda sgd: tf_lso.LossScaleOptimizer(sgd(0.1)),
    "str": lambda sgd: "sgd",
}

# Two finite steps, three skipped steps, and three finite steps.
GRADIENTS = (0.5, 0.5, INF, NAN, INF, 0.5, 0.5, 0.5)


# --- MixedPrecisionLossScaleOptimizer of tf.compat.v1. The names of its cases begin with
# "MPLSO".


def _eager(inner):
    scale = tf_lso.DynamicLossScale(4.0, 2)
    optimizer, variable = Wrapper(inner, scale), tf.Variable(1.0, name="v")
    rows = []
    for gradient in GRADIENTS:
        apply(optimizer, gradient, variable)
        counter = dict(scale.named_variables())["good_steps"]
        rows.append([float(variable), float(scale()), int(counter), None])
    return rows


def _graph(inner):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        scale = tf_lso.DynamicLossScale(4.0, 2)
        optimizer = Wrapper(inner, scale)
        variable = tf.compat.v1.get_variable("v", initializer=1.0, use_resource=True)
        step = V1.get_or_create_global_step()
        fed_gradient = tf.compat.v1.placeholder(tf.float32, [])
        pairs = [(fed_gradient, variable)]
        train = optimizer.apply_gradients(pairs, global_step=step)
        names = sorted(v.name for v in tf.compat.v1.global_variables())
        session.run(tf.compat.v1.global_variables_initializer())
        counter = dict(scale.named_variables())["good_steps"]
        rows = []
        for gradient in GRADIENTS:
            session.run(train, {fed_gradient: gradient})
            values = session.run([variable, scale(), counter, step])
            rows.append([np.asarray(value).item() for value in values])
    return {
        "rows": rows,
        "slot_names": optimizer.get_slot_names(),
        "train_op": train.type,
        "vars": names,
    }


def _compute_gradients(inner):
    variable = tf.Variable(1.0)
    return Wrapper(inner, 8).compute_gradients(lambda: 2.0 * variable, [variable])


def _wrapper(case, family):
    words = case.split()
    if len(words) == 3:  # such as "MPLSO eager AdamOptimizer"
        _, mode, name = words
        momentum = [0.9] if name == "MomentumOptimizer" else []
        inner = getattr(V1, name)(0.1, *momentum)
        return {"eager": _eager, "graph": _graph}[mode](inner)
    inner = V1.GradientDescentOptimizer(0.1)
    calls = {
        "MPLSO compute_gradients": lambda: _compute_gradients(inner),
        "MPLSO methods": lambda: [n for n in dir(Wrapper(inner, 8)) if n[0] != "_"],
        "MPLSO(MPLSO)": lambda: type(Wrapper(Wrapper(inner, 8), 8)).__name__,
        "MPLSO(None)": lambda: Wrapper(None, 8),
        "MPLSO(keras)": lambda: Wrapper(FAMILIES[family].SGD(0.1), 8),
    }
    if case in calls:
        return calls[case]()
    (key,) = re.fullmatch(r"MPLSO\(GradientDescent,(.+)\)", case).groups()
    Wrapper(inner, LOSS_SCALES[key]() if key in LOSS_SCALES else key)
    return {}


# --- The functions that enable and disable the graph rewrite.


def _enable_with_arguments(module, case, family):
    optimizer, loss_scale = re.fullmatch(r"enable_v\d\((\w+),(.+)\)", case).groups()
    wrapped = module.enable_mixed_precision_graph_rewrite(
        _OPTIMIZERS[optimizer](FAMILIES[family].SGD), **loss_scale_argument(loss_scale)
    )
    value = getattr(wrapped, "loss_scale", None)
    return {
        "type": type(wrapped).__name__,
        "loss_scale": None if value is None else float(value),
    }


def _enable_or_disable(name, module, api, family):
    """Make the calls that a case names, and return the result of the last call."""

    def enable():
        module.enable_mixed_precision_graph_rewrite(FAMILIES[family].SGD(0.1))

    def set_policy():
        api.set_global_policy("mixed_float16")

    disable = module.disable_mixed_precision_graph_rewrite
    calls = {
        "options_after_enable": [enable, _options],
        "options_after_disable": [enable, disable, _options],
        "disable": [enable, disable],
        "disable_twice": [enable, disable, disable],
        "enable_after_mixed_policy": [set_policy, lambda: dict(attempt(enable))],
        "policy_after_enable": [enable, set_policy],
        "reset_policy": [lambda: api.set_global_policy(None)],
    }
    return [call() for call in calls[name]][-1]


def _options():
    options = tf.config.optimizer.get_experimental_options()
    names = ("auto_mixed_precision", "disable_meta_optimizer", "disable_model_pruning")
    return {name: options.get(name, False) for name in names}


@contextlib.contextmanager
def _restored(api):
    """Disable the graph rewrite and reset the global policy when the `with` block ends."""
    try:
        yield
    finally:
        if tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled():
            _MODULES["v1"].disable_mixed_precision_graph_rewrite()
        api.set_global_policy(None)


def replay(generation, family, case):
    name, api = case["case"], policies.for_package(PACKAGES[family])
    with _restored(api):
        if name.startswith("MPLSO"):
            return _wrapper(name, family)
        if "(" in name:  # such as "enable_v2(keras_SGD,dynamic)"
            version = name.removeprefix("enable_").partition("(")[0]
            return _enable_with_arguments(_MODULES[version], name, family)
        name, _, version = name.rpartition("_")
        return _enable_or_disable(name, _MODULES[version], api, family)


def same(actual, expected, case, family):
    # The wrapper of tf_lso has another base class.
    return equal(actual, without(expected, "mro", "repr"))


SECTION = Section(
    "training",
    "graph_rewrite",
    replay,
    same,
    families={None: here("legacy", "keras3")},
    differs=[
        # Wrapping a wrapper, or one optimizer twice.
        where(case="MPLSO(MPLSO)", raises="ValueError"),
        where(case=["enable_v2(lso,8)", "enable_v2(lso,default)"], raises="ValueError"),
        # The graph rewrite with one of the newer optimizers.
        where(
            case="enable_v1(keras_new_SGD,8)",
            gives={"type": "LossScaleOptimizer", "loss_scale": 8.0},
        ),
        where(
            case="enable_v1(keras_new_SGD,default)",
            gives={"type": "LossScaleOptimizer", "loss_scale": 32768.0},
        ),
    ],
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
