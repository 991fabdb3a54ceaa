"""Replays the recorded cases, on tf_lso and on tf_keras's own wrapper.

How a case was set up does not stand in the record; it stands here, and
`test_reference.py` proves it: tf_keras's wrapper, driven by the same code, reproduces
the record of tf_keras bit for bit. So where tf_lso differs, it is tf_lso.
"""

import functools
import gzip
import json
import pathlib
import platform

import numpy as np
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, keras, keras2

RECORDS = pathlib.Path(__file__).parent / "record"

# The record that the installed libraries can reproduce, to the last bit where kernels
# and kind of machine are those it was made on.
REFERENCE = "2.21-tf_keras"
SAME_KERNELS = tf.__version__.startswith("2.21.") and platform.machine() in (
    "x86_64",
    "AMD64",
)

# Between kernels: a few units in the last place of float32 over 25 steps.
TOLERANCE = {"rtol": 1e-6, "atol": 1e-7}

# Before 2.3 a skipped step was not counted in `iterations`.
COUNTS_SKIPPED_STEPS_NOT = "2.1.4"

# The optimizer families, by their names in the record and here.
TF_KERAS_FAMILY = {"v2": "legacy", "new": "new"}


@functools.cache
def record(file="golden"):
    """The whole content of a file, a dict; see `record/README.md`."""
    return json.loads(gzip.decompress((RECORDS / f"{file}.json.gz").read_bytes()))


def cases(section, file="golden", **names):
    """The cases of a section that bear these names, as (names, results) pairs."""
    return [
        (entry["case"], entry["results"])
        for entry in record(file)["sections"][section]
        if all(entry["case"].get(name) == value for name, value in names.items())
    ]


def result_of(results, version):
    """What `version` gave, or None where it was not recorded."""
    for entry in results:
        if version in entry["versions"]:
            return entry["result"]
    return None


def number(recorded):
    """The recorded value with "nan", "inf" and "-inf" as floats, lists kept."""
    if isinstance(recorded, list):
        return [number(element) for element in recorded]
    return float(recorded) if isinstance(recorded, str) else recorded


def name_of(case):
    """A short test id."""
    return "-".join(str(value) for value in case.values() if value is not None)


# --- The two wrappers.


def ours(inner, kind="dynamic", scale=4.0, growth=2):
    """Wrap `inner` in tf_lso's optimizer, as the record's `kind` wants it."""
    return _wrapped(tf_lso.LossScaleOptimizer, inner, kind, scale, growth)


def reference(inner, kind="dynamic", scale=4.0, growth=2):
    """Wrap `inner` in tf_keras's own optimizer."""
    return _wrapped(
        keras2.mixed_precision.LossScaleOptimizer, inner, kind, scale, growth
    )


def _wrapped(cls, inner, kind, scale, growth):
    if kind == "fixed":
        return cls(inner, dynamic=False, initial_scale=scale)
    return cls(inner, initial_scale=scale, dynamic_growth_steps=growth)


# --- The inner optimizers.

_SGD = {"learning_rate": 0.1, "momentum": 0.9}
_ADAM = {"learning_rate": 0.01}
_RMSPROP = {"learning_rate": 0.01}

# Case of `schedules_and_clipping` -> arguments on top of those of `inner_optimizer`.
_CASES = {
    "schedule": {},
    "decay": {"decay": 0.1},
    "clipnorm": {"clipnorm": 0.25},
    "clipvalue": {"clipvalue": 0.125},
    "global_clipnorm": {"global_clipnorm": 0.25},
    "rmsprop": {},
    "rmsprop_centered": {"centered": True, "momentum": 0.9},
    "amsgrad": {"amsgrad": True},
    "nesterov": {"nesterov": True},
    "sgd_plain": {"momentum": 0.0},
    "use_ema": {"use_ema": True, "ema_momentum": 0.5},
    "weight_decay": {"weight_decay": 0.1},
}


def inner_optimizer(family, name, case=None):
    """Return a new optimizer of a family, as it was for the recorded case."""
    arguments = {"SGD": _SGD, "Adam": _ADAM, "RMSprop": _RMSPROP}[name]
    arguments = arguments | _CASES.get(case, {})
    schedules = (keras if family == "keras3" else keras2).optimizers.schedules
    if case == "schedule":
        arguments["learning_rate"] = schedules.PiecewiseConstantDecay(
            [4, 8, 12], [0.5, 0.25, 0.125, 0.0625]
        )
    if case == "decay" and family == "keras3":
        # Keras 3 has no argument for it; the schedule is the same quotient.
        del arguments["decay"]
        arguments["learning_rate"] = schedules.InverseTimeDecay(0.1, 1, 0.1)
    return getattr(FAMILIES[family], name)(**arguments)


# --- One step in each recorded style.


def tape_step(optimizer, loss_fn, variables):
    """get_scaled_loss, tape, get_unscaled_gradients, apply_gradients."""
    with tf.GradientTape() as tape:
        scaled_loss = optimizer.get_scaled_loss(loss_fn())
    gradients = tape.gradient(scaled_loss, variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    return optimizer.apply_gradients(zip(gradients, variables))


def apply_step(optimizer, loss_fn, variables):
    """apply_gradients on gradients that were never scaled."""
    with tf.GradientTape() as tape:
        loss = loss_fn()
    return optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


def minimize_step(optimizer, loss_fn, variables):
    """minimize with a callable loss."""
    return optimizer.minimize(loss_fn, variables)


STYLES = {"tape": tape_step, "apply": apply_step, "minimize": minimize_step}


def play(optimizer, family, style="tape", mode="eager"):
    """Take the 25 recorded steps.

    Returns:
      The list of states after each step, and the list of what `encode` gives for what the
      steps returned: each time in eager mode, at each trace otherwise.
    """
    variables = [
        tf.Variable(1.0, name="v0"),
        tf.Variable([1.0, 2.0, 3.0], name="v1"),
    ]
    returned = []

    def step(scalar, vector):
        def loss_fn():
            first, second = variables
            return scalar * first + tf.reduce_sum(vector * second)

        # At once: tensors of 2.12 have no shape after their graph is gone.
        returned.append(encode(STYLES[style](optimizer, loss_fn, variables)))

    if mode == "function":
        step = tf.function(step)
    states = []
    for scalar, vector in record()["coefficients"]:
        step(tf.constant(number(scalar)), tf.constant(number(vector)))
        states.append(state(optimizer, family, variables))
    return states, returned


def optimizer_of(wrap, case, family=None):
    """The optimizer of a recorded trajectory, of another family if one is named."""
    family = family or TF_KERAS_FAMILY[case["family"]]
    inner = inner_optimizer(family, case["inner"], case.get("case"))
    # Those of schedules_and_clipping all had a dynamic scale of 4 that grew after 3.
    configuration = {"kind": "dynamic", "scale": 4.0, "growth": 3}
    configuration |= {k: case[k] for k in configuration if k in case}
    return wrap(inner, **configuration)


def encode(value):
    """Return `value` as the record has it, without the Python types of tensors."""
    if isinstance(value, tf.IndexedSlices):
        parts = ("dense_shape", "indices", "values")
        return {"IndexedSlices": {part: encode(getattr(value, part)) for part in parts}}
    if isinstance(value, tf.Operation):
        return {"Operation": value.type}
    if tf.is_tensor(value) and not hasattr(value, "numpy"):  # symbolic
        return {
            "dtype": value.dtype.name,
            "shape": value.shape.as_list(),
            "symbolic": True,
        }
    if isinstance(value, (tf.Tensor, tf.Variable)):
        array = value.numpy()
        if value.dtype == tf.bfloat16:
            array = array.astype(np.float32)  # as the record has it
        return {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "v": array.tolist(),
        }
    if isinstance(value, tuple):
        return {"tuple": [encode(element) for element in value]}
    if isinstance(value, list):
        return [encode(element) for element in value]
    return value


def replay_trajectory(wrap, case, family=None):
    """Play a recorded trajectory; returns what `play` does."""
    family = family or TF_KERAS_FAMILY[case["family"]]
    optimizer = optimizer_of(wrap, case, family)
    return play(optimizer, family, case["style"], case.get("mode", "eager"))


# --- What is recorded of an optimizer.


def state(optimizer, family, variables):
    """The state as the record has it."""
    counter = optimizer.dynamic_counter
    return {
        "vars": [np.asarray(v.numpy()).tolist() for v in variables],
        "loss_scale": float(optimizer.loss_scale),
        "counter": None if counter is None else int(counter.numpy()),
        "iterations": int(optimizer.iterations.numpy()),
        "slots": slots(optimizer, family, variables),
    }


def slots(optimizer, family, variables):
    """The slot variables as the record of the family has them."""
    if family == "legacy":
        return {
            slot: [_slot(optimizer, v, slot) for v in variables]
            for slot in optimizer.get_slot_names()
        }
    if family == "new":
        inner = optimizer.inner_optimizer
        counters = {id(inner.iterations), id(getattr(inner, "_learning_rate", None))}
        found = {}
        for v in inner.variables:
            if id(v) not in counters:
                name = "/".join(v.name.split(":")[0].split("/")[-2:])
                found.setdefault(name, v.numpy().tolist())
        return found
    return {
        f"{slot}/{v.name.split(':')[0]}": optimizer.get_slot(v, slot).numpy().tolist()
        for slot in optimizer.get_slot_names()
        for v in variables
    }


def _slot(optimizer, variable, slot):
    try:
        return optimizer.get_slot(variable, slot).numpy().tolist()
    except KeyError:
        return "err:KeyError"


# --- Comparing.


def flat(value):
    """A float64 vector of nested lists of numbers."""
    if isinstance(value, list):
        return np.concatenate([flat(v) for v in value] or [np.zeros(0)])
    return np.array([number(value)], np.float64)


def assert_counts(actual, recorded, what):
    """Compare scale, counter and iterations; they are equal in every version."""
    for key in ("loss_scale", "counter", "iterations"):
        assert actual[key] == recorded[key], f"{what}: {key}"
