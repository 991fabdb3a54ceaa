"""Comparing finds a wrong result, an unclear message and a difference without use."""

import pytest

from tests.families import here
from tests.golden import comparing
from tests.golden.differences import Difference, changed

CASE = {"case": "a"}
ERROR = {"error": "ValueError", "message": "no scale, but got: 0.5"}


def section(monkeypatch, recorded, actual, listed=(), **more):
    """A section of one case that 2.1.4 and 2.8.4 gave alike."""
    results = [{"versions": ["2.1.4", "2.8.4"], "result": recorded}]
    monkeypatch.setattr(
        comparing.harness, "cases", lambda section, file: [(CASE, results)]
    )
    replay = lambda family, case: actual  # noqa: E731  one for each test, not cached
    monkeypatch.setattr(comparing.differences, "of", lambda file, section: listed)
    return comparing.Section("s", replay, **more)


def check(of):
    """Check all its replays; returns how many there were."""
    replays = list(of.replays())
    for replay in replays:
        of.check(*replay)
    return len(replays)


def test_equal_results_pass_on_every_family(monkeypatch):
    of = section(monkeypatch, {"ok": 1.0}, {"ok": 1.0})
    assert check(of) == len(here("keras3", "new"))
    assert [family for _, _, family in of.replays()] == [*here("keras3", "new")]


def test_another_result_is_found(monkeypatch):
    with pytest.raises(AssertionError, match=r"2\.1\.4"):
        check(section(monkeypatch, {"ok": 1.0}, {"ok": 1.5}))


def test_an_unclear_message_is_found(monkeypatch):
    clear = {"error": "ValueError", "message": "a scale of 0.5 is too small"}
    check(section(monkeypatch, ERROR, clear))
    unclear = {**clear, "message": "it is too small"}
    with pytest.raises(AssertionError, match="unclear"):
        check(section(monkeypatch, ERROR, unclear))


def test_a_difference_holds_for_its_versions_only(monkeypatch):
    difference = Difference("s", {}, "r", {"error": "ValueError"}, message="0.5")
    check(section(monkeypatch, {"ok": 1}, ERROR, [difference]))
    of_one = Difference(
        "s", {}, "r", {"error": "ValueError"}, "0.5", versions=("2.1.4",)
    )
    with pytest.raises(AssertionError, match=r"2\.8\.4"):
        check(section(monkeypatch, {"ok": 1}, ERROR, [of_one]))


def test_the_message_of_a_difference_is_looked_for(monkeypatch):
    difference = Difference("s", {}, "r", {"error": "ValueError"}, message="the remedy")
    with pytest.raises(AssertionError, match="unclear"):
        check(section(monkeypatch, {"ok": 1}, ERROR, [difference]))


@pytest.mark.parametrize(
    ("actual", "idle"), [({"ok": 1}, True), ({**ERROR, "message": "b"}, False)]
)
def test_a_difference_without_use_is_found(monkeypatch, actual, idle):
    difference = Difference("s", {}, "r", {"result": actual})
    of = section(monkeypatch, {"ok": 1}, actual, [difference])
    assert of.idle() == ([difference] if idle else [])


def test_slow_replays_are_marked_and_those_that_do_not_apply_are_left_out(monkeypatch):
    only = section(
        monkeypatch,
        {"ok": 1},
        {"ok": 1},
        applies=lambda case, family: family == "new",
        slow=lambda case, family: family == "new",
    )
    assert [family for _, _, family in only.replays()] == ["new"]
    (parameter,) = comparing.parameters({"s": only})
    assert [mark.name for mark in parameter.marks] == ["slow"]


def test_as_in_gives_what_another_version_gave(monkeypatch):
    results = [
        {"versions": ["2.1.4"], "result": {"ok": 1}},
        {"versions": ["2.8.4"], "result": {"ok": "nan"}},
    ]
    of_b = [{"versions": ["2.8.4"], "result": {"ok": 3}}]
    monkeypatch.setattr(
        comparing.harness,
        "cases",
        lambda section, file: [(CASE, results), ({"case": "b"}, of_b)],
    )
    given = _as_in(version="2.8.4")
    assert given["ok"] != given["ok"]  # it is NaN
    assert _as_in(version="2.8.4", case="b") == {"ok": 3}


def _as_in(**wanted):
    difference = Difference("s", {}, "r", {"as_in": wanted})
    return difference.expected({"ok": 1}, CASE, "new", "2.1.4")


def test_changes_are_made_in_a_copy():
    recorded = {"ok": [{"a": 1, "m/v": 2}, 3]}
    of = {"ok > 0 > m/v": {}, "ok > 1": 4}
    assert changed(recorded, of) == {"ok": [{"a": 1, "m/v": {}}, 4]}
    assert recorded == {"ok": [{"a": 1, "m/v": 2}, 3]}
    assert changed(recorded, {"": {"error": "E"}}) == {"error": "E"}


def test_changes_of_other_cases_families_and_versions_are_not_made():
    one = {"cases": [CASE], "families": ["new"], "versions": ["2.1.4"]}
    gives = {"by_case": [{**one, "changes": {"ok": 2}}]}
    expected = Difference("s", {}, "r", gives).expected
    assert expected({"ok": 1}, CASE, "new", "2.1.4") == {"ok": 2}
    assert expected({"ok": 1}, {"case": "b"}, "new", "2.1.4") == {"ok": 1}
    assert expected({"ok": 1}, CASE, "keras3", "2.1.4") == {"ok": 1}
    assert expected({"ok": 1}, CASE, "new", "2.8.4") == {"ok": 1}


def test_a_text_is_replaced_wherever_it_stands():
    gives = {"replace": [["PolicyV1", "Policy"], ["<(Policy) ", r"<D\1 "]]}
    recorded = {"ok": {"a": ["PolicyV1"], "b": "<Policy x"}}
    expected = Difference("s", {}, "r", gives).expected(recorded, CASE, "new", "2.1.4")
    assert expected == {"ok": {"a": ["Policy"], "b": "<DPolicy x"}}
