"""Compare the results of tf_lso with a section of the record.

Each recorded case is replayed once on each optimizer family to which the case applies. The
result must equal that of the newest version that recorded the case. If tf_lso gives another
result on purpose, the `differs` of the section says what tf_lso gives instead, and why.
"""

import copy
import dataclasses
import functools
import json
from collections.abc import Callable

import pytest

from tests import families
from tests.golden import encoding, harness

# These tables map a family of the record to the installed families that replay its cases. On
# `REPLAY_FAMILIES`, each installed family replays each program once. The key None is for cases
# without a family, such as policies, which one family of each Keras replays.
REPLAY_FAMILIES = {
    "v2": families.here("legacy", "keras3"),
    "new": families.here("new"),
    None: families.here("new", "keras3"),
}
# For cases that depend on the formulas of the inner optimizer. Keras 3 has the formulas of the
# newer optimizers of TensorFlow 2.11.
STEPS_FAMILIES = {
    "v2": families.here("legacy"),
    "new": families.here("new", "keras3"),
}

# The result of this version for the family "v2", whose methods tf_lso has on all families.
V2_OF_2_15 = {"version": "2.15.1", "family": "v2"}

# --- Differences.


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """The cases in which tf_lso gives another result, and the result. See `where`."""

    case: dict
    families: tuple
    like: dict
    changes: dict

    def applies_to(self, case, family):
        """Return whether this is about a case that is replayed on a family."""
        if self.families and family not in self.families:
            return False
        return all(case.get(name) in values for name, values in self.case.items())

    def expected(self, section, file, case, results):
        """Return the result that tf_lso must give for a case."""
        names = {k: v for k, v in self.like.items() if k != "version"}
        if names:
            ((_, results),) = harness.cases(section, file, **{**case, **names})
        recorded = harness.result_of(results, self.like.get("version"))
        if "" in self.changes:
            return self.changes[""]
        if "ok" not in recorded:
            return recorded
        return {"ok": with_changes(recorded["ok"], self.changes)}


_AS_RECORDED = object()


def where(*, on=(), like=(), gives=_AS_RECORDED, changes=(), raises="", **case):
    """Return a `Difference` for the recorded cases with these names.

    Args:
      on: the optimizer family of tf_lso, or a list of families. By default, all.
      like: the version whose result tf_lso gives, or a dict with "version" and other names of a
        case. By default, the newest version.
      gives: what tf_lso returns. `ANYTHING` if another test checks that.
      changes: dict of the parts of the result that differ. The path "rows > 0 > scale" leads to
        `result["rows"][0]["scale"]`; `*` stands for every element of a list.
      raises: the class of an error.
      **case: names of the recorded case, with a value or a list of values.
    """
    changes = dict(changes)
    if gives is not _AS_RECORDED:
        changes[""] = {"ok": gives}
    if raises:
        changes[""] = {"error": raises}
    return Difference(
        {name: v if isinstance(v, list) else [v] for name, v in case.items()},
        (on,) if isinstance(on, str) else tuple(on),
        {"version": like} if isinstance(like, str) else dict(like),
        changes,
    )


def with_changes(recorded, changes):
    """Return a copy of a recorded result with the changes of `where`."""
    recorded = copy.deepcopy(recorded)
    for path, value in changes.items():
        *parents, last = path.split(" > ")
        containers = [recorded]
        for key in parents:
            if key == "*":
                containers = [element for each in containers for element in each]
            else:
                containers = [each[_key(each, key)] for each in containers]
        for each in containers:
            each[_key(each, last)] = value
    return recorded


def _key(container, key):
    return int(key) if isinstance(container, list) else key


# --- Sections.


def same(actual, expected, case, family):
    return encoding.equal(actual, expected)


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """One section of a file of the record.

    Attributes:
      file: the name of the file.
      name: the name of the section.
      replay: function of (api, family, case) that runs the recorded program and returns its
        result.
      equal: function of (actual, expected, case, family) that returns whether two results are
        equal.
      differs: list of `where(...)`. A comment says why, such as the beginning of a row of
        compat_docs/reference/differences.md.
      families: maps a family of the record to the installed families that replay its cases.
      applies: function of (case, family) that returns whether the family replays the case.
      marks: function of (case, family) that returns a list of pytest marks for the replay.
      group: function of a case that returns a tuple of names. Cases with equal names run in one
        test. By default, all cases of a section on one family run in one test.
      api: the class that replays all cases. None if each case names its class.
    """

    file: str
    name: str
    replay: Callable
    equal: Callable = same
    differs: list | tuple = ()
    families: dict = dataclasses.field(default_factory=lambda: REPLAY_FAMILIES)
    applies: Callable = lambda case, family: True
    marks: Callable = lambda case, family: ()
    group: Callable = lambda case: ()
    api: str | None = None

    def replays(self):
        """Yield (case, results, family) for each replay, one family after the other."""
        cases = harness.cases(self.name, self.file)
        for family in sorted(set().union(*self.families.values())):
            for case, results in cases:
                is_replayed = family in self.families[case.get("family")]
                if is_replayed and self.applies(case, family):
                    yield case, results, family

    def actual(self, family, case):
        """Return the result of tf_lso for a case.

        Cases that differ only in the recorded family are the same program on `family`. If one
        class replays all cases, cases that differ only in the class are also the same program.
        The result is cached, so each program runs only once.
        """
        shared = ("family", "api") if self.api else ("family",)
        program = {name: value for name, value in case.items() if name not in shared}
        api = self.api or case.get("api")
        return _cached_play(self.replay, api, family, json.dumps(program))

    def difference(self, case, family):
        """Return the difference that applies to a case on a family, or None."""
        found = [d for d in self.differs if d.applies_to(case, family)]
        assert len(found) <= 1, f"several differences apply to {case} on {family}"
        return found[0] if found else None

    def check(self, case, results, family):
        """Assert that tf_lso gives the expected result."""
        actual, difference = self.actual(family, case), self.difference(case, family)
        expected = harness.result_of(results, None)
        if difference:
            expected = difference.expected(self.name, self.file, case, results)
        try:
            is_same = self.equal(actual, expected, case, family)
        except (AttributeError, LookupError, TypeError, ValueError):
            is_same = False  # one result is an error or has another form
        assert is_same, f"{expected}, now {actual}"


@functools.cache
def _cached_play(replay, api, family, case_as_json):
    """Return the result of a case in the form of the record."""
    case = json.loads(case_as_json)
    return encoding.normalized(encoding.attempt(lambda: replay(api, family, case)))


# --- One test replays many recorded cases, and reports every case that fails.


def grouped(*sections):
    """Return a list with a `pytest.param` for each group of replays.

    A group contains the replays with the same section, `Section.group`, family and marks. The
    value of its param is a list of (section, case, results, family). Its id consists of the
    names of these, such as "golden-trajectories-v2-SGD-legacy-slow".
    """
    replays_of_group, marks_of_group = {}, {}
    for section in sections:
        for case, results, family in section.replays():
            marks = section.marks(case, family)
            names = [section.file, section.name, *section.group(case), family]
            group = "-".join(names + [mark.name for mark in marks])
            marks_of_group[group] = marks
            replays = replays_of_group.setdefault(group, [])
            replays.append((section, case, results, family))
    return [
        pytest.param(replays, id=group, marks=marks_of_group[group])
        for group, replays in replays_of_group.items()
    ]


def check_all(replays):
    """Check all replays of a group. If some fail, the error names each of them."""
    problems = []
    for section, case, results, family in replays:
        try:
            section.check(case, results, family)
        except Exception as error:
            name = "-".join([section.name, *map(str, case.values()), family])
            problems.append(f"{name}: {type(error).__name__}: {error}")
    if problems:
        count = f"{len(problems)} of {len(replays)} cases"
        pytest.fail("\n\n".join([count, *problems]), pytrace=False)
