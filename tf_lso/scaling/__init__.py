"""The modules that take one step of training. Read `step.py` first."""
