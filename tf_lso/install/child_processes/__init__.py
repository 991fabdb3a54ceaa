"""What child processes of `tf-lso run` find in PYTHONPATH: see sitecustomize.py."""
