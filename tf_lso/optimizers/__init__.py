"""Optimizers that scale the loss.

The class is loaded when it is first used. So `tf-lso check` and `tf-lso migrate` can read
`table` without TensorFlow.
"""

__all__ = ["LossScaleOptimizer", "face_of", "is_optimizer", "prepare_for_tf_keras"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tf_lso.optimizers import loss_scale_optimizer

    return getattr(loss_scale_optimizer, name)
