"""Keeps pytest from importing the programs: each runs in a process of its own."""

collect_ignore = ["code_bases", "like", "programs"]
