"""The Kerases load what tf_lso saved, as under install()."""

import pytest

from tests.families import PACKAGES
from tf_lso.installing import table as patches


@pytest.fixture(scope="module")
def installed():
    """From the first test that asks for it to the end of its file."""
    packages = sorted(set(PACKAGES.values()))
    for package in packages:
        patches.enable(patches.LOADING, package)
    yield
    for package in packages:
        patches.disable(patches.LOADING, package)
