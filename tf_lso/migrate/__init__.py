"""`tf-lso migrate`: moves programs from the old names to those of tf_lso.

A file goes one way: `find` finds it, `one_file` reads and writes it, `rewrite` has
`tf_lso.programs` parse and walk it. `certain` tells what its names stand for, `paths` what
becomes of each; `plan` with `chains`, `calls` and `strings` notes the edits.
`needs` tells what works by more than names, and asks the rules of `tf_lso.check` which
guards would train wrong. `statements`, `parentheses` and `inserts` change the imports, and
`report` writes down what was done and what was left. All facts come from `tf_lso.names`.
"""

from tf_lso.migrate.command import SUMMARY, add_arguments, migrate, run
from tf_lso.migrate.paths import Options

__all__ = ["SUMMARY", "Options", "add_arguments", "migrate", "run"]
