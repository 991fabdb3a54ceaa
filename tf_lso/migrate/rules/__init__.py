"""The rules. Each module finds one kind of use.

Its function `find` adds a `Finding` to the program for each place.
"""
