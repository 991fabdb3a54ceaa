"""Define the rules of `tf-lso check`. Each module finds one kind of use of the old API.

For each such use, the module's function `find` adds a `Finding` to the `Program`.
"""
