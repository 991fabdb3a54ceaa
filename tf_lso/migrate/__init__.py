"""The tools `tf-lso check` and `tf-lso migrate`: a LibCST codemod for old programs.

`engine.examine` reads one program: each module of `rules/` finds one kind of use, and the
edits of what is certain are applied to LibCST's tree, which keeps every other byte.
`files`, `notebooks` and `report` stand between the engine and the two command lines.

LibCST comes with `pip install 'tf-lso[migrate]'`. Nothing here imports TensorFlow.
"""
