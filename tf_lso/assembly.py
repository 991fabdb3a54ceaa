"""The one place that joins the optimizers, the policies and what is changed in Keras.

Each of them stands by itself: none imports another that is above it. What a program
imports, `tf_lso` and the mirrors, imports this.
"""

import functools

from tf_lso import environment

environment.require_tensorflow()  # before Keras is asked for what it may not have

# ruff: noqa: E402
from tf_lso import events, keras_patches
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.wrapping import wrap

__all__ = ["LossScaleOptimizer", "wrap"]


def _help_to_save(keras):
    # Files of tf_keras would leave state out without a word; those of Keras 3 do not.
    if keras.__name__ == "tf_keras":
        keras_patches.enable(keras_patches.LOADING, keras)


events.optimizer_wrapped.register(_help_to_save)
events.policy_set.register(
    functools.partial(keras_patches.enable, keras_patches.COMPILING)
)
