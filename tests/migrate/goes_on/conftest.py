"""The program trains when it is imported."""

collect_ignore = ["program.py"]
