"""Implement `tf-lso check` and `tf-lso migrate`, which find and rewrite old names.

`engine.examine` examines one program. Each module of `rules/` finds one kind of use of the old
API. `engine` applies a fix only if the fix is certain. The fixes change the syntax tree of the
package LibCST, so the rest of the program stays the same, byte for byte. `reading_files` and
`notebooks` read the programs for `engine`, and `output` prints the results.

`pip install 'tf-lso[migrate]'` installs LibCST. This package does not import TensorFlow.
"""
