"""Write the loss scale for TensorBoard from a training loop."""

from typing import Any

import tensorflow as tf

from tf_lso.frameworks import environment, graphs
from tf_lso.optimizers import stuck


@tf.autograph.experimental.do_not_convert
def loss_scale(optimizer: Any, step: Any = None) -> None:
    """Write the scalars `loss_scale` and `skipped_steps` with the default summary writer.

    Call this function in eager code or in a `tf.function` without `jit_compile=True`. If
    there are several replicas, only the first replica writes.

    Args:
      optimizer: `tf_lso.LossScaleOptimizer`.
      step: int or int64 scalar tensor, the position on the horizontal axis. Defaults to
        the optimizer's `iterations`.

    Raises:
      TypeError: if `optimizer` is not a `tf_lso.LossScaleOptimizer`.
      ImportError: if TensorBoard is not installed.

    Example:
    >>> import tempfile
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     for step in range(3):
    ...         tf_lso.summary.loss_scale(opt, step)

    Source: tf_lso adds this; TensorFlow never had it.
    """
    environment.require_tensorboard("tf_lso.summary.loss_scale()")
    stuck.require_own(optimizer, "tf_lso.summary.loss_scale()")
    if not graphs.is_first_replica():
        return
    step = optimizer.iterations if step is None else step
    step = tf.cast(tf.convert_to_tensor(step), tf.int64)
    tf.summary.scalar("loss_scale", optimizer.loss_scale, step)
    tf.summary.scalar("skipped_steps", optimizer.skipped_steps, step)
