"""The layouts of files, and the names of variables in them, as tables.

The slot "m" of the variable `dense/kernel` is `Adam/dense/kernel/m` in OptimizerV2, in
newer optimizers `Adam/m/dense/kernel` (TensorFlow 2.9-2.10) or `m/dense/kernel` (since
2.11), and `adam/dense_kernel_momentum` in Keras 3.
"""

import re

from tf_lso.checkpoints.source import UNKNOWN
from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# Steps of a path to a variable that are no attribute. A number follows: of a layer among
# those with weights, as in checkpoints; of a weight of a layer in the order of Keras; of
# a variable among those that an object made itself.
LAYER_STEP, WEIGHT_STEP, VARS_STEP = "layer_with_weights-", "#", "vars"

# Layout of a checkpoint -> the family that wrote it, and what that was.
LAYOUTS = {
    "2.0-2.2": ("legacy", "TensorFlow 2.0-2.2, with a loss scale"),
    "v2": ("legacy", "an OptimizerV2 of TensorFlow 2.0-2.15 or tf_keras"),
    "new": ("new", "a newer optimizer of TensorFlow 2.9-2.15 or tf_keras"),
    "keras3": ("keras3", "Keras 3 or tf_lso"),
}

# Key of configs that only one family has -> the family.
OF_CONFIGS = {
    "loss_scale_factor": "keras3",
    "is_legacy_optimizer": "new",
    "decay": "legacy",
}

# Attribute with the step counter: in OptimizerV2, in all others.
ITERATIONS = ("iter", "_iterations")

# Attributes that lead to a variable of the loss scale -> what it is. The last two are
# those of Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    "loss_scale/current_loss_scale": "scale",
    "loss_scale/good_steps": "count",
    "dynamic_scale": "scale",
    "step_counter": "count",
}

# Attributes in SavedModels that lead to variables of traced steps of tf_lso, no state.
OF_TRACED_STEPS = (
    "skipped_steps",
    "consecutive_skipped_steps",
    "overflowed",
    "loss_scale/skipped_in_a_row",
)

# Name in a checkpoint of a hyperparameter that is a variable -> the hyperparameter.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Names that families give to one variable, in a file or as an attribute -> what it is.
SCALARS = dict.fromkeys(("momentum_cache", "_m_cache", "_u_product"), "momentum_cache")

# A variable of tf_keras that each step computes from the schedule of the learning rate.
COMPUTED = "_current_learning_rate"

# Attributes of optimizers that lead to no slot and no scalar.
NO_STATE = (*ITERATIONS, COMPUTED, "_variables", "_trainable_variables")

# The group of .h5 files of Keras 2 for what `loading_keras2` adds.
OWN_GROUP = "tf_lso_loss_scale"


def plain(name):
    """Return a variable's name without the output number that graphs added."""
    return name.split(":")[0]


def last(name):
    """Return the last part of a variable's name."""
    return plain(name).split("/")[-1]


def owner(name, variables, slot=None):
    """Return the key in `variables` that an optimizer variable belongs to, or `UNKNOWN`."""
    name = plain(name).removesuffix(f"/{slot}")  # OptimizerV2 puts the slot last
    own = {key: plain(variable.name) for key, variable in variables.items()}
    ends = {k: len(end) for k, end in own.items() if end and name.endswith(f"/{end}")}
    found = [key for key, length in ends.items() if length == max(ends.values())]
    return found[0] if len(found) == 1 else UNKNOWN


def slot_of(name, class_name):
    """Return the name of the slot in the name of an optimizer variable, or None."""
    slots, parts = table.of([class_name]).slots, plain(name).split("/")
    if parts[-1] in slots:  # OptimizerV2
        return parts[-1]
    known = {table.singular(a): slot for a, slot in table.by_attribute(slots).items()}
    known |= {slot: slot for slot in (*slots, *table.AVERAGE)}
    known |= {"m": "momentum"} if class_name == "SGD" else {}
    # At most the name of the class comes before it.
    return next((known[part] for part in parts[:2] if part in known), None)


def list_of(name, attributes):
    """Return which of the attributes, lists of slots of Keras 3, has the name, or None."""
    own = f"_{last(name)}"
    return next((a for a in attributes if own.endswith(f"_{table.ENDS[a]}")), None)


def optimizer_class(entries, family):
    """Return the class name that the names of an optimizer's variables tell, or None."""
    parts = {part for entry in entries for part in plain(entry.name).split("/")[:-1]}
    names = {*table.OPTIMIZERS}
    if keras_versions.has_keras3():  # whose other classes no table knows
        public = vars(keras_versions.public("keras").optimizers).items()
        classes = {name for name, value in public if isinstance(value, type)}
        names |= {n for n in classes if not n.endswith("Optimizer")}  # no wrappers
    if family == "keras3":  # an RMSprop is called "rm_sprop", and the next "rm_sprop_1"
        parts = {re.sub(r"_(\d+$)?", "", part).lower() for part in parts}
    known = {n for n in names if (n.lower() if family == "keras3" else n) in parts}
    return known.pop() if len(known) == 1 else None
