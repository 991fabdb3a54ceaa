"""Each entry of compat_docs/troubleshooting.md: the trouble appears, and the fix ends it.

An entry with the name `get-scaled-loss` has a test `test_get_scaled_loss` in one of these
files. It meets the trouble and then does what the entry says, in the entry's own lines.
`test_entries.py` sees that each entry has its test, and each test the lines of its entry.
"""
