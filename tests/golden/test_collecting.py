"""A test of many cases fails if one does, and names all that do."""

import pytest

from tests.golden import collecting

PARAMETERS = [pytest.param(n, n % 2, id=f"case {n}") for n in range(4)]


def test_every_mismatch_is_found():
    def check(number, odd):
        assert not odd, f"{number} is odd"

    found = collecting.mismatches(check, PARAMETERS)
    assert [text[:30] for text in found] == [
        "case 1: AssertionError: 1 is o",
        "case 3: AssertionError: 3 is o",
    ]


def test_other_errors_are_mismatches_too():
    found = collecting.mismatches(lambda number, odd: 1 // odd, PARAMETERS[:2])
    assert len(found) == 1 and found[0].startswith("case 0: ZeroDivisionError")


def test_a_mismatch_fails_the_test_of_its_group():
    def check(number, odd):
        assert not odd

    test = collecting.each(PARAMETERS, lambda number, odd: "ab"[odd])(check)
    assert test.__name__ == "check"
    test("a")
    with pytest.raises(pytest.fail.Exception, match="2 of 2 cases"):
        test("b")


def test_slow_parameters_have_a_group_of_their_own():
    slow = pytest.param(9, 0, id="slow one", marks=pytest.mark.slow)
    test = collecting.each([*PARAMETERS, slow], lambda number, odd: "ab"[odd])(len)
    (mark,) = test.pytestmark
    groups = {p.values[0]: [m.name for m in p.marks] for p in mark.args[1]}
    assert groups == {"a": [], "b": [], "a-slow": ["slow"]}
