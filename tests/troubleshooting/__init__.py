"""Test the entries of compat_docs/troubleshooting.md: the problem and the fix of each.

A test such as `test_get_scaled_loss` causes the message of the entry `get-scaled-loss`, and
`tf-lso help` must find the entry from the message. Entries without a message have no such test.
`test_entries.py` runs the fix of each entry.
"""
