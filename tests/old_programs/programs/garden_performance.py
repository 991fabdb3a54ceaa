"""What programs copied of the model garden's `official.modeling.performance`."""

import tensorflow as tf
from tensorflow.keras import mixed_precision


def configure_optimizer(
    optimizer, use_float16=False, use_graph_rewrite=False, loss_scale=None
):
    """Configures optimizer object with performance options."""
    if use_float16:
        if loss_scale in (None, "dynamic"):
            optimizer = mixed_precision.LossScaleOptimizer(optimizer)
        else:
            # loss_scale is a number. We interpret that as a fixed loss scale.
            optimizer = mixed_precision.LossScaleOptimizer(
                optimizer, dynamic=False, initial_scale=loss_scale
            )
    if use_graph_rewrite:
        # Note: the model dtype must be 'float32', which will ensure
        # tf.keras.mixed_precision and enable_mixed_precision_graph_rewrite do not
        # double up.
        optimizer = tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(
            optimizer
        )
    return optimizer


def set_mixed_precision_policy(dtype):
    """Sets the global `tf.keras.mixed_precision.Policy`."""
    if dtype == tf.float16:
        mixed_precision.set_global_policy("mixed_float16")
    elif dtype == tf.bfloat16:
        mixed_precision.set_global_policy("mixed_bfloat16")
    elif dtype == tf.float32:
        mixed_precision.set_global_policy("float32")
    else:
        raise ValueError("Unexpected dtype: %s" % dtype)
