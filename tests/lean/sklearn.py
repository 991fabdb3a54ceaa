"""Says that sklearn is not installed; see `LEAN` in tests/processes.py."""

raise ModuleNotFoundError("hidden by tests/lean", name="sklearn")
