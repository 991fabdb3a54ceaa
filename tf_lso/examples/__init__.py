"""Programs that show how tf_lso works. Run one with `python -m`."""
