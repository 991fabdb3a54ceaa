"""Test the entries of compat_docs/troubleshooting.md: the problem and the fix of each.

An entry with the name `get-scaled-loss` has a test `test_get_scaled_loss` in one of these
files, which causes the problem: `tf-lso help` must find the entry from its message.
`test_entries.py` runs the fix of each entry.
"""
