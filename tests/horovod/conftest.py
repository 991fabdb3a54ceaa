"""Keeps pytest from importing the program and the stand-in: they run in processes."""

collect_ignore = ["stand_in"]
