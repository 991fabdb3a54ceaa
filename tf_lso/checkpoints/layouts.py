"""Tables of the layouts of files and of the names that files give to variables.

For example, the slot "m" of the variable `dense/kernel` has these names:
`Adam/dense/kernel/m` in OptimizerV2, `Adam/m/dense/kernel` (TensorFlow 2.9-2.10) or
`m/dense/kernel` (since 2.11) in newer optimizers, and `adam/dense_kernel_momentum` in Keras 3.
"""

import re

from tf_lso.checkpoints.source import UNKNOWN
from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import optimizer_table as table

# Steps of a path that are not attributes. Each of these steps is followed by a number, which
# counts the layers with weights, the weights of a layer in Keras's order, or the variables that
# an object created itself.
LAYER_STEP = "layer_with_weights-"
WEIGHT_STEP = "#"
VARS_STEP = "vars"

# Maps the layout of a checkpoint to the family of the saved optimizer and to a description of
# the programs that wrote such checkpoints.
LAYOUTS = {
    "2.0-2.2": ("legacy", "TensorFlow 2.0-2.2, with a loss scale"),
    "v2": ("legacy", "an OptimizerV2 of TensorFlow 2.0-2.15 or tf_keras"),
    "new": ("new", "a newer optimizer of TensorFlow 2.9-2.15 or tf_keras"),
    "keras3": ("keras3", "Keras 3 or tf_lso"),
}

# Maps a config key to the only family whose configs have this key.
OF_CONFIGS = {
    "loss_scale_factor": "keras3",
    "is_legacy_optimizer": "new",
    "decay": "legacy",
}

# Names of the attribute that holds the step counter: the first in OptimizerV2, the second in
# all other optimizers.
ITERATIONS = ("iter", "_iterations")

# Maps the path of a variable of the loss scale to a field of `OptimizerState`. The last
# two paths belong to Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    "loss_scale/current_loss_scale": "scale",
    "loss_scale/good_steps": "count",
    "dynamic_scale": "scale",
    "step_counter": "count",
}

# Paths in SavedModels to variables of tf_lso's traced steps. These variables are not part of
# the optimizer's state.
OF_TRACED_STEPS = (
    "skipped_steps",
    "consecutive_skipped_steps",
    "overflowed",
    "loss_scale/skipped_in_a_row",
)

# Maps the name of a variable in a checkpoint to the hyperparameter that the variable holds.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Maps a name that one family uses for a variable to the name that tf_lso uses in all families.
SCALARS = dict.fromkeys(("momentum_cache", "_m_cache", "_u_product"), "momentum_cache")

# The attribute in which an optimizer of tf_keras keeps the current learning rate. Each step
# sets this variable if the learning rate is a schedule.
COMPUTED = "_current_learning_rate"

# Attributes of optimizers that are neither slots nor scalars.
NO_STATE = (*ITERATIONS, COMPUTED, "_variables", "_trainable_variables")

# The group that `install.loading_keras2` adds to .h5 files of Keras 2.
OWN_GROUP = "tf_lso_loss_scale"


def plain(name):
    """Return a variable's name without the ":0" that graphs append."""
    return name.split(":")[0]


def last(name):
    """Return the last part of a variable's name."""
    return plain(name).split("/")[-1]


def owner(name, variables, slot=None):
    """Return the key of an optimizer variable's model variable, or `UNKNOWN`.

    Args:
      name: the name of the optimizer variable.
      variables: {key: Entry of a model variable}.
      slot: the name of the slot, or None.
    """
    name = plain(name).removesuffix(f"/{slot}")  # OptimizerV2 appends the slot
    own = {key: plain(variable.name) for key, variable in variables.items()}
    ends = {k: len(end) for k, end in own.items() if end and name.endswith(f"/{end}")}
    return _longest(ends)


def _longest(lengths):
    """Return the key of the greatest length, or `UNKNOWN` if not exactly one key has it."""
    found = [key for key, length in lengths.items() if length == max(lengths.values())]
    return found[0] if len(found) == 1 else UNKNOWN


def owner_in_keras3(name, variables):
    """Return the key of the model variable that a slot's name of Keras 3 contains.

    Such a name is `adam/dense_kernel_momentum` for the variable `dense/kernel`. The result is
    `UNKNOWN` if the name contains no variable's name, or several of the same length.
    """
    name = f"_{last(name)}"
    own = {k: plain(v.name).replace("/", "_") for k, v in variables.items()}
    ends = {k: len(own) for k, own in own.items() if own and f"_{own}_" in name}
    return _longest(ends)


def any_owner(name, variables):
    """Return what `owner` finds, or else what `owner_in_keras3` finds."""
    found = owner(name, variables)
    return owner_in_keras3(name, variables) if found is UNKNOWN else found


def slot_of(name, class_name):
    """Return the slot that the name of an optimizer variable contains, or None."""
    slots, parts = table.of([class_name]).slots, plain(name).split("/")
    if parts[-1] in slots:  # OptimizerV2
        return parts[-1]
    known = {table.singular(a): slot for a, slot in table.by_attribute(slots).items()}
    known |= {slot: slot for slot in (*slots, *table.AVERAGE)}
    known |= {"m": "momentum"} if class_name == "SGD" else {}
    # Before the slot, a name may contain only the name of the class.
    return next((known[part] for part in parts[:2] if part in known), None)


def list_of(name, attributes):
    """Return the attribute of Keras 3 whose list of slots contains a variable, or None.

    Args:
      name: the name of the variable.
      attributes: the names of the attributes to choose from.
    """
    own = f"_{last(name)}"
    return next((a for a in attributes if own.endswith(f"_{table.ENDS[a]}")), None)


def optimizer_class(entries, family):
    """Return the class name that the names of an optimizer's variables contain, or None."""
    parts = {part for entry in entries for part in plain(entry.name).split("/")[:-1]}
    names = {*table.OPTIMIZERS}
    if keras_versions.has_keras3():  # `optimizer_table` lacks some classes of Keras 3
        public = vars(keras_versions.public("keras").optimizers).items()
        classes = {name for name, value in public if isinstance(value, type)}
        names |= {n for n in classes if not n.endswith("Optimizer")}  # omits wrappers
    if family == "keras3":
        # Keras 3 calls the first RMSprop "rm_sprop" and the second "rm_sprop_1".
        parts = {re.sub(r"_(\d+$)?", "", part).lower() for part in parts}
    known = {n for n in names if (n.lower() if family == "keras3" else n) in parts}
    return known.pop() if len(known) == 1 else None
