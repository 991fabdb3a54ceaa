"""The rules: what each diagnostic is about, by its id."""

import dataclasses

GONE, CHANGED, SAME = "LSO101", "LSO102", "LSO103"
ARGUMENTS, METHOD, SILENT = "LSO104", "LSO105", "LSO106"
NO_STAND_IN, UNSEEN = "LSO107", "LSO108"
OPTIMIZER, PROTOCOL, FILES, STATE = "LSO109", "LSO110", "LSO111", "LSO112"


@dataclasses.dataclass(frozen=True)
class Rule:
    """One kind of diagnostic.

    Attributes:
      title: what it finds, in a few words.
      about: what happens today, and what to do.
      before: a program that it finds.
      after: what `migrate` makes of it, or "" where it lists the place only.
    """

    title: str
    about: str
    before: str
    after: str = ""


_TF = "import tensorflow as tf\n\n"
_INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"
RULES = {
    GONE: Rule(
        "a name that is gone",
        "The module or name existed in some TensorFlow from 2.0 to 2.15, and is an "
        "AttributeError or an ImportError today. tf_lso has it under the same name, with "
        "`tf_lso` for `tf`.",
        "from tensorflow.keras.mixed_precision import experimental as mp\n\n"
        'mp.set_policy("mixed_float16")\n',
        "from tf_lso.keras.mixed_precision import experimental as mp\n\n"
        'mp.set_policy("mixed_float16")\n',
    ),
    CHANGED: Rule(
        "a name that does something else",
        "The name is still there, but does something else: Keras 3's LossScaleOptimizer "
        "lacks the old methods, and `set_global_policy` makes `compile` wrap optimizers by "
        "it. tf_lso has what it did.",
        _TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n",
        "import tf_lso\n\nopt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n",
    ),
    SAME: Rule(
        "a name that works as it did",
        "Listed to be complete. It stays as it is, unless its import has to change for "
        "another name, or `migrate --prefer tf_lso` is asked for.",
        _TF + "print(tf.keras.mixed_precision.global_policy().name)\n",
    ),
    ARGUMENTS: Rule(
        "arguments that today's class refuses or takes for something else",
        "Keras 3's LossScaleOptimizer takes other arguments in other places. tf_lso's takes "
        "those of TensorFlow 2.4-2.15. What no version took is refused by both, and listed.",
        _TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(\n"
        "    inner, dynamic=False, initial_scale=128\n)\n",
        "import tf_lso\n\nopt = tf_lso.keras.mixed_precision.LossScaleOptimizer(\n"
        "    inner, dynamic=False, initial_scale=128\n)\n",
    ),
    METHOD: Rule(
        "a method or attribute of the old optimizer",
        "Keras 3's LossScaleOptimizer does not have it. tf_lso's optimizers do, so the "
        "line stays as it is: what makes the optimizer has to change. `migrate` lists the "
        "place where that is not in the same program.",
        _TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "loss = opt.get_scaled_loss(loss)\n",
        "import tf_lso\n\nopt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "loss = opt.get_scaled_loss(loss)\n",
    ),
    SILENT: Rule(
        "a guard that trains wrong, silently",
        "A `hasattr`, a `getattr` or an except clause passes over Keras 3's optimizer. The "
        "loss is not scaled, but the gradients are divided by the scale all the same. "
        "tf_lso's optimizers have what the guard asks for.",
        _TF + 'if hasattr(opt, "get_scaled_loss"):\n'
        "    loss = opt.get_scaled_loss(loss)\n",
        _INSTALL + _TF + 'if hasattr(opt, "get_scaled_loss"):\n'
        "    loss = opt.get_scaled_loss(loss)\n",
    ),
    NO_STAND_IN: Rule(
        "a name that tf_lso has nothing for",
        "tf.contrib is gone since TensorFlow 2.0, or no version had such a name in public. "
        "It is listed; only a person can say what was meant.",
        "from tensorflow.contrib.mixed_precision import FixedLossScaleManager\n",
    ),
    UNSEEN: Rule(
        "a name that cannot be seen",
        "A star import, a name that is computed, a text, a magic, or a name that is also "
        "bound to something else: only a run tells what it is. It is listed.",
        "from tensorflow.keras.mixed_precision import *\n",
    ),
    OPTIMIZER: Rule(
        "an old argument, attribute or namespace of plain optimizers",
        "`lr=`, `decay=`, `optimizer.lr`, `optimizers.legacy` and more worked up to "
        "TensorFlow 2.10 or 2.15. Under tf_lso.install() they work, so `migrate` adds it.",
        _TF + "inner = tf.keras.optimizers.SGD(lr=0.5)\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n",
        _INSTALL + _TF + "inner = tf.keras.optimizers.SGD(lr=0.5)\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n",
    ),
    PROTOCOL: Rule(
        "an optimizer class by the protocol of TensorFlow 2.0-2.10",
        "`_resource_apply_dense`, `_resource_apply_sparse`, `_set_hyper` and "
        "`_create_slots` are never called by the optimizers since 2.11: the class trains "
        "as its base class does, or fails. `tf-lso run --like 2.4` gives it the old base "
        "class; else derive it from `tf.keras.optimizers.legacy.Optimizer` of tf_keras.",
        _TF + "class AdamWeightDecay(tf.keras.optimizers.Adam):\n"
        "    def _resource_apply_dense(self, grad, var, apply_state=None):\n"
        "        return super()._resource_apply_dense(grad, var, apply_state)\n",
    ),
    FILES: Rule(
        "files of older versions that are read",
        "Today's Keras does not read the optimizers of old models, and "
        "tf.train.Checkpoint leaves out what it cannot place, without a word. Under "
        "tf_lso.install() they are restored whole, so `migrate` adds it.",
        _TF + "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "tf.train.Checkpoint(optimizer=opt, model=model).restore(path)\n",
        _INSTALL
        + _TF
        + "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "tf.train.Checkpoint(optimizer=opt, model=model).restore(path)\n",
    ),
    STATE: Rule(
        "TensorFlow's private state of a loss scale",
        "Classes derived from `_DynamicLossScaleState` and assignments to `_loss_scale` "
        "reached into one version of the optimizer. Derive the class from "
        "`tf_lso.LossScale`, and give it to the experimental LossScaleOptimizer.",
        "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer\n\n\n"
        "class Mine(loss_scale_optimizer._DynamicLossScaleState):\n    pass\n",
    ),
}


def explained(rule: str) -> str:
    """Return the entry of a rule, for people."""
    entry = RULES[rule]
    parts = [f"{rule}: {entry.title}", entry.about, "Before:", _indented(entry.before)]
    if entry.after:
        parts += ["After `tf-lso migrate`:", _indented(entry.after)]
    else:
        parts.append("`tf-lso migrate` changes nothing here.")
    return "\n\n".join(parts) + "\n"


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.rstrip().split("\n"))
