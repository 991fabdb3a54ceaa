"""`tf-lso check`: finds the legacy API in programs without running them.

`tf_lso.programs` reads them. `one_file` takes one file there and back, `rules` tells what
is to be reported at each place, with `methods`, `care` for what the program takes care
of, and `silent` for what trains wrong; `report` writes it down. All facts come from
`tf_lso.names`. Standard library only.
"""

from tf_lso.check.command import SUMMARY, add_arguments, check, run

__all__ = ["SUMMARY", "add_arguments", "check", "run"]
