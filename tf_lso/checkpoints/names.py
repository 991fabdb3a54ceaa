"""What the names of optimizer variables tell about the variables they belong to.

| program | variable | its slot "m" |
|---|---|---|
| OptimizerV2 | `dense/kernel` | `Adam/dense/kernel/m` |
| newer, TensorFlow 2.9-2.10 | `dense/kernel` | `Adam/m/dense/kernel` |
| newer, since 2.11 | `dense/kernel` | `m/dense/kernel` |
| Keras 3 | `dense/kernel` | `adam/dense_kernel_momentum` |
"""

import re

from tf_lso import keras_versions as kerases
from tf_lso import optimizer_table as table


def plain(name):
    """Return a variable's name without the output number that graphs added."""
    return name.split(":")[0]


def owner(name, variables, slot=None):
    """Return the index of the model variable that an optimizer variable belongs to.

    None if no variable has that name, or more than one. OptimizerV2 puts the name of
    the slot after that of the variable.
    """
    name = plain(name)
    if slot is not None:
        name = name.removesuffix(f"/{slot}")
    found = [
        (len(own), index)
        for index, own in enumerate(plain(v.entry.name) for v in variables)
        if own and name.endswith(f"/{own}")
    ]
    longest = [index for length, index in found if length == max(found)[0]]
    return longest[0] if len(longest) == 1 else None


def slot_of(name, class_name):
    """Return the name of the slot in the name of an optimizer variable, or None."""
    facts = table.of([class_name])
    parts = plain(name).split("/")
    if parts[-1] in facts.slots:  # OptimizerV2
        return parts[-1]
    known = {
        **{slot: slot for slot in (*facts.slots, *table.AVERAGE)},
        **facts.variable_names,
    }
    # At most the name of the class comes before it.
    return next((known[part] for part in parts[:2] if part in known), None)


def list_of(name, attributes):
    """Return the one of the attributes to whose list a slot of Keras 3 belongs, or None."""
    last = plain(name).split("/")[-1]
    for attribute in attributes:
        end = table.ENDS.get(attribute)
        if end is not None and f"_{last}".endswith(f"_{end}"):
            return attribute
    return None


def optimizer_class(state, of_keras3):
    """Return the class name that the names of an optimizer's variables tell, or None.

    If the user named the optimizer, they do not tell it. Nor do the names of the newer
    optimizers of TensorFlow 2.11-2.15.
    """
    parts = {
        part for entry in state.entries() for part in plain(entry.name).split("/")[:-1]
    }
    if of_keras3:  # which calls an RMSprop "rm_sprop", and the next one "rm_sprop_1"
        parts = {re.sub(r"_(\d+$)?", "", part).lower() for part in parts}
    classes = dict.fromkeys([*table.OPTIMIZERS, *_of_keras3()])
    known = [n for n in classes if (n.lower() if of_keras3 else n) in parts]
    return known[0] if len(known) == 1 else None


def _of_keras3():
    """Return the names of Keras 3's optimizers, also of those that no table knows."""
    if not kerases.has_keras3():
        return []
    optimizers = kerases.public("keras").optimizers
    return [
        name
        for name, value in vars(optimizers).items()
        if isinstance(value, type)
        and issubclass(value, optimizers.Optimizer)
        and not name.endswith("Optimizer")  # of wrappers and the base class
    ]
