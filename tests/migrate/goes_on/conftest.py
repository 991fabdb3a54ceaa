"""Keep pytest from importing the program, which trains when it is imported."""

collect_ignore = ["program.py"]
