"""Replay how programs read and set the attributes of a loss-scaled optimizer."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.families import KERASES, raw
from tests.golden import harness
from tests.golden.comparing import V2_OF_2_15, Section, check_all, grouped, where
from tests.golden.encoding import ANYTHING, attempt, encode, equal
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
    return {
        "K.optimizers.Optimizer": isinstance(
            optimizer, KERASES[family].optimizers.Optimizer
        ),
        "LSO": isinstance(optimizer, CLASSES["stable"]),
        "XLSO": isinstance(optimizer, CLASSES["experimental"]),
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
        # The old versions left out the loss scale and its counter.
        "get_weights": lambda: [w.tolist() for w in optimizer.get_weights()[:-2]],
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


# The other families' Adam rounds differently from that of OptimizerV2.
_OTHER_FAMILY_TOLERANCE = {"rtol": 1e-6, "atol": 1e-5}
# In these cases, tf_lso may have what a version lacked.
_READ = ("get", "weights", "dir")


def same(actual, expected, case, family):
    if case["case"] in _READ and expected.get("error") == "AttributeError":
        return True
    if case["case"] == "dir":
        # On Keras 3 the method exists, but `dir` does not show it.
        hidden = {"get_slot_names"} if family == "keras3" else set()
        return set(expected["ok"]) - hidden <= set(actual["ok"])
    if case["case"] == "isinstance":  # None means that the version had no such class
        recorded = expected["ok"]
        known = {name: value for name, value in recorded.items() if value is not None}
        return known.items() <= actual["ok"].items()
    if family == "legacy":
        return equal(actual, expected, harness.KERNEL_TOLERANCE)
    return equal(_as_numbers(actual), _as_numbers(expected), _OTHER_FAMILY_TOLERANCE)


def _as_numbers(value):
    """Replace scalar tensors by their numbers. Keras 3 keeps hyperparameters as numbers."""
    if isinstance(value, dict):
        if value.get("shape") == []:
            return value["v"]
        return {name: _as_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_numbers(element) for element in value]
    return value


def _marks(case, family):
    return [pytest.mark.slow] if case["inner"] == "Adam" else []


SECTION = Section(
    "behaviour",
    "hyperparameters",
    replay,
    same,
    marks=_marks,
    differs=[
        # `get_weights`, `set_weights`.
        where(
            attribute="set_weights_to_3",
            family="v2",
            changes={"counter": 3, "loss_scale": 3.0},
        ),
        # Names and order of the optimizer's variables, which are those of the inner optimizer.
        where(
            attribute="before", on="keras3", gives=[encode(tf.constant(0, tf.int64))]
        ),
        where(attribute="variables", case="weights", on="keras3", gives=ANYTHING),
        where(
            attribute="weights",
            case="weights",
            on="keras3",
            changes={"* > 0": ANYTHING},
        ),
        where(attribute="weights", case="set", family="new", raises="AttributeError"),
        # Hyperparameters.
        where(attribute="decay", case="set", on=["keras3", "new"], raises="ValueError"),
        where(
            attribute=["clipnorm", "clipvalue", "global_clipnorm"],
            case="set",
            on="new",
            like=V2_OF_2_15,
        ),
        where(
            attribute="momentum",
            case="set",
            inner="SGD",
            on="new",
            changes={"inner_get > ok": 0.25},
        ),
        where(
            attribute="beta_1",
            case="set",
            inner="Adam",
            on="new",
            changes={"inner_get > ok": 0.5, "step > ok": 0.9900000691413879},
        ),
        where(
            attribute="use_ema",
            case="set",
            on="keras3",
            changes={"inner_get": {"ok": True}},
        ),
        # Setting what the inner optimizer lacks, such as `decay` on Keras 3.
        where(attribute="use_ema", case="set", on="legacy", raises="AttributeError"),
        # `name`.
        where(
            attribute="name",
            case="set",
            on="keras3",
            changes={"inner_get": {"ok": ANYTHING}},
        ),
        # `opt.loss_scale` of the experimental optimizer.
        where(attribute="loss_scale", case="get", api="experimental", like="2.3.4"),
        # `opt.loss_scale = x`, as tests/optimizers/test_skipped.py shows.
        where(attribute="loss_scale", case="set", api="stable", gives=ANYTHING),
        # `isinstance(opt, tf.keras.optimizers.Optimizer)`.
        where(case="isinstance", api="stable", on="keras3", like="2.10.1"),
        where(
            case="isinstance",
            api="experimental",
            on="legacy",
            changes={"K.optimizers.Optimizer": False},
        ),
        # `opt.iterations = variable` after `opt.iterations` was read.
        where(
            case="iterations_set_after_access",
            on="keras3",
            gives=[encode(tf.constant(7, tf.int64))] * 2,
        ),
        # `opt.learning_rate` with a schedule, on Keras 3.
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
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
