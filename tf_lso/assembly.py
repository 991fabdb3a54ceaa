"""The one place that joins the optimizers, the policies and what is changed in Keras.

Each of them stands by itself: none imports another that is above it. `tf_lso/__init__`
imports this module, so it is there whichever module of tf_lso a program or a file names.
It imports the others only when they are needed, so `import tf_lso` needs no TensorFlow.
"""

from tf_lso import events, kerases


def _optimizer_wrapped(package: str) -> None:
    # Files of Keras 2 would leave state out without a word; those of Keras 3 do not.
    if kerases.is_keras2(package):
        from tf_lso import keras_patches

        keras_patches.enable(keras_patches.LOADING, package)


def _policy_set(package: str) -> None:
    from tf_lso import keras_patches

    keras_patches.enable(keras_patches.COMPILING, package)


def _wrappers_wanted() -> tuple[type, type]:
    from tf_lso.optimizers import experimental, loss_scale_optimizer

    return loss_scale_optimizer.LossScaleOptimizer, experimental.LossScaleOptimizer


def join() -> None:
    """Register what answers each event; `tf_lso/__init__` calls this once."""
    events.optimizer_wrapped.register(_optimizer_wrapped)
    events.policy_set.register(_policy_set)
    events.wrappers_wanted.register(_wrappers_wanted)
