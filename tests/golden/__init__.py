"""Compare tf_lso with recorded results of old TensorFlow versions.

Each recorded case describes a small program, such as "wrap SGD and set `momentum`", and has the
result that each old version gave. The tests take three steps for each case:

1. `harness.py` reads the case and its results from the files in `record`.
2. A function in a `replay_*` module runs the program with tf_lso. The `Section` at the end of
   the module says which cases the function replays.
3. `Section.check` in `comparing.py` compares the result with the result of each version. If
   tf_lso gives another result than a version, `record/differences.json` must say so, with the
   reason.

`test_sections.py` collects the sections of all `replay_*` modules and runs these steps.

If tf_lso gives another result on purpose, add an entry to `differences.json`. The file
`record/README.md` describes the form of an entry.

To add new recorded cases, put the results of the old versions into a new file in `record`, in
the form of the other files, and its checksum into `SHA256SUMS`. The existing files never
change. Then write a `replay_*` module with a `Section` for each section of the new file.
"""
