"""Compare tf_lso with recorded results of old TensorFlow versions.

`record/README.md` says where the recorded results come from, and `harness.py` reads them. A
`replay_*` module does what a case describes. A `Section` of `comparing.py` compares the result
with the result of each version. `record/differences.json` lists the cases whose results differ,
with reasons. `test_sections.py` has the table of sections.
"""
