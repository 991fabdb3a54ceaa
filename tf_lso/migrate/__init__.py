"""The commands `tf-lso check` and `tf-lso migrate`, which find and rewrite old names.

`engine.examine` reads one program. Each module of `rules/` finds one kind of use of the old
API. Fixes that are certain are applied to LibCST's tree. All other bytes of the program stay
the same. `files`, `notebooks` and `report` connect the engine with the command lines.

`pip install 'tf-lso[migrate]'` installs LibCST. This package does not import TensorFlow.
"""
