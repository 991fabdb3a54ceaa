"""The commands of `tf-lso` that read programs: their arguments, their reports, files.

`tf_lso.source` finds what there is to say, and the fixes. `check` prints it, `migrate`
applies the fixes. Standard library only.
"""
