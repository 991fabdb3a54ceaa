"""An example program. Run it with `tf-lso run tf_lso/examples/digits.py`."""
