"""Each limit of a Keras shows without tf_lso, beside no other of its generation."""

import pytest

from tests import preloaded
from tests.generation import KERAS
from tests.limits import LIMITS
from tests.processes import ROOT

OF_THIS_GENERATION = [limit for limit in LIMITS if limit.keras[0][0] == KERAS[0]]


@pytest.mark.parametrize("limit", OF_THIS_GENERATION, ids=lambda limit: limit.reason)
def test_the_bare_keras_has_it_where_it_is_listed(limit):
    done = preloaded.run(["-c", limit.bare])
    if KERAS in limit.keras:
        assert done.returncode and limit.raises in done.stderr, done.stderr[-3000:]
    else:
        assert done.returncode == 0, done.stderr[-3000:]


def test_a_test_has_one_limit_at_most_beside_a_keras():
    listed = [
        (keras, test)
        for limit in LIMITS
        for keras in limit.keras
        for test in limit.tests
    ]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("test", sorted({t for limit in LIMITS for t in limit.tests}))
def test_what_is_limited_is_there(test):
    path, *_, name = test.partition("[")[0].split("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
