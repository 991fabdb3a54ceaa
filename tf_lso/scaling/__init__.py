"""The flow of one step; read `step.py` first."""
