"""Where reading and setting attributes differs from a recorded version, and why.

Entries of `differences.Difference`, applied one after the other: first those that say
which generation tf_lso follows, then what differs from that one too.
"""

import functools

from tests.golden import harness, replays
from tests.golden.differences import (
    ANYTHING,
    FIRST_NEW,
    KERAS3_AND_NEW,
    UNTIL_2_3,
    Difference,
    gives,
)

UNTIL_2_10 = (*UNTIL_2_3, "2.4.4", "2.8.4", *FIRST_NEW)
HYPERPARAMETERS = ("beta_1", "beta_2", "decay", "momentum")
CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")

_difference = functools.partial(Difference, "hyperparameters")


# --- What tf_lso gives.


def as_in(version, **names):
    """As `version` did, of the same case or one that has these `names` instead."""

    def expected(recorded, case):
        wanted = {**case, **names}
        ((_, results),) = harness.cases("hyperparameters", "behaviour", **wanted)
        return replays.recorded(harness.result_of(results, version))

    return expected


def value(of):
    """Reading gives this."""
    return lambda recorded, case: {"ok": of}


def inner_value(of):
    """Reading from the inner optimizer gives this, where setting was no error."""
    return lambda recorded, case: (
        recorded if "error" in recorded else gives(inner_get={"ok": of})(recorded, case)
    )


def numbers(recorded, case):
    """Python numbers in place of float32 tensors."""
    if isinstance(recorded, dict) and "dtype" in recorded:
        return recorded["v"]
    if isinstance(recorded, dict):
        return {key: numbers(value, case) for key, value in recorded.items()}
    return recorded


def error(name):
    """It raises this."""
    return lambda recorded, case: {"error": name}


def _assigned(recorded, case):
    """Setting the loss scale to 2 is no error, and the inner optimizer has none."""
    got = {"dtype": "float32", "shape": [], "v": 2.0}
    inner = {"error": "AttributeError"}
    return {"ok": {"get": {"ok": got}, "inner_get": inner, "step": {"ok": ANYTHING}}}


def _with_scale(recorded, case):
    return {"ok": [*recorded["ok"], 4.0, 1]}


def _by_variable(recorded, case):
    count, m_x, m_y, v_x, v_y, *scale = recorded["ok"]
    return {"ok": [count, m_x, v_x, m_y, v_y, *scale]}


def _same(recorded, case):
    return recorded


def _other_names(recorded, case):
    return {"ok": [[ANYTHING, value] for _, value in recorded["ok"]]}


def _is_optimizer(answer):
    return lambda recorded, case: gives(**{"K.optimizers.Optimizer": answer})(
        recorded, case
    )


_OBJECT = {
    "py": "DynamicLossScale",
    "repr": "DynamicLossScale(current_loss_scale=4.0, num_good_steps=0, "
    "initial_loss_scale=4.0, increment_period=2, multiplier=2.0)",
}
_DEFAULTS = {
    "ema_momentum": 0.99,
    "jit_compile": False,
    "use_ema": False,
    "weight_decay": None,
}
_COUNTER = {"dtype": "int64", "shape": [], "v": 0}


# --- The rows of compat_docs/reference/differences.md, by how they begin.

EXPERIMENTAL = "The attributes of the optimizer of TensorFlow 2.0 to 2.3"
FIRST = "The newer optimizers in TensorFlow 2.9 to 2.11"
EVERYWHERE = "`opt.beta_1`, `opt.momentum` and so on"
CLIP = "`opt.clipnorm`, `opt.clipvalue`, `opt.global_clipnorm`"
METHODS = "`get_slot`, `get_slot_names`, `add_slot`, `add_weight`"
LIST = "`get_weights`, `set_weights`"
NUMBERS = "What `opt.beta_1`, `opt.momentum` and so on are"
DECAY = "`opt.decay` on Keras 3 and the newer optimizers"
ABSENT = "`opt.weight_decay`, `opt.use_ema` and the like on a legacy optimizer"
INNER = "`opt.weight_decay`, `opt.use_ema`, `opt.jit_compile` and the like"
NAME = "`name`"
BUILD = "`build`"
OBJECT = "`opt.loss_scale` of the experimental optimizer"
ISINSTANCE = "`isinstance(opt, tf.keras.optimizers.Optimizer)`"
SET_ITERATIONS = "`opt.iterations = variable` after `opt.iterations` was read"
SCHEDULE = "`opt.learning_rate` with a schedule, on Keras 3"
SET_WEIGHTS = "`opt.weights = [...]`"
BEFORE = "`opt.weights` before the first step"
ORDER = "The order of `get_weights` on the newer optimizers"
NAMES = "Names of optimizer variables, and `opt.variables`, on Keras 3"
DIR = "`dir(opt)` on Keras 3"
ASSIGNED = "`opt.loss_scale = x`"

DIFFERENCES = [
    # --- Which generation.
    _difference(
        {"api": "experimental"},
        "one object has the attributes of both generations, as since 2.4",
        as_in("2.8.4"),
        versions=UNTIL_2_3,
        row=EXPERIMENTAL,
    ),
    _difference(
        {"family": "new"},
        "as in 2.15",
        as_in("2.15.1"),
        versions=(*FIRST_NEW, "2.11.1"),
        row=FIRST,
    ),
    _difference(
        {"family": "new", "case": ("get", "set"), "attribute": HYPERPARAMETERS},
        "hyperparameters reach every inner optimizer",
        as_in("2.15.1", family="v2"),
        row=EVERYWHERE,
    ),
    _difference(
        {"family": "new", "case": ("get", "set"), "attribute": CLIPPING},
        "clipping reaches every inner optimizer",
        as_in("2.15.1", family="v2"),
        row=CLIP,
    ),
    _difference(
        {
            "family": "new",
            "case": ("get", "weights"),
            "attribute": (
                "get_slot_names",
                "weights",
                "add_slot",
                "add_slot_init",
                "add_weight",
                "before",
                "get_slot",
                "get_slot_bogus",
                "get_slot_same_object_as_inner",
                "get_weights",
                "loss_scale_in_weights",
                "set_weights_to_3",
            ),
        },
        "every family has the methods of OptimizerV2",
        as_in("2.15.1", family="v2"),
        row=METHODS,
    ),
    # --- What differs from these generations.
    _difference(
        {"case": ("get", "set"), "attribute": HYPERPARAMETERS},
        "these optimizers hold numbers",
        numbers,
        families=KERAS3_AND_NEW,
        row=NUMBERS,
    ),
    _difference(
        {"case": "set", "attribute": "decay"},
        "these optimizers have no decay",
        error("ValueError"),
        message="'decay' cannot be set to 0.5",
        families=KERAS3_AND_NEW,
        row=DECAY,
    ),
    _difference(
        {"case": "set", "attribute": "use_ema"},
        "an error rather than a value without effect",
        error("AttributeError"),
        message="'use_ema'",
        families=("legacy",),
        row=ABSENT,
    ),
    _difference(
        {"case": "get", "attribute": tuple(_DEFAULTS)},
        "of the inner optimizer, where it has it",
        lambda recorded, case: {"ok": _DEFAULTS[case["attribute"]]},
        families=("new",),
        row=INNER,
    ),
    _difference(
        {"case": "get", "attribute": ("ema_momentum", "use_ema", "weight_decay")},
        "of the inner optimizer, where it has it",
        lambda recorded, case: {"ok": _DEFAULTS[case["attribute"]]},
        families=("keras3",),
        row=INNER,
    ),
    _difference(
        {"case": "set", "attribute": "use_ema"},
        "of the inner optimizer, where it has it",
        inner_value(True),
        families=("keras3",),
        row=INNER,
    ),
    _difference(
        {"case": "get", "attribute": "name"},
        "every optimizer has a name",
        value(ANYTHING),
        row=NAME,
    ),
    _difference(
        {"case": "set", "attribute": "name"},
        "so has the inner one, of Keras 3",
        inner_value(ANYTHING),
        families=("keras3",),
        row=NAME,
    ),
    _difference(
        {"case": "get", "attribute": "build", "family": "v2"},
        "every family can be built",
        value("<callable>"),
        row=BUILD,
    ),
    _difference(
        {"api": "experimental", "case": "get", "attribute": "loss_scale"},
        "an object that is called as in 2.0-2.3 and is a tensor as in 2.4-2.8",
        value(_OBJECT),
        row=OBJECT,
    ),
    _difference(
        {"case": "isinstance"},
        "that class is the newer optimizers', as since 2.11",
        _is_optimizer(False),
        families=("legacy",),
        versions=UNTIL_2_10,
        row=ISINSTANCE,
    ),
    _difference(
        {"case": "isinstance"},
        "that class is Keras 3's, which has no other family",
        _is_optimizer(True),
        families=KERAS3_AND_NEW,
        row=ISINSTANCE,
    ),
    _difference(
        {"case": "iterations_set_after_access"},
        "the counter gets the variable's value",
        value([{**_COUNTER, "v": 7}] * 2),
        families=("keras3",),
        row=SET_ITERATIONS,
    ),
    _difference(
        {"case": "lr_schedule_get", "family": "new"},
        "it was a variable of the rate",
        value(
            {
                "callable_value": {"ok": 0.25},
                "learning_rate": {"ok": "PiecewiseConstantDecay"},
                "lr": {"ok": "PiecewiseConstantDecay"},
            }
        ),
        families=("keras3",),
        row=SCHEDULE,
    ),
    _difference(
        {"case": "set", "attribute": "weights", "family": "new"},
        "it had no effect",
        error("AttributeError"),
        message="weights",
        row=SET_WEIGHTS,
    ),
    _difference(
        {"case": "weights", "attribute": "before"},
        "these optimizers make the step counter at construction",
        value([_COUNTER]),
        families=KERAS3_AND_NEW,
        row=BEFORE,
    ),
    _difference(
        {"case": "weights", "attribute": "get_weights"},
        "a saved state is complete",
        _with_scale,
        row=LIST,
    ),
    _difference(
        {"case": "weights", "attribute": "set_weights_to_3"},
        "a saved state is complete",
        gives(counter=3, loss_scale=3.0),
        row=LIST,
    ),
    _difference(
        {"case": "weights", "attribute": "get_weights", "inner": "Adam"},
        "in the order of their variables, by which 2.11-2.15 set weights",
        _by_variable,
        families=("new",),
        row=ORDER,
    ),
    _difference(
        {"case": "weights", "attribute": "weights"},
        "names are the family's",
        lambda recorded, case: (_by_variable if case["inner"] == "Adam" else _same)(
            _other_names(recorded, case), case
        ),
        families=("new",),
        row=ORDER,
    ),
    _difference(
        {"case": "weights", "attribute": "weights"},
        "names are the family's",
        _other_names,
        families=("keras3",),
        row=NAMES,
    ),
    _difference(
        {"case": "weights", "attribute": "variables"},
        "what Keras 3 lists, the loss scale included",
        value(ANYTHING),
        families=("keras3",),
        row=NAMES,
    ),
    _difference(
        {"case": "dir", "family": "v2"},
        "tf.train.Checkpoint takes an object that lists it for an OptimizerV2",
        lambda recorded, case: {
            "ok": [name for name in recorded["ok"] if name != "get_slot_names"]
        },
        families=("keras3",),
        row=DIR,
    ),
    _difference(
        {"api": "stable", "attribute": "loss_scale", "case": "set"},
        "a dynamic scale can be assigned",
        _assigned,
        row=ASSIGNED,
    ),
]
