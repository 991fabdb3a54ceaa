"""A table with the slots and hyperparameters of each optimizer class.

This module does not import TensorFlow.
"""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, TypedDict


@dataclasses.dataclass(frozen=True)
class Facts:
    """The row of the table for one optimizer class."""

    # Maps the name of a slot in OptimizerV2 to the attribute in which optimizers since
    # TensorFlow 2.11 keep a list of the slot's variables. `a|b` means the attribute `a` in
    # Keras 3 and the attribute `b` in tf_keras.
    slots: dict[str, str]
    # The names of the hyperparameters that the legacy class of this name, an OptimizerV2,
    # stores by its method `_set_hyper`.
    hyperparameters: tuple[str, ...] = ()
    # Whether `tf.keras.optimizers` of TensorFlow 2.0-2.15 had the class.
    is_old: bool = True


_MOMENTS = {"m": "_momentums", "v": "_velocities"}
_AMSGRAD = {**_MOMENTS, "vhat": "_velocity_hats"}
_RATES = ("learning_rate", "decay")
_BETAS = (*_RATES, "beta_1", "beta_2")
_PENALTIES = ("l1_regularization_strength", "l2_regularization_strength")

OPTIMIZERS = {
    "SGD": Facts({"momentum": "momentums"}, (*_RATES, "momentum")),
    "RMSprop": Facts(
        {"rms": "_velocities", "momentum": "_momentums", "mg": "_average_gradients"},
        (*_RATES, "rho", "momentum"),
    ),
    "Adam": Facts(_AMSGRAD, _BETAS),
    "AdamW": Facts(_AMSGRAD),
    "Adamax": Facts({"m": "_m", "v": "_u"}, _BETAS),
    "Nadam": Facts(_MOMENTS, _BETAS),
    "Adagrad": Facts({"accumulator": "_accumulators"}, _RATES),
    "Adadelta": Facts(
        {"accum_grad": "_accumulated_grads", "accum_var": "_accumulated_delta_vars"},
        (*_RATES, "rho"),
    ),
    "Ftrl": Facts(
        {"accumulator": "_accumulators", "linear": "_linears"},
        (*_RATES, "beta", "learning_rate_power", *_PENALTIES),
    ),
    "Lion": Facts({"m": "_momentums|momentums"}),
    "Lamb": Facts(_MOMENTS, is_old=False),
    "Adafactor": Facts({"r": "_r", "c": "_c", "v": "_v"}),
}

# The slot that every optimizer with `use_ema=True` has. As in `Facts.slots`, the dict maps the
# name of the slot to the attribute that holds a list of the slot's variables.
AVERAGE = {"average": "_model_variables_moving_average"}

# The attributes that list all variables of an optimizer, and all model variables that it has
# slots for.
LISTS_OF_VARIABLES = ("_variables", "_trainable_variables")

# The attribute in which an optimizer stores the keys of the variables that weight decay
# excludes. The keys identify variables only in the process that created the variables.
EXCLUDED_VARIABLES = "_exclude_from_weight_decay"

# Attributes of Keras's optimizers that hold settings, but are missing in the configs.
SETTINGS_NOT_IN_CONFIGS = (
    "gradient_transformers",
    "gradient_aggregator",
    "_exclude_from_weight_decay_names",
    "_exclude_from_weight_decay_pattern",
    EXCLUDED_VARIABLES,
)

# Maps an argument of Keras 3's base class to its default. Configs contain these arguments.
KERAS3_DEFAULTS: dict[str, object] = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}


class Keras3Arguments(TypedDict, total=False):
    """The types of the arguments in `KERAS3_DEFAULTS`.

    Most types allow only the default, so that type checkers refuse other values.
    """

    weight_decay: None
    clipnorm: None
    clipvalue: None
    global_clipnorm: None
    use_ema: Literal[False]
    ema_momentum: float
    ema_overwrite_frequency: None
    loss_scale_factor: None
    gradient_accumulation_steps: None


# Maps the name of an optional slot to a pair (argument, value). An optimizer has the slot if
# this value is passed for the argument. For instance, an Adam with `amsgrad=True` has the slot
# "vhat".
MADE_BY: dict[str, tuple[str, object]] = {
    "momentum": ("momentum", 0.9),
    "mg": ("centered", True),
    "vhat": ("amsgrad", True),
    "average": ("use_ema", True),
}

# The same for the slot in which Keras 3 accumulates gradients over several steps. The name is
# that of the attribute.
ACCUMULATION: dict[str, tuple[str, object]] = {
    "_accumulated_gradients": ("gradient_accumulation_steps", 2)
}


# The names of the methods in which optimizers create their slots. An OptimizerV2 creates its
# slots in `_create_slots`, and a newer optimizer in `build`.
_MAKES_SLOTS = {"_create_slots", "build"}


def of(classes: list[str]) -> Facts:
    """Return the table's row for the first class name in `classes` that has a row.

    If no class has a row, the function returns a row without slots and hyperparameters.
    """
    return next((OPTIMIZERS[n] for n in classes if n in OPTIMIZERS), Facts({}))


# The classes that programs of TensorFlow 2.0-2.15 could use.
OLD = tuple(name for name, facts in OPTIMIZERS.items() if facts.is_old)


def by_attribute(slots: dict[str, str]) -> dict[str, str]:
    """Return {attribute: slot name} for `slots`, a dict that has the form of `Facts.slots`."""
    return {name: slot for slot, names in slots.items() for name in names.split("|")}


def singular(attribute: str) -> str:
    """Return the word that the names of the variables in the list `attribute` contain.

    For instance, the names of the variables in `_velocities` contain the word "velocity".
    """
    return re.sub("ies$", "y", attribute).strip("_").removesuffix("s")


# Maps an attribute that holds the variables of a slot in a Keras 3 optimizer to the word with
# which the names of these variables end. For instance, the names of all variables in
# `_velocities` end with "velocity".
# The attributes of Adafactor are omitted, because Adafactor names its slots differently.
ENDS = {
    attribute: singular(attribute)
    for facts in OPTIMIZERS.values()
    for attribute in by_attribute(facts.slots)
    if len(attribute) > 2
} | {"_m": "momentum", "_u": "norm", AVERAGE["average"]: "average"}


# --- The slots of one optimizer, from the row of its class.


def attributes_of_slots(optimizer: Any) -> dict[str, str]:
    """Return {slot name: attribute} for an optimizer.

    The names are from the row of the optimizer's class, or of the nearest base class with a
    row.
    """
    names = [cls.__name__ for cls in type(optimizer).__mro__]
    return of(names).slots | AVERAGE


def slot_of_attributes(optimizer: Any) -> dict[str, str]:
    """Return {attribute: slot name}, the inverse of `attributes_of_slots`."""
    return by_attribute(attributes_of_slots(optimizer))


def first_value(optimizer: Any, slot: str) -> float | None:
    """Return the initial value of a slot as a number, or None if it is unknown."""
    if slot in ("momentum_cache", "_u_product", "_m_cache"):
        return 1.0
    known = attributes_of_slots(optimizer)
    if slot not in known or slot in AVERAGE:
        return None
    if slot != "accumulator":
        return 0.0
    first: float | None = optimizer.get_config().get("initial_accumulator_value")
    return first


def slot_lists(optimizer: Any) -> dict[str, list[Any]]:
    """Return {slot name: list of variables} for the slots that `optimizer` has created."""
    return {
        slot: variables
        for attribute, slot in slot_of_attributes(optimizer).items()
        if (variables := getattr(optimizer, attribute, None))
    }


def by_slot(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return `variables` sorted by slot. Variables that are not slots come first."""
    # The sorted list has the order of OptimizerV2. For instance, OptimizerV2's Adam lists the
    # slots `m` of all model variables, and then the slots `v` of all model variables.
    in_order = [v for listed in slot_lists(optimizer).values() for v in listed]
    position = {id(variable): number for number, variable in enumerate(in_order, 1)}
    return sorted(variables, key=lambda variable: position.get(id(variable), 0))


def slots_made(optimizer: Any) -> set[str]:
    """Return the names of the optional slots that an optimizer's arguments create.

    For instance, an Adam with `amsgrad=True` has the optional slot "vhat".
    """
    known = attributes_of_slots(optimizer)
    found = set()
    for slot, (argument, _) in MADE_BY.items():
        # Optimizers store the value of an argument such as `momentum` in the attribute
        # `momentum`. But in an OptimizerV2 this attribute may be a variable. Then the bool
        # `_momentum` says whether the argument is used.
        values = [getattr(optimizer, n, None) for n in (f"_{argument}", argument)]
        is_used = any(isinstance(v, (bool, int, float)) and v for v in values)
        if slot in known and is_used:
            found.add(slot)
    return found


def optional_slots(optimizer: Any) -> set[str]:
    """Return the names of the slots that an optimizer has only with certain arguments.

    For instance, an Adam has the slot "vhat" only with `amsgrad=True`. If a user's class
    creates its slots itself, the names of the slots say nothing about the arguments. For such
    a class the function returns at most "average", which `use_ema` creates in every class.
    """
    slots = set()
    for cls in type(optimizer).__mro__:
        if _MAKES_SLOTS & vars(cls).keys():
            if cls.__module__.split(".")[0] in ("keras", "tf_keras"):
                slots = MADE_BY.keys() & of([cls.__name__]).slots.keys()
            break
    if hasattr(optimizer, "use_ema") and "average" not in vars(optimizer):
        slots |= AVERAGE.keys()
    return slots


def differing_slots(
    in_file: Iterable[str], optimizer: Any, always: Iterable[str] = ()
) -> tuple[set[str], set[str]]:
    """Return the optional slots that a file and an optimizer do not have in common.

    Args:
      in_file: the names of all slots in the file.
      optimizer: the optimizer to compare with the file.
      always: the names of slots that the optimizer's class creates with any arguments.

    Returns:
      A pair of sets of slot names: the optional slots that only the file has, and the
      optional slots that only `optimizer` has.
    """
    names = slot_of_attributes(optimizer)
    # A checkpoint stores the slot "average" under the name of its attribute,
    # `_model_variables_moving_average`. So if a file contains a slot with the name "average",
    # this is the slot of another optimizer. Ignore that slot.
    named = {names.get(name, name) for name in in_file if name not in AVERAGE}
    in_file = named & optional_slots(optimizer)
    own = slots_made(optimizer)
    return in_file - own - set(always), own - in_file
