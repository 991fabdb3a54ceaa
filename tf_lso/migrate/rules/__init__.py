"""The rules. Each module finds one kind of use.

The function `find` of the module adds a `Finding` to the program for each such use.
"""
