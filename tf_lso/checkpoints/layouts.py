"""Tables of the layouts of files and of the names that files give to variables.

For example, the slot "m" of the variable `dense/kernel` has one of these names:

- `Adam/dense/kernel/m` in an OptimizerV2
- `Adam/m/dense/kernel` in a newer optimizer of TensorFlow 2.9-2.10
- `m/dense/kernel` in a newer optimizer since TensorFlow 2.11
- `adam/dense_kernel_momentum` in an optimizer of Keras 3
"""

import re

from tf_lso.checkpoints.source import UNKNOWN
from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# A path is a tuple of steps. A step is the name of an attribute, or one of these prefixes and a
# number, such as "layer_with_weights-2":
# - After `LAYER_STEP`, the number counts the layers that have weights.
# - After `WEIGHT_STEP`, the number counts the weights of a layer in Keras's order.
# - After `VARS_STEP`, the number counts the variables that an object created itself.
LAYER_STEP = "layer_with_weights-"
WEIGHT_STEP = "#"
VARS_STEP = "vars"

# A layout is a way in which checkpoints store an optimizer. Maps the name of each layout to the
# optimizer family and to the programs that wrote such checkpoints.
LAYOUTS = {
    "2.0-2.2": ("legacy", "TensorFlow 2.0-2.2, with a loss scale"),
    "v2": ("legacy", "an OptimizerV2 of TensorFlow 2.0-2.15 or tf_keras"),
    "new": ("new", "a newer optimizer of TensorFlow 2.9-2.15 or tf_keras"),
    "keras3": ("keras3", "Keras 3 or tf_lso"),
}

# Keys that occur only in the configs of one optimizer family.
OF_CONFIGS = {
    "loss_scale_factor": "keras3",
    "is_legacy_optimizer": "new",
    "decay": "legacy",
}

# The attribute of the step counter: the first name in an OptimizerV2, the second in others.
ITERATIONS = ("iter", "_iterations")

# {path from an optimizer to a variable of its loss scale: field of `OptimizerState`}. The last
# two paths are those of Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    "loss_scale/current_loss_scale": "scale",
    "loss_scale/good_steps": "count",
    "dynamic_scale": "scale",
    "step_counter": "count",
}

# tf_lso adds the variables at these paths to a SavedModel if a training step was traced. They
# are not part of the optimizer's state.
OF_TRACED_STEPS = (
    "skipped_steps",
    "consecutive_skipped_steps",
    "last_skipped_step",
    "overflowed",
    "loss_scale/skipped_in_a_row",
)

# Maps the name of a variable in a checkpoint to the hyperparameter that the variable holds.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Maps each name of Nadam's product of momentums to the name that tf_lso uses.
SCALARS = dict.fromkeys(("momentum_cache", "_m_cache", "_u_product"), "momentum_cache")

# The attribute in which tf_keras stores the current rate of a schedule, at each step.
COMPUTED = "_current_learning_rate"

# A search for the slots and hyperparameters of an optimizer ignores these attributes.
NO_STATE = (*ITERATIONS, COMPUTED, *table.LISTS_OF_VARIABLES)

# An .h5 file of Keras 2 has no place for a loss scale, so `install.loading_keras2` adds this
# group.
OWN_GROUP = "tf_lso_loss_scale"


def plain(name):
    """Return a variable's name without the ":0" that graphs append."""
    return name.split(":")[0]


def last(name):
    """Return the part of a variable's name after the last slash, without ":0"."""
    return plain(name).split("/")[-1]


def owner(name, variables, slot=None):
    """Return the key of the model variable to which an optimizer variable belongs.

    The name of the optimizer variable ends with the name of the model variable. The longest
    such name counts. The result is `UNKNOWN` unless exactly one variable has this name.
    """
    name = plain(name).removesuffix(f"/{slot}")
    own = {key: plain(variable.name) for key, variable in variables.items()}
    ends = {k: len(end) for k, end in own.items() if end and name.endswith(f"/{end}")}
    return _longest(ends)


def _longest(lengths):
    """Return the key whose length is greatest, or `UNKNOWN` if there is not exactly one."""
    found = [key for key, length in lengths.items() if length == max(lengths.values())]
    return found[0] if len(found) == 1 else UNKNOWN


def owner_in_keras3(name, variables):
    """Return the owner of a slot of Keras 3, whose name contains that of the model variable."""
    name = f"_{last(name)}"
    own = {k: plain(v.name).replace("/", "_") for k, v in variables.items()}
    ends = {k: len(own) for k, own in own.items() if own and f"_{own}_" in name}
    return _longest(ends)


def any_owner(name, variables):
    """Return the result of `owner`, or of `owner_in_keras3` if that is `UNKNOWN`."""
    found = owner(name, variables)
    return owner_in_keras3(name, variables) if found is UNKNOWN else found


def slot_of(name, class_name):
    """Return the name of the slot that the name of an optimizer variable contains, or None."""
    slots, parts = table.of([class_name]).slots, plain(name).split("/")
    if parts[-1] in slots:
        return parts[-1]
    known = {table.singular(a): slot for a, slot in table.by_attribute(slots).items()}
    known |= {slot: slot for slot in (*slots, *table.AVERAGE)}
    known |= {"m": "momentum"} if class_name == "SGD" else {}
    return next((known[part] for part in parts[:2] if part in known), None)


def list_of(name, attributes):
    """Return the attribute whose list contains the Keras 3 slot called `name`, or None."""
    own = f"_{last(name)}"
    return next((a for a in attributes if own.endswith(f"_{table.ENDS[a]}")), None)


def optimizer_class(entries, family):
    """Return the class name that the names of an optimizer's variables contain, or None."""
    parts = {part for entry in entries for part in plain(entry.name).split("/")[:-1]}
    names = {*table.OPTIMIZERS}
    if keras_versions.has_keras3():
        # `optimizer_table` lacks some optimizer classes of Keras 3.
        public = vars(keras_versions.public("keras").optimizers).items()
        classes = {name for name, value in public if isinstance(value, type)}
        # Omit wrappers such as `LossScaleOptimizer`, whose names end with "Optimizer".
        names |= {n for n in classes if not n.endswith("Optimizer")}
    if family == "keras3":
        # Keras 3 names the first RMSprop of a program "rm_sprop" and the second "rm_sprop_1".
        parts = {re.sub(r"_(\d+$)?", "", part).lower() for part in parts}
    known = {n for n in names if (n.lower() if family == "keras3" else n) in parts}
    return known.pop() if len(known) == 1 else None


def trained_layers(config, is_trained=True):
    """Return a list that says for each layer in a model's config whether it is trained."""
    if isinstance(config, dict):
        below = config.get("config")
        if isinstance(below, dict) and "trainable" in below:
            is_trained = is_trained and bool(below["trainable"])
            return [is_trained, *trained_layers(below, is_trained)]
        config = list(config.values())
    if not isinstance(config, (list, tuple)):
        return []
    return [flag for part in config for flag in trained_layers(part, is_trained)]
