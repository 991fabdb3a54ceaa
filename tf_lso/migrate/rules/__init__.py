"""The rules, one short module for each kind of use.

Each has a function `find`, which adds a `Finding` for each place to its program.
"""
