"""The tests of `tools/test --gpu`, which need GPUs, and their report."""

import pytest

LINES = pytest.StashKey[list]()  # the report's lines about the machine
