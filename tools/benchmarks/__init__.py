"""What loss scaling adds to a step: `tools/benchmark` measures it in fresh processes.

The parent imports no TensorFlow. plan.py has what can be chosen.
"""
