"""The harness itself: tf_keras's wrapper reproduces what was recorded of it."""

import pytest

from tests.golden import harness


@pytest.mark.skipif(not harness.SAME_KERNELS, reason="other kernels than recorded")
@pytest.mark.parametrize("section", ["trajectories", "schedules_and_clipping"])
def test_trajectories(section):
    pass
