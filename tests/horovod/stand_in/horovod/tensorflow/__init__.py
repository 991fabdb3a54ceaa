"""Sums and means of tensors over processes, and a tape that returns mean gradients."""

import os
import time
from multiprocessing import connection

import tensorflow as tf

Average, Sum = "Average", "Sum"
# Rank 0 has connections to all other processes, and they have a connection to rank 0.
_peers = []


class Compression:
    """The dtypes in which gradients can be sent."""

    none, fp16 = "none", "fp16"


def init():
    """Connect the processes. Environment variables contain the rank, size and port."""
    if size() == 1 or _peers:
        return
    address = "127.0.0.1", int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    if rank() == 0:
        with connection.Listener(address, backlog=size()) as listener:
            _peers.extend(listener.accept() for _ in range(size() - 1))
        return
    for _ in range(1200):
        try:
            _peers.append(connection.Client(address))
            return
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise TimeoutError("rank 0 is not there")


def size():
    """Return the number of processes."""
    return int(os.environ.get("HOROVOD_SIZE", "1"))


def rank():
    """Return the number of this process."""
    return int(os.environ.get("HOROVOD_RANK", "0"))


local_rank, local_size = rank, size


def _together(values, combine):
    """Combine the lists of arrays of all processes. Return the result in every process."""
    if rank() != 0:
        _peers[0].send(values)
        return _peers[0].recv()
    result = combine([values] + [peer.recv() for peer in _peers])
    for peer in _peers:
        peer.send(result)
    return result


def _sums(lists):
    return [sum(arrays[1:], arrays[0]) for arrays in zip(*lists)]


def _all_together(tensors, combine):
    """Combine lists of tensors of all processes, eagerly or in a graph."""
    if size() == 1 or not tensors:
        return tensors

    def call(*arrays):
        return _together([array.copy() for array in arrays], combine)

    types = [tensor.dtype for tensor in tensors]
    results = tf.numpy_function(call, tensors, types)
    for result, tensor in zip(results, tensors):
        result.set_shape(tensor.shape)
    return results


def grouped_allreduce(tensors, average=None, op=None, compression=Compression.none):
    """Return the mean or sum of each tensor over the processes. None stays None."""
    del average
    there = [tf.convert_to_tensor(tensor) for tensor in tensors if tensor is not None]
    sent = [
        tf.cast(tensor, "float16") if compression == Compression.fp16 else tensor
        for tensor in there
    ]
    sums = _all_together(sent, _sums)
    divisor = 1 if op == Sum else size()
    results = iter(
        [tf.cast(one, tensor.dtype) / divisor for one, tensor in zip(sums, there)]
    )
    return [None if tensor is None else next(results) for tensor in tensors]


def allreduce(tensor, average=None, op=None, compression=Compression.none, name=None):
    """Return the mean or sum of a tensor over the processes."""
    del name
    return grouped_allreduce([tensor], average, op, compression)[0]


def broadcast_variables(variables, root_rank):
    """Assign the values of rank 0 to the variables of all processes."""
    assert root_rank == 0
    values = _all_together([tf.identity(v) for v in variables], lambda lists: lists[0])
    for variable, value in zip(variables, values):
        variable.assign(value)


class _DistributedGradientTape(tf.GradientTape):
    def __init__(self, tape, op, compression, persistent=False, watch=True):
        super(self.__class__, self).__init__(persistent, watch)
        self._tape, self._reduction = tape, (op, compression)

    def gradient(self, target, sources, output_gradients=None):
        gradients = super(self.__class__, self).gradient(
            target, sources, output_gradients
        )
        op, compression = self._reduction
        return grouped_allreduce(gradients, op=op, compression=compression)


def DistributedGradientTape(
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=Average,
):
    """Return a tape whose gradients are means over the processes."""
    del device_dense, device_sparse, sparse_as_dense
    cls = type(
        gradtape.__class__.__name__,
        (gradtape.__class__,),
        dict(_DistributedGradientTape.__dict__),
    )
    persistent = gradtape._persistent
    made = cls(gradtape._tape, op, compression, persistent, True)
    made.__dict__.update({**gradtape.__dict__, "_reduction": (op, compression)})
    return made
