"""Compare the results of tf_lso with a section of the record, version by version.

Each recorded case is replayed once on each optimizer family to which the case applies. The
result must equal the result of every version, or the result that an entry in
`record/differences.json` gives for the case.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Callable

import pytest

from tests import families
from tests.golden import differences, encoding, harness, messages

# Maps a family of the record to the installed families that replay its cases. The key None is
# for cases without a family, such as policies. One family of each Keras replays these cases.
REPLAY_FAMILIES = {
    "v2": families.here("legacy", "keras3"),
    "new": families.here("new", "keras3"),
    None: families.here("new", "keras3"),
}


def same(actual, expected, case, family):
    return encoding.equal(actual, expected)


def slow_except_current(case, family):
    """Return the mark `slow`, except for the family of `tf.keras.optimizers`."""
    return [pytest.mark.slow] if family != families.CURRENT else []


def slow_except_stable_and_current(case, family):
    """Return the mark `slow`, except for the family of `tf.keras.optimizers`.

    If this family is Keras 3, the cases of the experimental class are slow, too.
    """
    if case.get("api") == "experimental" and family == "keras3":
        return [pytest.mark.slow]
    return slow_except_current(case, family)


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a file of the record.

    Attributes:
      file: the name of the file.
      name: the name of the section.
      replay: function of (api, family, case) that runs the recorded program and returns its
        result.
      equal: function of (actual, expected, case, family) that returns whether two results are
        equal.
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

    def check(self, case, results, family):
        """Assert that tf_lso gives the result of every version.

        If `differences.json` has an entry for the case, assert instead that tf_lso gives the
        result in the entry, and that exactly the versions in the entry gave another result.
        """
        actual = self.actual(family, case)
        entry = differences.find(self.file, self.name, case, family)
        recorded = harness.by_version(results)
        differing = {
            version: result
            for version, result in recorded.items()
            if not self._same(actual, result, case, family)
        }
        if entry is None:
            assert not differing, f"{differing}, now {actual}"
        else:
            expected = entry.expected(self.name, self.file, case, results)
            is_same = self._same(actual, expected, case, family)
            assert is_same, f"{entry}: {expected}, now {actual}"
            listed = entry.differing_versions(recorded)
            # If an entry is about the last bit of a number, other kernels may not show the
            # difference. So on other kernels, fewer versions may differ than the entry says.
            if harness.SAME_KERNELS:
                is_as_listed = differing.keys() == listed
            else:
                is_as_listed = differing.keys() <= listed
            assert is_as_listed, (
                f"it differs from {[*differing]}, but the entry says other versions: {entry}"
            )
        if "error" in actual:
            pattern = entry.message if entry else None
            self._check_message(actual["message"], recorded, case, pattern)

    def _same(self, actual, expected, case, family):
        try:
            return self.equal(actual, expected, case, family)
        except (AttributeError, LookupError, TypeError, ValueError):
            return False  # one result is an error or has another form

    def _check_message(self, message, recorded, case, pattern):
        """Assert that a message matches a pattern, or is as clear as recorded messages."""
        if pattern:
            assert re.search(pattern, message), f"unclear: {message}"
            return
        for version, result in recorded.items():
            is_clear = messages.is_as_clear(message, result.get("message", ""), case)
            assert is_clear, f"{version}: unclear: {message}"

    def unused(self):
        """Return the entries of differences.json that apply to no replay of the section."""
        return [
            entry
            for entry in differences.entries(self.file, self.name)
            if not any(
                entry.applies_to(case, family) for case, _, family in self.replays()
            )
        ]

    def wrong_on_tf_keras(self):
        """Replay the section's cases of tf_keras on tf_keras's own wrapper.

        Returns:
          The number of replayed cases, and a list of texts about the cases whose result differs
          from the record.
        """
        played, wrong = 0, []
        for case, results in harness.cases(self.name, self.file, api="stable"):
            recorded = harness.result_of(results, harness.REFERENCE)
            if recorded is not None:
                played += 1
                actual = self.on_tf_keras(case)
                if not encoding.equal(actual, recorded):
                    wrong.append(f"{case}: {actual}")
        return played, wrong

    def on_tf_keras(self, case):
        """Return the result of tf_keras's own wrapper for a case."""
        family = {"v2": "legacy", "new": "new"}[case["family"]]
        return play(self.replay, "reference", family, case)


def play(replay, api, family, case):
    """Return the result of a case in the form of the record."""
    return encoding.normalized(encoding.attempt(lambda: replay(api, family, case)))


@functools.cache
def _cached_play(replay, api, family, case_as_json):
    return play(replay, api, family, json.loads(case_as_json))


# --- One test replays many recorded cases, and reports every case that fails.


def grouped(sections, more_marks=None):
    """Return a list with a `pytest.param` for each group of replays.

    A group contains the replays with the same section, `Section.group`, family and marks. The
    value of its param is a list of (section, case, results, family). Its id consists of the
    names of these, such as "golden-trajectories-v2-SGD-legacy-slow".

    Args:
      sections: list of `Section`.
      more_marks: dict that maps the id of a group to a list of additional marks.
    """
    more_marks = more_marks or {}
    replays_of_group, marks_of_group = {}, {}
    for section in sections:
        for case, results, family in section.replays():
            marks = section.marks(case, family)
            names = [section.file, section.name, *section.group(case), family]
            group = "-".join(names + [mark.name for mark in marks])
            marks_of_group[group] = [*marks, *more_marks.get(group, [])]
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
