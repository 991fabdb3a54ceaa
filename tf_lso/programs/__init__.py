"""Reading programs without running them: what `check` and `migrate` share.

`files` finds the files of a path, `sources` parses them (`notebooks` cell by cell,
`texts` knows where a line begins). `walk` goes through the trees once and fills in a
`Program` of `scopes`. `resolving` follows expressions, `values` tells what they are likely
to stand for; `guards` and `branches` tell what a TensorFlow runs. `lookup` says what
`tf_lso.names` knows of a dotted path, as a `verdict`, `constructors` what the arguments of
a call add. `printing` is what both reports have in common.

Standard library only, and nothing of `check` or `migrate`.
"""
