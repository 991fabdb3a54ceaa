"""What old TensorFlow versions did, recorded, and replayed on tf_lso.

Read `harness.py` first; `record/README.md` tells where the numbers come from.
"""
