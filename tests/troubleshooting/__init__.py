"""Test the entries of compat_docs/troubleshooting.md: the problem and the fix of each.

An entry with the name `get-scaled-loss` has a test `test_get_scaled_loss` in one of these
files. The test causes the problem and then applies the fix, with the entry's own lines of code.
`test_entries.py` checks that each entry has a test, and each test the lines of its entry.
"""
