"""Reading programs without running them: what is found in them, and the fixes.

One pass goes this way. `files` finds the files of a path, `reading` parses them
(`notebooks` cell by cell, `texts` knows where a line begins). `walk` goes through the
trees once and fills in a `Program` of `scopes`, by `binding`. `inference` tells what each
expression stands for, and whether that is certain; `packages` asks the other files of the
program. `guards`, `branches` and `handled` tell what a TensorFlow runs, and `lookup` what
`tf_lso.names` knows of a dotted path, as a `verdict`.

`uses` finds the places that the `rules` are about, with `constructors`, `methods`,
`silent` and `wider`. `renaming` decides what becomes of a name; `fixes`, with `calls`,
`chains` and `strings`, notes the edits, or one of the `reasons` why there is none;
`placement` says which file calls install(). `diagnose` joins all of it to `diagnostics`,
and `edits` changes the import statements.

Standard library only.
"""
