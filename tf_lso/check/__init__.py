"""`tf-lso check`: finds the legacy API in programs without running them.

A file goes one way: `files` finds it, `sources` parses it, `walk` notes its scopes and
places of interest, `values` tells what its names stand for, `rules` tells what is to be
reported there with the words of `lookup`, `constructors` and `methods`, and `report`
writes it down. All facts come from `tf_lso.names`. Standard library only.
"""

from tf_lso.check.command import SUMMARY, add_arguments, check, run

__all__ = ["SUMMARY", "add_arguments", "check", "run"]
