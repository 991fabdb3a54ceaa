"""`comparing.py` finds a wrong result, an unclear message and an unused entry."""

import types

import pytest

from tests.families import here
from tests.golden import comparing, differences
from tests.golden.differences import Difference, with_changes

CASE = {"case": "a"}
MESSAGE = "no scale, but got: 0.5"
ERROR = {"error": "ValueError", "message": MESSAGE}
# The `gives` of an entry that says that tf_lso raises a ValueError.
REFUSED = {"": {"error": "ValueError"}}


@pytest.fixture
def make_section(monkeypatch):
    """A function that makes a section with one case.

    Its arguments are the result that both 2.1.4 and 2.8.4 recorded, the result or the error of
    the replay, the attributes of the entry in differences.json if there is one, and other
    attributes of the section.
    """

    def make(recorded, result, entry=None, **attributes):
        cases = [(CASE, [{"versions": ["2.1.4", "2.8.4"], "result": recorded}])]
        entries = [] if entry is None else [Difference(CASE, ["why"], **entry)]
        monkeypatch.setattr(comparing.harness, "cases", lambda *names: cases)
        monkeypatch.setattr(differences, "entries", lambda *names: entries)

        # Results are cached for each replay function, so each test needs a new one.
        def replay(api, family, case):
            if isinstance(result, Exception):
                raise result
            return result

        return comparing.Section("file", "section", replay, **attributes)

    return make


def check(section):
    """Check all replays of a section, and return the families in order."""
    replays = list(section.replays())
    for replay in replays:
        section.check(*replay)
    return [family for _, _, family in replays]


def test_equal_results_pass_on_every_family(make_section):
    assert check(make_section({"ok": 1.0}, 1.0)) == [*here("keras3", "new")]


# The attributes of an entry that says that tf_lso gives 1.5.
ENTRY = {"gives": {"ok": 1.5}}


@pytest.mark.parametrize(
    ("recorded", "result", "entry"),
    [
        ({"ok": 1.0}, 1.5, ENTRY),
        (ERROR, ValueError("a scale of 0.5 is too small"), None),
        ({"ok": 1}, ValueError(MESSAGE), {"gives": REFUSED}),
        ({"ok": 1}, ValueError(MESSAGE), {"gives": REFUSED, "message": "scale"}),
    ],
)
def test_a_listed_difference_and_a_clear_message_pass(
    make_section, recorded, result, entry, monkeypatch
):
    monkeypatch.setattr(comparing.harness, "SAME_KERNELS", True)
    check(make_section(recorded, result, entry))


@pytest.mark.parametrize(
    ("recorded", "result", "entry", "problem"),
    [
        ({"ok": 1.0}, 1.5, None, r"2\.1\.4"),
        ({"ok": 1.0}, 1.5, {"gives": {"ok": 1.6}}, "1.6"),
        ({"ok": 1.5}, 1.5, ENTRY, "other versions"),
        ({"ok": 1.0}, 1.5, ENTRY | {"versions": ["2.1.4"]}, "other versions"),
        (ERROR, ValueError("it is too small"), None, "unclear"),
        (ERROR | {"error": "E"}, ValueError("no"), {"gives": REFUSED}, "unclear"),
        (
            {"ok": 1},
            ValueError(MESSAGE),
            {"gives": REFUSED, "message": "other"},
            "unclear",
        ),
    ],
)
def test_an_unlisted_difference_and_an_unclear_message_fail(
    make_section, recorded, result, entry, problem, monkeypatch
):
    monkeypatch.setattr(comparing.harness, "SAME_KERNELS", True)
    with pytest.raises(AssertionError, match=problem):
        check(make_section(recorded, result, entry))


def test_an_entry_without_a_case_is_found(make_section):
    assert not make_section({"ok": 1}, 2, {"families": ["new"]}).unused()
    assert make_section({"ok": 1}, 2, {"families": ["legacy"]}).unused()


def test_only_families_to_which_a_case_applies_replay_it(make_section):
    section = make_section({"ok": 1}, 1, applies=lambda case, family: family == "new")
    assert check(section) == ["new"]


def test_slow_replays_have_their_own_group(make_section):
    def is_new(case, family):
        return family == "new"

    recorded, result = {"ok": 1}, 1
    slow = make_section(
        recorded, result, applies=is_new, marks=lambda *replay: [pytest.mark.slow]
    )
    quick = make_section(
        recorded, result, applies=is_new, group=lambda case: (case["case"],)
    )
    found = {
        group.id: (len(group.values[0]), [mark.name for mark in group.marks])
        for group in comparing.grouped([quick, quick, slow])
    }
    assert found == {
        "file-section-a-new": (2, []),
        "file-section-new-slow": (1, ["slow"]),
    }


# --- The result in an entry of differences.json.


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ({}, "newest"),
        ({"version": "2.1.4"}, "first"),
        ({"version": "2.1.4", "case": "b"}, "other"),
    ],
)
def test_an_entry_starts_from_the_newest_version_or_from_the_one_in_like(
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
    entry = Difference({}, ["why"], like=like)
    assert entry.expected("section", "file", CASE, results) == {"ok": expected}


def test_changes_are_made_in_a_copy():
    recorded = {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    changes = {"ok > 0 > m/v": {}, "ok > * > a": 4, "ok > 1 > b": 5}
    assert with_changes(recorded, changes) == {
        "ok": [{"a": 4, "m/v": {}}, {"a": 4, "b": 5}]
    }
    assert recorded == {"ok": [{"a": 1, "m/v": 2}, {"a": 3}]}
    assert with_changes(recorded, {"": {"error": "E"}}) == {"error": "E"}


def test_an_entry_does_not_apply_to_other_cases_and_families():
    entry = Difference({"case": ["a", "b"]}, ["why"], families=["new"])
    assert entry.applies_to({"case": "a"}, "new")
    assert not entry.applies_to({"case": "c"}, "new")
    assert not entry.applies_to({"case": "a"}, "keras3")


def test_check_all_reports_every_failure_with_its_case():
    def check(case, results, family):
        if case["number"] == 1:
            raise AssertionError("it differs")
        if case["number"] == 3:
            raise ZeroDivisionError("by zero")

    section = types.SimpleNamespace(name="section", check=check)
    replays = [(section, {"number": number}, [], "new") for number in range(4)]
    with pytest.raises(pytest.fail.Exception) as caught:
        comparing.check_all(replays)
    assert str(caught.value).split("\n\n") == [
        "2 of 4 cases",
        "section-1-new: AssertionError: it differs",
        "section-3-new: ZeroDivisionError: by zero",
    ]
    comparing.check_all([replays[0], replays[2]])
