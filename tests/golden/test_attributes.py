"""Replay how programs read and set the attributes of a loss-scaled optimizer."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.families import KERASES, raw
from tests.golden import harness
from tests.golden.comparing import Section, check_all, float32, grouped, int64, where
from tests.golden.encoding import ANYTHING, attempt, equal
from tests.golden.harness import CLASSES, apply, variables_of, wrapped

# Maps the name of each attribute to the value that the recorded program assigned to it.
VALUES = {
    "amsgrad": True,
    "beta_1": 0.5,
    "bogus": 1,
    "clipnorm": 0.125,
    "clipvalue": 0.125,
    "decay": 0.5,
    "dynamic": False,
    "dynamic_counter": 1,
    "dynamic_growth_steps": 7,
    "epsilon": 0.5,
    "global_clipnorm": 0.125,
    "initial_scale": 2.0,
    "inner_optimizer": None,
    "learning_rate": 0.5,
    "loss_scale": 2.0,
    "lr": 0.5,
    "momentum": 0.25,
    "name": "zz",
    "nesterov": True,
    "use_ema": True,
    "weights": [],
}


@functools.cache
def _read_all(api, family, inner, names):
    """Read these attributes from one optimizer in turn, and return {name: outcome}."""
    optimizer = wrapped(api, family, inner)
    return {name: attempt(lambda name=name: getattr(optimizer, name)) for name in names}


def _read(api, family, case):
    # The recorded program read all attributes from one optimizer, in this order. The order
    # matters, since the first read may create variables.
    same_program = harness.cases(
        "hyperparameters", "behaviour", api=case["api"], inner=case["inner"], case="get"
    )
    names = tuple(sorted(other["attribute"] for other, _ in same_program))
    return _read_all(api, family, case["inner"], names)[case["attribute"]]


def _set(api, family, case):
    name, optimizer = case["attribute"], wrapped(api, family, case["inner"])
    inner = optimizer._optimizer
    inner_name = "learning_rate" if (family, name) == ("keras3", "lr") else name
    setattr(optimizer, name, VALUES[name])
    return {
        "get": attempt(lambda: getattr(optimizer, name)),
        "inner_get": attempt(lambda: getattr(inner, inner_name)),
        "step": attempt(lambda: _step(optimizer, tf.Variable(1.0))),
    }


def _step(optimizer, variable):
    """Take a step with the gradient 1, and return the new value of the variable."""
    apply(optimizer, 1.0, variable)
    return float(variable.numpy())


def _dir(api, family, case):
    names = dir(wrapped(api, family, case["inner"]))
    return [name for name in names if not name.startswith("_")]


def _isinstance(api, family, case):
    optimizer = wrapped(api, family, case["inner"])
    keras_base = KERASES[family].optimizers.Optimizer
    is_tf_lso = api != "reference"
    wrapper = CLASSES["stable" if is_tf_lso else "reference"]
    is_experimental = isinstance(optimizer, CLASSES["experimental"])
    return {
        "K.optimizers.Optimizer": isinstance(optimizer, keras_base),
        "LSO": isinstance(optimizer, wrapper),
        "XLSO": is_experimental if is_tf_lso else None,
    }


# --- Cases about learning rate and iterations: functions of an optimizer and a variable.


def _lr_assign(optimizer, variable):
    _step(optimizer, variable)
    optimizer.lr.assign(0.25)
    return [_step(optimizer, variable), optimizer.learning_rate]


def _lr_change(optimizer, variable):
    values = [_step(optimizer, variable)]
    for name, rate in (("learning_rate", 0.0), ("lr", 1.0)):
        setattr(optimizer, name, rate)
        values.append(_step(optimizer, variable))
    return [*values, optimizer.lr, optimizer._optimizer.learning_rate]


def _iterations_assign(optimizer, variable):
    optimizer.iterations.assign(5)
    value = _step(optimizer, variable)
    return [optimizer.iterations, value]


def _iterations_set(optimizer, variable):
    optimizer.iterations = tf.Variable(7, dtype=tf.int64)
    return [optimizer.iterations, optimizer._optimizer.iterations]


def _iterations_set_after_access(optimizer, variable):
    assert int(optimizer.iterations.numpy()) == 0
    return _iterations_set(optimizer, variable)


def _lr_schedule(api, family, case):
    optimizer = wrapped(api, family, case["inner"], "schedule")

    def type_of(name):
        return attempt(lambda: getattr(optimizer, name).__class__.__name__)

    return {
        "callable_value": attempt(lambda: float(optimizer.learning_rate(5))),
        "learning_rate": type_of("learning_rate"),
        "lr": type_of("lr"),
    }


# --- Cases about weights, variables and slots. The recorded program made many calls on one
# optimizer, and each call is a case.


@functools.cache
def _weights_calls(api, family, inner):
    """Make all calls on one optimizer, and return {name of the call: outcome}."""
    optimizer = wrapped(api, family, inner)
    x, y = tf.Variable(1.0, name="x"), tf.Variable([1.0, 2.0], name="y")
    slot = {"SGD": "momentum", "Adam": "m"}[inner]
    outcomes = {"before": attempt(lambda: optimizer.weights)}
    optimizer.apply_gradients([(tf.constant(0.5), x), (tf.constant([0.5, 0.25]), y)])

    def set_weights_to_3():
        optimizer.set_weights([np.full_like(w, 3) for w in optimizer.get_weights()])
        slots = {
            name: [optimizer.get_slot(v, name).numpy().tolist() for v in (x, y)]
            for name in optimizer.get_slot_names()
        }
        values = [v.numpy().tolist() for v in (x, y)]
        return harness.counts(optimizer) | {"slots": slots, "vars": values}

    def is_slot_of_inner():
        found = optimizer.get_slot(x, slot)
        return any(found is variable for variable in variables_of(optimizer._optimizer))

    calls = {
        "weights": lambda: [[raw(v).name, v] for v in optimizer.weights],
        "variables": lambda: [
            [raw(v).name, np.asarray(v.numpy()).tolist()]
            for v in variables_of(optimizer)
        ],
        "variables_is_callable": lambda: callable(optimizer.variables),
        "loss_scale_in_weights": lambda: any(
            v.name.startswith("current_loss_scale") for v in optimizer.weights
        ),
        "get_weights": lambda: [w.tolist() for w in optimizer.get_weights()],
        "get_slot_names": lambda: optimizer.get_slot_names(),
        "set_weights_wrong_len": lambda: optimizer.set_weights([1.0]),
        "set_weights_to_3": set_weights_to_3,
        "get_slot": lambda: optimizer.get_slot(x, slot),
        "get_slot_bogus": lambda: optimizer.get_slot(x, "bogus"),
        "get_slot_same_object_as_inner": is_slot_of_inner,
        "add_slot": lambda: optimizer.add_slot(x, "added"),
        "add_slot_init": lambda: optimizer.add_slot(y, "ones", initializer="ones"),
        "add_weight": lambda: optimizer.add_weight("added", shape=()),
    }
    for name, call in calls.items():
        outcomes[name] = attempt(call)
    return outcomes


def _weights(api, family, case):
    return _weights_calls(api, family, case["inner"])[case["attribute"]]


_CASES = {
    "get": _read,
    "set": _set,
    "dir": _dir,
    "isinstance": _isinstance,
    "lr_schedule_get": _lr_schedule,
    "weights": _weights,
}
_CASES_WITH_VARIABLE = {
    "lr_assign": _lr_assign,
    "lr_change_mid_training": _lr_change,
    "iterations_assign": _iterations_assign,
    "iterations_set": _iterations_set,
    "iterations_set_after_access": _iterations_set_after_access,
}


def replay(api, family, case):
    name = case["case"]
    if name in _CASES:
        return _CASES[name](api, family, case)
    optimizer = wrapped(api, family, case["inner"])
    return _CASES_WITH_VARIABLE[name](optimizer, tf.Variable(1.0))


# Adam of Keras 3 rounds differently from Adam of OptimizerV2, see `test_trajectories.py`.
_OTHER_FAMILY_TOLERANCE = {"rtol": 1e-6, "atol": 1e-5}


def same(actual, expected, case, family):
    if case["case"] == "dir":  # tf_lso has more names
        # On Keras 3 the method exists, but `dir` does not show it.
        hidden = {"get_slot_names"} if family == "keras3" else set()
        return set(expected["ok"]) - hidden <= set(actual["ok"])
    if case["case"] == "isinstance":  # None means that the version had no such class
        recorded = expected["ok"]
        known = {name: value for name, value in recorded.items() if value is not None}
        return known.items() <= actual["ok"].items()
    is_legacy = family == "legacy"
    tolerance = harness.KERNEL_TOLERANCE if is_legacy else _OTHER_FAMILY_TOLERANCE
    return equal(actual, expected, tolerance)


# The result of this version for the family "v2", which has the methods of all families.
V2_OF_2_15 = {"version": "2.15.1", "family": "v2"}
# The families whose optimizers were not in TensorFlow 2.0.
LATER = ["keras3", "new"]
# tf_lso names variables as the inner optimizer does.
OTHER_NAMES = {"* > 0": ANYTHING}
# Row by row: the iterations, the slots or variables, the scale and the counter.
WEIGHTS_OF_SGD = [
    *(1, -0.05000000074505806, [-0.05000000074505806, -0.02500000037252903]),
    *(4.0, 1),
]
M, M_OF_Y = 0.05000000074505806, [0.05000000074505806, 0.02500000037252903]
V, V_OF_Y = 0.0002500000118743628, [0.0002500000118743628, 6.25000029685907e-05]
# OptimizerV2 rounded differently.
OLD_M, OLD_M_OF_Y = 0.050000011920928955, [0.050000011920928955, 0.025000005960464478]
OLD_V, OLD_V_OF_Y = (
    0.00024999678134918213,
    [0.00024999678134918213, 6.249919533729553e-05],
)

SECTIONS = [
    Section(
        "behaviour",
        "hyperparameters",
        replay,
        same,
        differs={
            "Methods": [
                where(
                    case="get",
                    attribute=["build", "get_slot_names"],
                    gives="<callable>",
                ),
                where(case="get", attribute="weights", family="new", like=V2_OF_2_15),
                where(
                    attribute=["add_slot", "add_slot_init", "add_weight", "get_slot"],
                    family="new",
                    like=V2_OF_2_15,
                ),
                where(attribute="before", on=LATER, gives=[int64(0)]),
                where(attribute="get_slot_bogus", family="new", raises="KeyError: "),
                where(
                    case="weights",
                    attribute="get_slot_names",
                    inner="SGD",
                    gives=["momentum"],
                ),
                where(
                    case="weights",
                    attribute="get_slot_names",
                    inner="Adam",
                    gives=["m", "v"],
                ),
                where(attribute="get_slot_same_object_as_inner", gives=True),
                where(attribute="loss_scale_in_weights", gives=False),
            ],
            "`get_weights`, `set_weights`": [
                where(attribute="get_weights", inner="SGD", gives=WEIGHTS_OF_SGD),
                where(
                    attribute="get_weights",
                    inner="Adam",
                    on="legacy",
                    gives=[1, OLD_M, OLD_M_OF_Y, OLD_V, OLD_V_OF_Y, 4.0, 1],
                ),
                where(
                    attribute="get_weights",
                    inner="Adam",
                    on="keras3",
                    gives=[1, M, M_OF_Y, V, V_OF_Y, 4.0, 1],
                ),
                where(
                    attribute="get_weights",
                    inner="Adam",
                    on="new",
                    gives=[1, M, V, M_OF_Y, V_OF_Y, 4.0, 1],
                ),
                where(
                    attribute="set_weights_to_3",
                    family="v2",
                    changes={"counter": 3, "loss_scale": 3.0},
                ),
                where(
                    attribute="set_weights_to_3",
                    family="new",
                    like=V2_OF_2_15,
                    changes={"counter": 3, "loss_scale": 3.0},
                ),
            ],
            "Names and order of the optimizer's variables": [
                where(
                    case="weights", attribute="variables", on="keras3", gives=ANYTHING
                ),
                where(
                    case="weights",
                    attribute="weights",
                    family="v2",
                    on="keras3",
                    changes=OTHER_NAMES,
                ),
                where(
                    case="weights",
                    attribute="weights",
                    family="new",
                    on="keras3",
                    like=V2_OF_2_15,
                    changes=OTHER_NAMES,
                ),
                where(
                    case="weights",
                    attribute="weights",
                    inner="SGD",
                    on="new",
                    like=V2_OF_2_15,
                    changes=OTHER_NAMES,
                ),
                where(
                    case="weights",
                    attribute="weights",
                    inner="Adam",
                    on="new",
                    like=V2_OF_2_15,
                    changes={
                        **OTHER_NAMES,
                        "2 > 1 > shape": [],
                        "2 > 1 > v": OLD_V,
                        "3 > 1 > shape": [2],
                        "3 > 1 > v": OLD_M_OF_Y,
                    },
                ),
                where(
                    case="set",
                    attribute="weights",
                    family="new",
                    raises="AttributeError: weights",
                ),
            ],
            "Hyperparameters": [
                where(case="get", attribute="decay", on=LATER, gives=0.0),
                where(
                    case="get", attribute="momentum", inner="SGD", on=LATER, gives=0.9
                ),
                where(
                    case="get", attribute="beta_1", inner="Adam", on=LATER, gives=0.9
                ),
                where(attribute="beta_2", inner="Adam", on=LATER, gives=0.999),
                where(attribute="jit_compile", on="new", gives=False),
                where(
                    case="get",
                    attribute=["clipnorm", "clipvalue", "global_clipnorm"],
                    on=LATER,
                    gives=None,
                ),
                where(attribute="weight_decay", on=LATER, gives=None),
                where(attribute="ema_momentum", on="keras3", gives=0.99),
                where(case="get", attribute="use_ema", on="keras3", gives=False),
                where(
                    case="set",
                    attribute="decay",
                    on=LATER,
                    raises="ValueError: 'decay' cannot be set to 0.5",
                ),
                where(
                    case="set",
                    attribute="momentum",
                    inner="SGD",
                    on=LATER,
                    changes={"get": {"ok": 0.25}, "inner_get": {"ok": 0.25}},
                ),
                where(
                    case="set",
                    attribute="beta_1",
                    inner="Adam",
                    on=LATER,
                    gives={
                        "get": {"ok": 0.5},
                        "inner_get": {"ok": 0.5},
                        "step": {"ok": 0.9900000691413879},
                    },
                ),
                where(
                    case="set",
                    attribute="use_ema",
                    on="keras3",
                    changes={"inner_get": {"ok": True}},
                ),
                where(
                    case="set",
                    attribute=["clipnorm", "clipvalue", "global_clipnorm"],
                    family="new",
                    like=V2_OF_2_15,
                ),
            ],
            "Setting what the inner optimizer lacks, such as `decay` on Keras 3": [
                where(
                    case="set",
                    attribute="use_ema",
                    on="legacy",
                    raises="AttributeError: 'use_ema'",
                ),
            ],
            "`name`": [
                where(case="get", attribute="name", on="keras3", gives=ANYTHING),
                where(
                    case="set",
                    attribute="name",
                    on="keras3",
                    changes={"inner_get": {"ok": ANYTHING}},
                ),
                *(
                    where(
                        case="get",
                        attribute="name",
                        inner=inner,
                        on=["legacy", "new"],
                        gives=inner,
                    )
                    for inner in ("SGD", "Adam")
                ),
            ],
            "`opt.loss_scale` of the experimental optimizer": [
                where(
                    case="get", attribute="loss_scale", api="experimental", like="2.3.4"
                ),
            ],
            "`opt.loss_scale = x`": [
                where(
                    case="set",
                    attribute="loss_scale",
                    api="stable",
                    gives={
                        "get": {"ok": float32(2.0)},
                        "inner_get": {"error": "AttributeError"},
                        "step": {"ok": ANYTHING},
                    },
                ),
            ],
            "`isinstance(opt, tf.keras.optimizers.Optimizer)`": [
                where(
                    case="isinstance",
                    api="stable",
                    family="v2",
                    on="keras3",
                    like="2.10.1",
                ),
                where(
                    case="isinstance",
                    api="experimental",
                    on="legacy",
                    changes={"K.optimizers.Optimizer": False},
                ),
            ],
            "`opt.iterations = variable` after `opt.iterations` was read": [
                where(
                    case="iterations_set_after_access",
                    family="v2",
                    on="keras3",
                    gives=[int64(7), int64(7)],
                ),
            ],
            "`opt.learning_rate` with a schedule, on Keras 3": [
                where(
                    case="lr_schedule_get",
                    on="keras3",
                    gives={
                        "callable_value": {"error": "TypeError"},
                        "learning_rate": {"ok": "EagerTensor"},
                        "lr": {"ok": "EagerTensor"},
                    },
                ),
            ],
        },
    )
]


@pytest.mark.parametrize("replays", grouped(SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)
