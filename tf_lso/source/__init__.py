"""Reading programs without running them: what is found in them, and the fixes.

One pass goes this way. `files` finds the files of a path, `reading` parses them
(`notebooks` cell by cell, `texts` knows where a line begins). A `program` goes through the
trees once: it has `scopes`, and places of interest with the guards around them.
`inference` tells the `values` of each expression, and whether they are certain; `modules`
asks the other files of the program, and `guards` what a version decides. `lookup` has the
verdict on a dotted path, by `tf_lso.names`.

The rules yield the uses at a place: `uses` those of names, with `forms` of calls,
`methods`, and `wider` the rest. `guarded` judges each of them by its guards, so that one
diagnostic per place is left. `renaming` decides what becomes of a name; `fixes` and
`strings` plan the edits, or note one of the `reasons` why there is none; `edits` changes
the statements, and `install` says where `install()` goes. `diagnose` joins all of it to
`diagnostics`.

Standard library only.
"""
