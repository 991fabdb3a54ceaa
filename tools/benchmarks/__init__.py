"""`tools/benchmark` measures the time that loss scaling adds to a step.

Each setting is measured in a fresh process. The parent process does not import TensorFlow.
"""
