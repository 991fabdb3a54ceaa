"""What old TensorFlow versions did, recorded, and replayed on tf_lso.

`record/README.md` tells where the numbers come from; `harness.py` reads them. A `replay_*`
module does what a case says, a `Section` of `comparing.py` compares what that gives with
what each version gave, and `record/differences.json` has where the two differ, and why.
`test_sections.py` has the table of sections.
"""
