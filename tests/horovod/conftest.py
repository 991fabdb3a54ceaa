"""Keep pytest from importing the program and the stand-in, which run in processes."""

collect_ignore = ["stand_in"]
