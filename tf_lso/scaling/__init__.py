"""The modules that perform one training step. Read `step.py` first."""
