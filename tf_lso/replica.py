"""Which replica is running."""

import tensorflow as tf


def replica_id():
    """Return the id of the running replica as an int, None outside replica context."""
    context = tf.distribute.get_replica_context()
    number = None if context is None else context.replica_id_in_sync_group
    if tf.is_tensor(number):  # a constant under MirroredStrategy
        number = tf.get_static_value(number)
    return None if number is None else int(number)


def is_alone():
    """Whether there is only one replica, so that nothing needs to be aggregated."""
    return tf.distribute.get_strategy().num_replicas_in_sync == 1


def is_first_here():
    """Return whether this is the first replica of its process, or no replica."""
    number = replica_id()
    if number is None or is_alone():
        return True
    return number % len(tf.distribute.get_strategy().extended.worker_devices) == 0
