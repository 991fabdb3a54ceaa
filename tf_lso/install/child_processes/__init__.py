"""The folder that `tf-lso run` puts in PYTHONPATH for child processes.

Python runs its file sitecustomize.py when a child process starts.
"""
