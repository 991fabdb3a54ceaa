"""A table with the slots and hyperparameters of each optimizer class."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, TypedDict


@dataclasses.dataclass(frozen=True)
class Facts:
    """The row of the table for one optimizer class."""

    # Maps a slot of OptimizerV2 to the attribute in which optimizers since TensorFlow 2.11 keep
    # a list of the slot's variables. `a|b` means `a` in Keras 3 and `b` in tf_keras.
    slots: dict[str, str]
    # The hyperparameters that the legacy class of this name stores by its method `_set_hyper`.
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

# The slot that every optimizer with `use_ema=True` has, in the form of `Facts.slots`.
AVERAGE = {"average": "_model_variables_moving_average"}

# The attributes in which an optimizer lists its own variables and the model variables.
LISTS_OF_VARIABLES = ("_variables", "_trainable_variables")

# The keys in this attribute identify variables only in the process that created them.
EXCLUDED_VARIABLES = "_exclude_from_weight_decay"

# Attributes of Keras's optimizers that hold settings, but are missing in the configs.
SETTINGS_NOT_IN_CONFIGS = (
    "gradient_transformers",
    "gradient_aggregator",
    "_exclude_from_weight_decay_names",
    "_exclude_from_weight_decay_pattern",
    EXCLUDED_VARIABLES,
)

# Configs contain these arguments of Keras 3's base class.
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
    """The types of `KERAS3_DEFAULTS`. Most make type checkers refuse all but the default."""

    weight_decay: None
    clipnorm: None
    clipvalue: None
    global_clipnorm: None
    use_ema: Literal[False]
    ema_momentum: float
    ema_overwrite_frequency: None
    loss_scale_factor: None
    gradient_accumulation_steps: None


# Maps an optional slot to an argument and a value of this argument that create the slot.
MADE_BY: dict[str, tuple[str, object]] = {
    "momentum": ("momentum", 0.9),
    "mg": ("centered", True),
    "vhat": ("amsgrad", True),
    "average": ("use_ema", True),
}

# A row like those of `MADE_BY`, for the slot in which Keras 3 accumulates gradients.
ACCUMULATION: dict[str, tuple[str, object]] = {
    "_accumulated_gradients": ("gradient_accumulation_steps", 2)
}


# An OptimizerV2 creates its slots in `_create_slots`, and a newer optimizer in `build`.
_MAKES_SLOTS = {"_create_slots", "build"}


def of(classes: list[str]) -> Facts:
    """Return the row of the first class name that has a row, or else an empty row."""
    return next((OPTIMIZERS[n] for n in classes if n in OPTIMIZERS), Facts({}))


OLD = tuple(name for name, facts in OPTIMIZERS.items() if facts.is_old)


def by_attribute(slots: dict[str, str]) -> dict[str, str]:
    """Return {attribute: slot name} for `slots`, a dict that has the form of `Facts.slots`."""
    return {name: slot for slot, names in slots.items() for name in names.split("|")}


def singular(attribute: str) -> str:
    """Return the word in the names of the variables in a list: "velocity" for "_velocities"."""
    return re.sub("ies$", "y", attribute).strip("_").removesuffix("s")


# Maps the attribute of a slot in Keras 3 to the last word in the names of the slot's variables.
# Adafactor is omitted, because it names its slots differently.
ENDS = {
    attribute: singular(attribute)
    for facts in OPTIMIZERS.values()
    for attribute in by_attribute(facts.slots)
    if len(attribute) > 2
} | {"_m": "momentum", "_u": "norm", AVERAGE["average"]: "average"}


# --- The slots of one optimizer, from the row of its class.


def attributes_of_slots(optimizer: Any) -> dict[str, str]:
    """Return {slot name: attribute} from the row of the optimizer's class or nearest base."""
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
    # OptimizerV2 has this order: its Adam lists all slots `m`, and then all slots `v`.
    in_order = [v for listed in slot_lists(optimizer).values() for v in listed]
    position = {id(variable): number for number, variable in enumerate(in_order, 1)}
    return sorted(variables, key=lambda variable: position.get(id(variable), 0))


def slots_made(optimizer: Any) -> set[str]:
    """Return the names of the optional slots that an optimizer's arguments create."""
    known = attributes_of_slots(optimizer)
    found = set()
    for slot, (argument, _) in MADE_BY.items():
        # In an OptimizerV2 the attribute `momentum` may be a variable. Then the bool
        # `_momentum` says whether the argument is used.
        values = [getattr(optimizer, n, None) for n in (f"_{argument}", argument)]
        is_used = any(isinstance(v, (bool, int, float)) and v for v in values)
        if slot in known and is_used:
            found.add(slot)
    return found


def optional_slots(optimizer: Any) -> set[str]:
    """Return the names of the slots that an optimizer has only with certain arguments.

    If a user's class creates its slots itself, their names say nothing about the arguments. For
    such a class the result is at most {"average"}, the slot that `use_ema=True` creates.
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
    """Return the optional slots that only a file has, and those that only an optimizer has.

    `always` contains the slots that the optimizer's class creates whatever its arguments are.
    """
    names = slot_of_attributes(optimizer)
    # A checkpoint stores the slot "average" under the name of its attribute. A slot with the
    # name "average" in a file is the slot of another optimizer.
    named = {names.get(name, name) for name in in_file if name not in AVERAGE}
    in_file = named & optional_slots(optimizer)
    own = slots_made(optimizer)
    return in_file - own - set(always), own - in_file
