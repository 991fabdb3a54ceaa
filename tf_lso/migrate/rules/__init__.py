"""The rules. Each module finds one kind of use.

The function `find` of a module adds a `Finding` to the program for each of these uses.
"""
