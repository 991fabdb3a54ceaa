"""The folder that `tf-lso run` puts in PYTHONPATH for child processes.

When a child process starts, Python runs the file sitecustomize.py of this folder.
"""
