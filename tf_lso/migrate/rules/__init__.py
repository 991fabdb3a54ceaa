"""The rules, one short module for each kind of use.

A rule is a LibCST visitor that adds a `Finding` for each place to its program.
"""
