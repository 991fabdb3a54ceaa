"""Keep pytest from importing the programs, which run in processes of their own."""

collect_ignore = ["like", "programs"]
