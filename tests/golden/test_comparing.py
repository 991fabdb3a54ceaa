"""`comparing.py` finds a wrong result, an unclear message and an unused entry."""

import types
from contextlib import nullcontext

import pytest

from tests.families import here
from tests.golden import comparing, differences
from tests.golden.differences import Difference, changed

CASE = {"case": "a"}
TEXT = "no scale, but got: 0.5"
ERROR = {"error": "ValueError", "message": TEXT}
# The `gives` of an entry that says that tf_lso raises a ValueError.
REFUSED = {"": {"error": "ValueError"}}


@pytest.fixture
def section(monkeypatch):
    """A function that makes a section with one case.

    Its arguments are the result that both 2.1.4 and 2.8.4 recorded, the result or the error of
    the replay, the attributes of the entry in differences.json if there is one, and other
    attributes of the section.
    """

    def make(recorded, gives, entry=None, **more):
        cases = [(CASE, [{"versions": ["2.1.4", "2.8.4"], "result": recorded}])]
        entries = [] if entry is None else [Difference(CASE, ["why"], **entry)]
        monkeypatch.setattr(comparing.harness, "cases", lambda *names: cases)
        monkeypatch.setattr(differences, "of", lambda *names: entries)

        # Results are cached for each replay function, so each test needs a new one.
        def replay(api, family, case):
            if isinstance(gives, Exception):
                raise gives
            return gives

        return comparing.Section("f", "s", replay, **more)

    return make


def check(section):
    """Check all replays of a section, and return the families in order."""
    replays = list(section.replays())
    for replay in replays:
        section.check(*replay)
    return [family for _, _, family in replays]


def test_equal_results_pass_on_every_family(section):
    assert check(section({"ok": 1.0}, 1.0)) == [*here("keras3", "new")]


@pytest.mark.parametrize(
    ("recorded", "gives", "entry", "problem"),
    [
        ({"ok": 1.0}, 1.5, None, r"2\.1\.4"),
        ({"ok": 1.0}, 1.5, {"gives": {"ok": 1.5}}, None),
        ({"ok": 1.0}, 1.5, {"gives": {"ok": 1.6}}, "1.6"),
        ({"ok": 1.5}, 1.5, {"gives": {"ok": 1.5}}, "other versions"),
        ({"ok": 1.0}, 1.5, {"gives": {"ok": 1.5}, "versions": ["2.1.4"]}, "other ver"),
        (ERROR, ValueError("a scale of 0.5 is too small"), None, None),
        (ERROR, ValueError("it is too small"), None, "unclear"),
        ({"ok": 1}, ValueError(TEXT), {"gives": REFUSED}, None),
        (ERROR | {"error": "E"}, ValueError("no"), {"gives": REFUSED}, "unclear"),
        ({"ok": 1}, ValueError(TEXT), {"gives": REFUSED, "message": "scale"}, None),
        (
            {"ok": 1},
            ValueError(TEXT),
            {"gives": REFUSED, "message": "other"},
            "unclear",
        ),
    ],
)
def test_what_differs_is_found(section, recorded, gives, entry, problem, monkeypatch):
    monkeypatch.setattr(comparing.harness, "SAME_KERNELS", True)
    with pytest.raises(AssertionError, match=problem) if problem else nullcontext():
        check(section(recorded, gives, entry))


def test_an_entry_without_a_case_is_found(section):
    assert not section({"ok": 1}, 2, {"families": ["new"]}).unused()
    assert section({"ok": 1}, 2, {"families": ["legacy"]}).unused()


def test_slow_replays_have_a_group_of_their_own_and_absent_ones_none(section):
    of = {"has": lambda case, family: family == "new"}
    slow = section({"ok": 1}, 1, marks=lambda *of: [pytest.mark.slow], **of)
    others = section({"ok": 1}, 1, part=lambda case: (case["case"],), **of)
    groups = comparing.grouped([others, others, slow])
    found = {g.id: (len(g.values[0]), [m.name for m in g.marks]) for g in groups}
    assert found == {"f-s-a-new": (2, []), "f-s-new-slow": (1, ["slow"])}
    assert check(slow) == ["new"]


# --- The result in an entry of differences.json.


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ({}, "newest"),
        ({"version": "2.1.4"}, "first"),
        ({"version": "2.1.4", "case": "b"}, "other"),
    ],
)
def test_an_entry_begins_with_the_newest_version_or_another(
    monkeypatch, like, expected
):
    other = [{"versions": ["2.1.4"], "result": {"ok": "other"}}]
    monkeypatch.setattr(
        differences.harness, "cases", lambda section, file, case: [(case, other)]
    )
    results = [
        {"versions": ["2.10.1"], "result": {"ok": "newest"}},
        {"versions": ["2.1.4", "2.9.3"], "result": {"ok": "first"}},
    ]
    one = Difference({}, ["why"], like=like)
    assert one.expected("s", "f", CASE, results) == {"ok": expected}


def test_changes_are_made_in_a_copy():
    recorded = {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    of = {"ok > 0 > m/v": {}, "ok > * > a": 4, "ok > 1 > b": 5}
    assert changed(recorded, of) == {"ok": [{"a": 4, "m/v": {}}, {"a": 4, "b": 5}]}
    assert recorded == {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    assert changed(recorded, {"": {"error": "E"}}) == {"error": "E"}


@pytest.mark.parametrize("of_other", [{"case": {"case": "c"}}, {"family": "keras3"}])
def test_an_entry_of_another_case_or_family_does_not_hold(of_other):
    one = Difference({"case": ["a", "b"]}, ["why"], families=["new"])
    assert one.holds(CASE, "new")
    assert not one.holds(**{"case": CASE, "family": "new", **of_other})


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
