"""Keeps pytest from importing the program and the stand-in: they run in processes."""

collect_ignore_glob = ["program.py", "stand_in/*"]
