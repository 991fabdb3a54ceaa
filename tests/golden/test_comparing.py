"""Comparing finds a wrong result, an unclear message and a difference without use."""

import pytest

from tests.families import here
from tests.golden import comparing
from tests.golden.differences import Difference, raises

CASE = {"case": "a"}
ERROR = {"error": "ValueError", "message": "no scale, but got: 0.5"}


def section(monkeypatch, recorded, actual, differences=(), **more):
    """A section of one case that 2.1.4 and 2.8.4 gave alike."""
    results = [{"versions": ["2.1.4", "2.8.4"], "result": recorded}]
    monkeypatch.setattr(
        comparing.harness, "cases", lambda section, file: [(CASE, results)]
    )
    replay = lambda family, case: actual  # noqa: E731  one for each test, not cached
    return comparing.Section("s", replay, list(differences), **more)


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
    difference = Difference("s", {}, "r", raises("ValueError"), message="0.5")
    check(section(monkeypatch, {"ok": 1}, ERROR, [difference]))
    of_one = Difference("s", {}, "r", raises("ValueError"), "0.5", versions=("2.1.4",))
    with pytest.raises(AssertionError, match=r"2\.8\.4"):
        check(section(monkeypatch, {"ok": 1}, ERROR, [of_one]))


def test_the_message_of_a_difference_is_looked_for(monkeypatch):
    difference = Difference("s", {}, "r", raises("ValueError"), message="the remedy")
    with pytest.raises(AssertionError, match="unclear"):
        check(section(monkeypatch, {"ok": 1}, ERROR, [difference]))


@pytest.mark.parametrize(
    ("actual", "idle"), [({"ok": 1}, True), ({**ERROR, "message": "b"}, False)]
)
def test_a_difference_without_use_is_found(monkeypatch, actual, idle):
    difference = Difference("s", {}, "r", lambda recorded, case: actual)
    of = section(monkeypatch, {"ok": 1}, actual, [difference])
    assert of.idle() == ([difference] if idle else [])


def test_slow_replays_and_those_that_do_not_apply_are_left_out(monkeypatch):
    actual = {"ok": 2}
    difference = Difference("s", {}, "r", lambda recorded, case: actual)
    of = section(
        monkeypatch, {"ok": 1}, actual, [difference], slow=lambda case, family: True
    )
    assert of.idle() == [difference]
    of = section(
        monkeypatch, {"ok": 1}, actual, applies=lambda case, family: family == "new"
    )
    assert [family for _, _, family in of.replays()] == ["new"]


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
    given = comparing.as_in("2.8.4", "s")({"ok": 1}, CASE)
    assert given["ok"] != given["ok"]  # it is NaN
    other = comparing.as_in("2.8.4", "s", of={"case": "b"})({"ok": 1}, CASE)
    assert other == {"ok": 3}
