"""An example program. `tf-lso run tf_lso/examples/digits.py` trains with it."""
