"""Reading programs without running them, and what to change in them.

`files` finds the files of a path, `reading` parses them (`notebooks` cell by cell,
`texts` knows where a line begins). `walk` goes through the trees once and fills in a
`Program` of `scopes`. `resolving` follows expressions; `guards` and `branches` tell what a
TensorFlow runs. `lookup` says what `tf_lso.names` knows of a dotted path, as a `verdict`.

Standard library only, but for LibCST, which the edits of imports need.
"""
