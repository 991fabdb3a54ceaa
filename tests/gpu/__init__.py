"""`tools/test --gpu`: what can only be tested on GPUs, and a report of it."""

import pytest

LINES = pytest.StashKey[list]()  # what the report says of the machine
