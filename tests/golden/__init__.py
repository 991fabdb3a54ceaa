"""Compare tf_lso with recorded results of old TensorFlow versions.

Each recorded case describes a small program, such as "wrap SGD and set `momentum`", and has the
result that each old version gave. `harness.py` reads the cases from the files in `record`.

There is one test file per topic. Its function `replay` runs the program of a case with tf_lso.
Its `Section` at the end says which cases these are. The test compares the result with that of
the newest version. Where tf_lso gives another result on purpose, the argument `differs` of the
section says which, and why: see `where` in `comparing.py`. The messages of errors are not
compared: `tests/optimizers/test_refusals.py` tests them.
"""
