"""The optimizer of `horovod.tensorflow.keras`, and its callbacks."""

import tensorflow as tf

from horovod.tensorflow import (  # noqa: F401
    Average,
    Compression,
    Sum,
    allreduce,
    broadcast_variables,
    grouped_allreduce,
    init,
    local_rank,
    local_size,
    rank,
    size,
)


def DistributedOptimizer(
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=Average,
):
    """Return an optimizer like `optimizer` whose gradients are means over the processes.

    The class of the new optimizer derives from the class of `optimizer`. In `minimize`, Keras
    calls `_compute_gradients`, which computes the means. A loop passes gradients directly to
    `apply_gradients`, which applies them unchanged.
    """

    def reduced(grads_and_vars):
        gradients, variables = zip(*grads_and_vars)
        gradients = grouped_allreduce(gradients, op=op, compression=compression)
        return list(zip(gradients, variables))

    class _Distributed:
        _HAS_AGGREGATE_GRAD = True

        def __init__(self, **kwargs):
            super(self.__class__, self).__init__(**kwargs)
            self._name = name or "Distributed" + self.__class__.__base__.__name__

        def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
            above = super(self.__class__, self)
            if hasattr(above, "_compute_gradients"):
                pairs = above._compute_gradients(loss, var_list, grad_loss, tape)
            else:
                pairs = above.compute_gradients(loss, var_list, tape=tape)
            return reduced(pairs)

        def compute_gradients(self, loss, var_list, tape=None):
            return self._compute_gradients(loss, var_list, None, tape)

        def get_gradients(self, loss, params):
            gradients = super(self.__class__, self).get_gradients(loss, params)
            return [gradient for gradient, _ in reduced(zip(gradients, params))]

        def _aggregate_gradients(self, grads_and_vars):
            above = super(self.__class__, self)
            if hasattr(above, "_aggregate_gradients"):
                return above._aggregate_gradients(grads_and_vars)
            return above.aggregate_gradients(grads_and_vars)

    above = optimizer.__class__
    contents = {k: v for k, v in vars(_Distributed).items() if k != "__dict__"}
    cls = type(above.__name__, (above,), contents)
    return cls.from_config(optimizer.get_config())


class _Broadcast(tf.keras.callbacks.Callback):
    """Broadcasts the variables of one process to all others after the first batch."""

    def __init__(self, root_rank):
        super().__init__()
        self.root_rank, self.done = root_rank, False

    def on_batch_end(self, batch, logs=None):
        """Broadcast once."""
        if not self.done:
            broadcast_variables(self.model.variables, self.root_rank)
            self.done = True


class callbacks:
    """The module of callbacks."""

    BroadcastGlobalVariablesCallback = _Broadcast
