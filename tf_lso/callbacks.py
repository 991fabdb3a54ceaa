"""Callbacks for `fit`. One shows the loss scale, and one stops training that is stuck."""

import os
from typing import Any

from tf_lso.frameworks import environment

environment.require_tensorflow()

# ruff: noqa: E402
import tensorflow as tf

from tf_lso import summary
from tf_lso.frameworks import log
from tf_lso.optimizers import stuck

# The type is Any, so that type checkers accept these callbacks in `fit` of every Keras.
_KerasCallback: Any = tf.keras.callbacks.Callback

_Logs = dict[str, Any] | None


class _Callback(_KerasCallback):
    """Base class of callbacks that work in `fit` of both Keras 3 and tf_keras."""

    _optimizer = None
    # Without this attribute, tf_keras waits for the device in every batch, to pass numbers in
    # `logs`. These callbacks do not read `logs`.
    _supports_tf_logs = True

    # tf_keras asks these methods for which batches it must call the callback.
    def _implements_train_batch_hooks(self):
        return True

    def _implements_test_batch_hooks(self):
        return False

    _implements_predict_batch_hooks = _implements_test_batch_hooks

    def on_train_begin(self, logs: _Logs = None) -> None:
        """Get the model's optimizer. Raise TypeError if the optimizer is not tf_lso's."""
        del logs
        name = f"tf_lso.callbacks.{type(self).__name__}"
        self._optimizer = stuck.require_own(
            getattr(self.model, "optimizer", None), name
        )

    def _the_optimizer(self):
        if self._optimizer is None:
            raise RuntimeError(
                f"{type(self).__name__} was added after training began. Pass it to "
                "fit(callbacks=[...]). In a custom training loop call "
                "tf_lso.summary.loss_scale() and tf_lso.raise_if_stuck()."
            )
        return self._optimizer


class LossScaleMonitor(_Callback):
    """Show the loss scale and the number of skipped steps.

    The callback adds `loss_scale` (a float) and `skipped_steps` (an int) to the `logs` of
    each epoch. The progress bar, `History` and the callbacks that follow in the list, such
    as `CSVLogger`, show both values.

    Args:
      log_dir: str or path of a folder. The callback also writes both values to this folder
        by `tf.summary`, with the optimizer's `iterations` as the step. Defaults to None,
        which writes nothing.
      per_batch: bool, whether to show and write the values at each batch too. If True,
        each batch waits for the device. Defaults to False.

    Raises:
      ImportError: if `log_dir` is not None and TensorBoard is not installed.
      TypeError: when training begins, if the model's optimizer is not a
        `tf_lso.LossScaleOptimizer`.

    Example:
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
    >>> model.compile(opt, "mse")
    >>> history = model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0,
    ...                     callbacks=[tf_lso.callbacks.LossScaleMonitor()])
    >>> history.history["loss_scale"], history.history["skipped_steps"]
    ([32768.0], [0])

    Source: tf_lso adds this; TensorFlow never had it.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, per_batch: bool = False
    ) -> None:
        super().__init__()
        if log_dir is not None:
            environment.require_tensorboard("LossScaleMonitor(log_dir=...)")
        self.log_dir = log_dir
        self.per_batch = per_batch
        self._writer = None

    def _implements_train_batch_hooks(self):
        return self.per_batch

    def on_train_begin(self, logs: _Logs = None) -> None:
        """Get the model's optimizer, and make the summary writer."""
        super().on_train_begin(logs)
        if self.log_dir is None:
            return
        # With several workers, only the chief writes summaries.
        strategy = getattr(self.model, "distribute_strategy", None)
        if strategy is None or strategy.extended.should_save_summary:
            self._writer = tf.summary.create_file_writer(os.fspath(self.log_dir))

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        """Do what `on_epoch_end` does, if `per_batch` is True."""
        if self.per_batch:
            self._show(logs)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        """Add the loss scale and the skipped steps to `logs`, and write summaries."""
        self._show(logs)

    def on_train_end(self, logs: _Logs = None) -> None:
        """Close the summary writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _show(self, logs):
        optimizer = self._the_optimizer()
        if logs is not None:
            logs["loss_scale"] = float(optimizer.loss_scale)
            logs["skipped_steps"] = int(optimizer.skipped_steps)
        if self._writer is not None:
            with self._writer.as_default():
                summary.loss_scale(optimizer)


class TerminateOnStuckScale(_Callback):
    """Stop training if all recent steps were skipped and the loss scale is at its minimum.

    Args:
      patience: int, the number of consecutive skipped steps after which training stops.
        The loss scale needs to be at its minimum only at the last of these steps. Defaults
        to 100.
      raise_error: bool. If True, `fit` raises an error. If False, `fit` logs a warning and
        returns. Defaults to False.

    Raises:
      TypeError: if `patience` is not an int. This error is also raised when training begins
        if the model's optimizer is not a `tf_lso.LossScaleOptimizer`.
      ValueError: if `patience` is less than 1.
      RuntimeError: in `fit`, if the callback stops training and `raise_error` is True. The
        message names the variables and says what to do.

    Example:
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), initial_scale=1.0)
    >>> model.compile(opt, "mse")
    >>> history = model.fit(
    ...     np.full([64, 2], np.nan), np.ones([64, 1]), batch_size=1, verbose=0,
    ...     callbacks=[tf_lso.callbacks.TerminateOnStuckScale(patience=10)])
    >>> int(opt.skipped_steps)
    10

    Source: tf_lso adds this; TensorFlow never had it.
    """

    def __init__(self, patience: int = 100, raise_error: bool = False) -> None:
        super().__init__()
        self.patience = stuck.check_patience(patience)
        self.raise_error = raise_error

    def on_train_begin(self, logs: _Logs = None) -> None:
        """Get the model's optimizer, and start to count batches."""
        super().on_train_begin(logs)
        self._batches_to_wait = self._batches_until_lost()

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        """Set the number of the last batch to -1, because each epoch begins with batch 0."""
        self._last_batch = -1

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        """Stop training after `patience` skipped steps if the scale is at its minimum."""
        optimizer = self._the_optimizer()
        # To read the count of skipped steps, Python must wait for the device. So read
        # the count only when enough steps may have been skipped. With
        # `steps_per_execution`, one call covers several steps, and `batch` is the
        # number of the last step.
        self._batches_to_wait -= batch - self._last_batch
        self._last_batch = batch
        if self._batches_to_wait > 0:
            return
        self._batches_to_wait = self._batches_until_lost()
        if self._batches_to_wait > 0:
            return
        message = stuck.message(optimizer, self.patience - self._batches_to_wait)
        if self.raise_error:
            raise RuntimeError(message)
        log.logger().warning("%s", message)
        self.model.stop_training = True

    def _batches_until_lost(self):
        """Return how many more steps must be skipped before the callback stops training."""
        return self.patience - int(self._optimizer._skipped.stuck())
