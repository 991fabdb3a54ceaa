"""The layouts of files, and the names of variables in them, as tables.

| program | variable | its slot "m" |
|---|---|---|
| OptimizerV2 | `dense/kernel` | `Adam/dense/kernel/m` |
| newer, TensorFlow 2.9-2.10 | `dense/kernel` | `Adam/m/dense/kernel` |
| newer, since 2.11 | `dense/kernel` | `m/dense/kernel` |
| Keras 3 | `dense/kernel` | `adam/dense_kernel_momentum` |
"""

import re

from tf_lso import keras_versions
from tf_lso import optimizer_table as table
from tf_lso.checkpoints.source import UNKNOWN

# Layout of a checkpoint -> what wrote it.
LAYOUTS = {
    "2.0-2.2": "tf.train.Checkpoint of TensorFlow 2.0-2.2, with a loss scale",
    "v2": "tf.train.Checkpoint of an OptimizerV2: TensorFlow 2.0-2.15, tf_keras",
    "new": "tf.train.Checkpoint of the newer optimizers: TensorFlow 2.9-2.15, tf_keras",
    "keras3": "tf.train.Checkpoint of Keras 3 or tf_lso",
    "model": "tf.train.Checkpoint without an optimizer",
}

# Layout of a checkpoint -> the family that wrote it.
FAMILIES = {"2.0-2.2": "legacy", "v2": "legacy", "new": "new", "keras3": "keras3"}

# Keys of configs that only one family has, those of the others included.
_KEYS = {
    "keras3": {"loss_scale_factor", "gradient_accumulation_steps"},
    "new": {"is_legacy_optimizer"},
    "legacy": {"decay"},
}

# Where the optimizer itself stands below its wrapper: in TensorFlow 2.0-2.2; in Keras 3.
INNER = ("base_optimizer", "inner_optimizer")

# Attribute with the step counter: in OptimizerV2, in all others.
ITERATIONS = ("iter", "_iterations")

# Attributes that lead from the optimizer to a variable of the loss scale -> what it is.
# The last two are those of Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    "loss_scale/current_loss_scale": "scale",
    "loss_scale/good_steps": "count",
    "dynamic_scale": "scale",
    "step_counter": "count",
}

# Attributes that lead to variables that traced steps of tf_lso use, which are no state.
# Only SavedModels have them; the last only with a dynamic scale.
OF_TRACED_STEPS = ("skipped_steps", "overflowed", "loss_scale/skipped_in_a_row")

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

# The slot of gradients that are accumulated over steps, which only Keras 3 has.
ACCUMULATED = "_accumulated_gradients"


def family_of_config(config):
    """Return the family whose optimizer has this config, None if it does not tell."""
    return next((f for f, keys in _KEYS.items() if keys & config.keys()), None)


def plain(name):
    """Return a variable's name without the output number that graphs added."""
    return name.split(":")[0]


def owner(name, variables, slot=None):
    """Return the key of the model variable that an optimizer variable belongs to.

    `UNKNOWN` if no variable has that name, or more than one. OptimizerV2 puts the name of
    the slot after that of the variable. `variables` is as in `Source`.
    """
    name = plain(name)
    if slot is not None:
        name = name.removesuffix(f"/{slot}")
    lengths = {
        key: len(own)
        for key, own in ((key, plain(v.name)) for key, v in variables.items())
        if own and name.endswith(f"/{own}")
    }
    longest = max(lengths.values(), default=0)
    found = [key for key, length in lengths.items() if length == longest]
    return found[0] if len(found) == 1 else UNKNOWN


def slot_of(name, class_name):
    """Return the name of the slot in the name of an optimizer variable, or None."""
    facts = table.of([class_name])
    parts = plain(name).split("/")
    if parts[-1] in facts.slots:  # OptimizerV2
        return parts[-1]
    known = {slot: slot for slot in (*facts.slots, *table.AVERAGE)}
    known |= facts.variable_names
    # At most the name of the class comes before it.
    return next((known[part] for part in parts[:2] if part in known), None)


def list_of(name, attributes):
    """Return the one of the attributes to whose list a slot of Keras 3 belongs, or None."""
    last = plain(name).split("/")[-1]
    ends = ((attribute, table.ENDS[attribute]) for attribute in attributes)
    return next((a for a, end in ends if f"_{last}".endswith(f"_{end}")), None)


def optimizer_class(entries, family):
    """Return the class name that the names of an optimizer's variables tell, or None.

    If the user named the optimizer, they do not tell it. Nor do the names of the newer
    optimizers of TensorFlow 2.11-2.15.
    """
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
