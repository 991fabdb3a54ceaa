"""Says that matplotlib is not installed; see `LEAN` in tests/processes.py."""

raise ModuleNotFoundError("hidden by tests/lean", name="matplotlib")
