"""The rules. Each module finds one kind of use of the old API.

The function `find` of each module adds a `Finding` to the program for each such use.
"""
