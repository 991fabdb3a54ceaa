"""`tools/benchmark` measures the time that loss scaling adds to a step.

The tool measures in fresh processes. The parent process does not import TensorFlow. plan.py
contains the workloads and the other choices.
"""
