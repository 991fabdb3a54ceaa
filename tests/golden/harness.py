"""Read the recorded cases, and make the optimizers of the recorded programs.

The record contains no arguments of the recorded optimizers, such as learning rates. This module
contains them.

A replay is a function of (api, family, case) that returns a result in the form of the record.
`api` is a key of `CLASSES`, `family` is a key of `tests.families.FAMILIES`, and `case` is the
dict of names that the record has for the case.
"""

import functools
import gzip
import json
import pathlib
import platform

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families
from tests.families import FAMILIES, KERASES
from tests.golden.encoding import EXACT, TOLERANCE, decode
from tf_lso.keras.mixed_precision import experimental

RECORDS = pathlib.Path(__file__).parent / "record"

# All recorded versions, from the oldest to the newest.
VERSIONS = [
    *("2.1.4", "2.3.4", "2.4.4", "2.8.4", "2.9.3", "2.10.1", "2.11.1", "2.15.1"),
    "2.21-tf_keras",
]
# Results are equal to the last bit if the kernels and the kind of processor are those of the
# record of tf_keras 2.21.
_IS_X86 = platform.machine() in ("x86_64", "AMD64")
SAME_KERNELS = _IS_X86 and tf.__version__.startswith("2.21.")
KERNEL_TOLERANCE = EXACT if SAME_KERNELS else TOLERANCE


@functools.cache
def record(file="golden"):
    """Return the content of a file of the record as a dict, see `record/README.md`."""
    content = gzip.decompress((RECORDS / f"{file}.json.gz").read_bytes())
    return decode(json.loads(content))


def cases(section, file="golden", **names):
    """Return (case, results) for each case of a section that has these names.

    For example, `cases("trajectories", api="stable")` returns the cases of the stable class.
    """
    return [
        (entry["case"], entry["results"])
        for entry in record(file)["sections"][section]
        if all(entry["case"].get(name) == value for name, value in names.items())
    ]


def result_of(results, version):
    """Return the result of a version, or None if the case was not recorded for the version.

    If `version` is None, return the result of the newest version in `results`.
    """
    recorded = {
        version: entry["result"] for entry in results for version in entry["versions"]
    }
    return recorded.get(version or max(recorded, key=VERSIONS.index))


# --- Optimizers.

# Maps an api to the class of the wrapper.
CLASSES = {
    "stable": tf_lso.LossScaleOptimizer,
    "experimental": experimental.LossScaleOptimizer,
}

_BASE_ARGUMENTS = {
    "SGD": {"learning_rate": 0.1, "momentum": 0.9},
    "Adam": {"learning_rate": 0.01},
    "RMSprop": {"learning_rate": 0.01},
}

# Maps a case of the section `schedules_and_clipping` to the arguments of the inner optimizer
# that this case adds to `_BASE_ARGUMENTS` or replaces there.
_CASE_ARGUMENTS = {
    "decay": {"decay": 0.1},
    "clipnorm": {"clipnorm": 0.25},
    "clipvalue": {"clipvalue": 0.125},
    "global_clipnorm": {"global_clipnorm": 0.25},
    "rmsprop_centered": {"centered": True, "momentum": 0.9},
    "amsgrad": {"amsgrad": True},
    "nesterov": {"nesterov": True},
    "sgd_plain": {"momentum": 0.0},
    "use_ema": {"use_ema": True, "ema_momentum": 0.5},
    "weight_decay": {"weight_decay": 0.1},
}


def inner_optimizer(family, name="SGD", case=None):
    """Return a new inner optimizer with the arguments of the recorded program."""
    arguments = _BASE_ARGUMENTS[name] | _CASE_ARGUMENTS.get(case, {})
    schedules = KERASES[family].optimizers.schedules
    if case == "schedule":
        steps, rates = [4, 8, 12], [0.5, 0.25, 0.125, 0.0625]
        arguments["learning_rate"] = schedules.PiecewiseConstantDecay(steps, rates)
    return getattr(FAMILIES[family], name)(**arguments)


def wrap(api, inner, kind="dynamic", scale=4.0, growth=2):
    """Wrap an optimizer in the class of an api.

    `kind` is "dynamic" or "fixed". `growth` is the number of steps until a dynamic scale grows.
    """
    fixed = kind == "fixed"
    if api == "experimental":
        loss_scale = scale if fixed else tf_lso.DynamicLossScale(scale, growth)
        return CLASSES[api](inner, loss_scale)
    if fixed:
        return CLASSES[api](inner, dynamic=False, initial_scale=scale)
    return CLASSES[api](inner, initial_scale=scale, dynamic_growth_steps=growth)


def wrapped(api, family, name="SGD", case=None, **configuration):
    """Return a new inner optimizer that is wrapped in the class of an api, see `wrap`."""
    return wrap(api, inner_optimizer(family, name, case), **configuration)


def apply(optimizer, gradient, variable, **keywords):
    pairs = [(tf.constant(gradient), variable)]
    return optimizer.apply_gradients(pairs, **keywords)


# --- What the record contains about an optimizer.


def counts(optimizer):
    """Return loss scale, counter and iterations. A value that the optimizer lacks is None."""
    counter = getattr(optimizer, "dynamic_counter", None)
    scale = getattr(optimizer, "loss_scale", None)
    return {
        "loss_scale": None if scale is None else float(scale),
        "counter": None if counter is None else int(families.numpy(counter)),
        "iterations": int(families.numpy(optimizer.iterations)),
    }


def state(optimizer, variables):
    return {
        "vars": [np.asarray(v.numpy()).tolist() for v in variables],
        **counts(optimizer),
        "slots": slots(optimizer, variables),
    }


def slots(optimizer, variables):
    """Return the values of the slot variables in the form of the record.

    The record of OptimizerV2 has {slot: [value for each variable]}. The record of the `new`
    family has {"slot/variable": value}, which also serves for Keras 3.
    """
    inner = optimizer.inner_optimizer
    if isinstance(inner, FAMILIES["legacy"].Optimizer):
        return {
            slot: [_slot(optimizer, variable, slot) for variable in variables]
            for slot in optimizer.get_slot_names()
        }
    values = {}
    if isinstance(inner, FAMILIES["new"].Optimizer):
        no_slots = {id(inner.iterations), id(getattr(inner, "_learning_rate", None))}
        for slot_variable in inner.variables:
            if id(slot_variable) not in no_slots:
                # The name is "optimizer/slot/variable:0" or "slot/variable:0".
                parts = slot_variable.name.split(":")[0].split("/")
                values.setdefault("/".join(parts[-2:]), slot_variable.numpy().tolist())
        return values
    for slot in optimizer.get_slot_names():
        for variable in variables:
            name = f"{slot}/{variable.name.split(':')[0]}"
            values[name] = optimizer.get_slot(variable, slot).numpy().tolist()
    return values


def _slot(optimizer, variable, slot):
    try:
        return optimizer.get_slot(variable, slot).numpy().tolist()
    except KeyError:
        return "err:KeyError"


def variables_of(optimizer):
    """Return the variables of an optimizer. Older optimizers return them from a method."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)
