"""The folder that `tf-lso run` puts in PYTHONPATH for child processes."""
