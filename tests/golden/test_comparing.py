"""Comparing finds a wrong result, an unclear message and a difference without use."""

import types
from contextlib import nullcontext

import pytest

from tests.families import here
from tests.golden import comparing
from tests.golden.differences import Difference, changed

CASE = {"case": "a"}
TEXT = "no scale, but got: 0.5"
ERROR = {"error": "ValueError", "message": TEXT}


def difference(gives, **more):
    return Difference("f", "s", {}, "r", gives, **more)


@pytest.fixture
def section(monkeypatch):
    """Makes a section of one case that 2.1.4 and 2.8.4 gave alike."""

    def make(recorded, gives, listed=(), **more):
        cases = [(CASE, [{"versions": ["2.1.4", "2.8.4"], "result": recorded}])]
        monkeypatch.setattr(comparing.harness, "cases", lambda *names: cases)
        monkeypatch.setattr(comparing.differences, "of", lambda *names: listed)

        def replay(api, family, case):  # one for each test, not cached
            if isinstance(gives, Exception):
                raise gives
            return gives

        return comparing.Section("f", "s", replay, **more)

    return make


def check(section):
    """Check all its replays; returns the families."""
    replays = list(section.replays())
    for replay in replays:
        section.check(*replay)
    return [family for _, _, family in replays]


def test_equal_results_pass_on_every_family(section):
    assert check(section({"ok": 1.0}, 1.0)) == [*here("keras3", "new")]


@pytest.mark.parametrize(
    ("recorded", "gives", "listed", "problem"),
    [
        ({"ok": 1.0}, 1.5, None, r"2\.1\.4"),
        (ERROR, ValueError("a scale of 0.5 is too small"), None, None),
        (ERROR, ValueError("it is too small"), None, "unclear"),
        ({"ok": 1}, ValueError(TEXT), {}, None),
        ({"ok": 1}, ValueError(TEXT), {"versions": ["2.1.4"]}, r"2\.8\.4"),
        ({"ok": 1}, ValueError(TEXT), {"message": "the remedy"}, "unclear"),
    ],
)
def test_what_differs_is_found(section, recorded, gives, listed, problem):
    refused = [] if listed is None else [difference({"error": "ValueError"}, **listed)]
    with pytest.raises(AssertionError, match=problem) if problem else nullcontext():
        check(section(recorded, gives, refused))


@pytest.mark.parametrize(("gives", "idle"), [(1, True), (2, False)])
def test_a_difference_without_use_is_found(section, gives, idle):
    one = difference({"result": {"ok": gives}})
    of = section({"ok": 1}, gives, [one])
    assert of.idle() == ({one} if idle else set())


def test_slow_replays_have_a_group_of_their_own_and_absent_ones_none(section):
    of = {"has": lambda case, family: family == "new"}
    slow = section({"ok": 1}, 1, marks=lambda *of: [pytest.mark.slow], **of)
    others = section({"ok": 1}, 1, part=lambda case: (case["case"],), **of)
    groups = comparing.grouped([others, others, slow])
    found = {g.id: (len(g.values[0]), [m.name for m in g.marks]) for g in groups}
    assert found == {"f-s-a-new": (2, []), "f-s-new-slow": (1, ["slow"])}
    assert check(slow) == ["new"]


# --- What a difference gives.


@pytest.mark.parametrize(("other", "expected"), [({}, "a"), ({"case": "b"}, "b")])
def test_as_in_gives_what_another_version_gave(monkeypatch, other, expected):
    def cases(section, file, case):
        return [({"case": case}, [{"versions": ["2.8.4"], "result": {"ok": case}}])]

    monkeypatch.setattr(comparing.harness, "cases", cases)
    one = difference({"as_in": {"version": "2.8.4", **other}})
    assert one.expected({"ok": 1}, CASE) == {"ok": expected}


def test_changes_are_made_in_a_copy():
    recorded = {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    of = {"ok > 0 > m/v": {}, "ok > * > a": 4, "ok > 1 > b": 5}
    assert changed(recorded, of) == {"ok": [{"a": 4, "m/v": {}}, {"a": 4, "b": 5}]}
    assert recorded == {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    assert changed(recorded, {"": {"error": "E"}}) == {"error": "E"}


@pytest.mark.parametrize(
    "of_other", [{"case": {"case": "b"}}, {"family": "keras3"}, {"version": "2.8.4"}]
)
def test_a_difference_of_another_case_family_or_version_does_not_hold(of_other):
    narrow = {"cases": [CASE], "families": ["new"], "versions": ["2.1.4"]}
    of = {"case": CASE, "family": "new", "version": "2.1.4"}
    assert difference({"result": 1}, **narrow).holds(**of)
    assert not difference({"result": 1}, **narrow).holds(**of | of_other)


def test_a_text_is_replaced_wherever_it_stands():
    one = difference({"replace": [["PolicyV1", "Policy"], ["<(Policy) ", r"<D\1 "]]})
    recorded = {"ok": {"a": ["PolicyV1"], "b": "<Policy x"}}
    assert one.expected(recorded, CASE) == {"ok": {"a": ["Policy"], "b": "<DPolicy x"}}


def test_a_group_fails_with_every_mismatch_whatever_the_error():
    def is_even(case, results, family):
        assert case["number"] % 2 == 0, f"{1 // (case['number'] - 3)} is odd"

    section = types.SimpleNamespace(name="case", check=is_even)
    replays = [(section, {"number": number}, [], "new") for number in range(4)]
    with pytest.raises(pytest.fail.Exception) as caught:
        comparing.check_all(replays)
    assert [text[:29] for text in str(caught.value).split("\n\n")] == [
        "2 of 4 cases",
        "case-1-new: AssertionError: -",
        "case-3-new: ZeroDivisionError",
    ]
    comparing.check_all(replays[::2])
