"""The commands `tf-lso check` and `tf-lso migrate`, a LibCST codemod for old programs.

`engine.examine` reads one program. Each module of `rules/` finds one kind of use. Fixes that
are certain are applied to LibCST's tree, which keeps every other byte. `files`, `notebooks`
and `report` connect the engine with the command lines.

`pip install 'tf-lso[migrate]'` installs LibCST. This package does not import TensorFlow.
"""
