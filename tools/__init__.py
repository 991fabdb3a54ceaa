"""The tools of tf_lso's developers. Each tool explains itself with `--help`."""
