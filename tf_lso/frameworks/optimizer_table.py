"""What is known of each class of optimizer, one row for each. Without TensorFlow."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, TypedDict


@dataclasses.dataclass(frozen=True)
class Facts:
    """The row of one class."""

    # Slot name of TensorFlow 2.0-2.15 -> attribute of the optimizers since 2.11 that holds
    # the list of variables; `a|b` if Keras 3 has `a` and tf_keras `b`.
    slots: dict[str, str]
    # What the OptimizerV2 of that class passed to `_set_hyper`.
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

# The slot that every class has with `use_ema`, as in `Facts.slots`.
AVERAGE = {"average": "_model_variables_moving_average"}

# Arguments of Keras 3's base class that its configs carry, with their defaults.
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
    """What a type checker accepts as these arguments: their defaults."""

    weight_decay: None
    clipnorm: None
    clipvalue: None
    global_clipnorm: None
    use_ema: Literal[False]
    ema_momentum: float
    ema_overwrite_frequency: None
    loss_scale_factor: None
    gradient_accumulation_steps: None


# Slot -> the argument that an optimizer needs to have it, and an example of its value.
MADE_BY: dict[str, tuple[str, object]] = {
    "momentum": ("momentum", 0.9),
    "mg": ("centered", True),
    "vhat": ("amsgrad", True),
    "average": ("use_ema", True),
}


# The methods that make slots: of OptimizerV2, and of all others.
_MAKES_SLOTS = {"_create_slots", "build"}


def of(classes: list[str]) -> Facts:
    """Return the row of the first of the classes that has one, else an empty one."""
    return next((OPTIMIZERS[n] for n in classes if n in OPTIMIZERS), Facts({}))


# The classes that programs of TensorFlow 2.0-2.15 could use.
OLD = tuple(name for name, facts in OPTIMIZERS.items() if facts.is_old)


def by_attribute(slots: dict[str, str]) -> dict[str, str]:
    """Return {attribute: slot name} of the `slots` of a row."""
    return {name: slot for slot, names in slots.items() for name in names.split("|")}


def singular(attribute: str) -> str:
    """Return what Keras calls a variable of an attribute: "velocity" in `_velocities`."""
    return re.sub("ies$", "y", attribute).strip("_").removesuffix("s")


# Attribute of Keras 3 that holds a list of slots -> the end of the slots' names. Adafactor,
# whose attributes are single letters, does not name its slots so.
ENDS = {
    attribute: singular(attribute)
    for facts in OPTIMIZERS.values()
    for attribute in by_attribute(facts.slots)
    if len(attribute) > 2
} | {"_m": "momentum", "_u": "norm", AVERAGE["average"]: "average"}


# --- The slots of one optimizer, by the row of its class.


def attributes_of_slots(optimizer: Any) -> dict[str, str]:
    """Return {slot name: attribute} of the class of `optimizer`, nearest to it."""
    names = [cls.__name__ for cls in type(optimizer).__mro__]
    return of(names).slots | AVERAGE


def slot_of_attributes(optimizer: Any) -> dict[str, str]:
    """Return {attribute: slot name} of the class of `optimizer`."""
    return by_attribute(attributes_of_slots(optimizer))


def slot_lists(optimizer: Any) -> dict[str, list[Any]]:
    """Return {slot name: list of variables} of what `optimizer` has built."""
    return {
        slot: variables
        for attribute, slot in slot_of_attributes(optimizer).items()
        if (variables := getattr(optimizer, attribute, None))
    }


def by_slot(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return `variables` with the slots of `optimizer` last, and slot by slot."""
    # For Adam, OptimizerV2's weights were m of all variables and then v of all.
    in_order = [v for listed in slot_lists(optimizer).values() for v in listed]
    position = {id(variable): number for number, variable in enumerate(in_order, 1)}
    return sorted(variables, key=lambda variable: position.get(id(variable), 0))


def slots_made(optimizer: Any) -> set[str]:
    """Return the names of the slots that the arguments of an inner optimizer make."""
    known = attributes_of_slots(optimizer)
    found = set()
    for slot, (argument, _) in MADE_BY.items():
        # An OptimizerV2 has a variable of the name, and a flag that says if it is used.
        values = [getattr(optimizer, n, None) for n in (f"_{argument}", argument)]
        is_used = any(isinstance(v, (bool, int, float)) and v for v in values)
        if slot in known and is_used:
            found.add(slot)
    return found


def optional_slots(optimizer: Any) -> set[str]:
    """Return the slots of `MADE_BY` that arguments of the class of `optimizer` make.

    A class of the user's own, also one that only adds slots to Keras's, may give its slots
    any names, which say nothing about its arguments. An average is the exception: `use_ema`
    is an argument of the base class.
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
    """Return the optional slots that only a file has, and those that only it lacks.

    The class of the optimizer makes those of `always` also without the argument.
    """
    names = slot_of_attributes(optimizer)
    # A checkpoint names the averages of `use_ema` by their attribute.
    named = {names.get(name, name) for name in in_file if name not in AVERAGE}
    in_file = named & optional_slots(optimizer)
    own = slots_made(optimizer)
    return in_file - own - set(always), own - in_file
