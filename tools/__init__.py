"""The tools of tf_lso's developers. Each of them explains itself with `--help`."""
