"""Example programs that train with tf_lso. Run one of them with `python -m`."""
