"""Test the entries of compat_docs/troubleshooting.md: the problem and the fix of each.

A test causes a problem, checks that an entry explains its message, and applies the fix.
`test_entries.py` runs the block of code of each entry.
"""
