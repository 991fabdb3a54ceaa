"""`tf-lso migrate`: moves programs from the old names to those of tf_lso.

A file goes one way: `find` finds it, `one_file` reads and writes it, `rewrite` has it
parsed and walked by `tf_lso.check`, `resolve` tells what its names stand for, `paths`
what becomes of each, `plan` with `imports`, `chains`, `calls` and `strings` notes the
edits, `needs` what works by more than names, `statements`, `parentheses` and `inserts`
change its imports, and `report` writes down what was done and what was left. All facts
come from `tf_lso.names`.
"""

from tf_lso.migrate.command import SUMMARY, add_arguments, migrate, run
from tf_lso.migrate.paths import Options

__all__ = ["SUMMARY", "Options", "add_arguments", "migrate", "run"]
