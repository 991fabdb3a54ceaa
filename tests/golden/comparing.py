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
FAMILIES = {
    "v2": families.here("legacy", "keras3"),
    "new": families.here("new", "keras3"),
    None: families.here("new", "keras3"),
}


def same(actual, expected, case, family):
    return encoding.equal(actual, expected)


def current(case, family):
    """Return the mark `slow`, except for the family of `tf.keras.optimizers`."""
    return [pytest.mark.slow] if family != families.CURRENT else []


def once(case, family):
    """Return the marks of `current`, and `slow` for experimental cases on Keras 3.

    For a quick run on Keras 3, the same cases of the stable class are enough.
    """
    again = case.get("api") == "experimental" and family == "keras3"
    return [pytest.mark.slow] if again else current(case, family)


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
      has: function of (case, family) that returns whether the family replays the case.
      marks: function of (case, family) that returns a list of pytest marks for the replay.
      part: function of a case that returns a tuple of names. Cases with equal names run in one
        test. By default, all cases of a section on one family run in one test.
      api: the class that replays all cases. None if each case names its class.
    """

    file: str
    name: str
    replay: Callable
    equal: Callable = same
    families: dict = dataclasses.field(default_factory=lambda: FAMILIES)
    has: Callable = lambda case, family: True
    marks: Callable = lambda case, family: ()
    part: Callable = lambda case: ()
    api: str | None = None

    def replays(self):
        """Yield (case, results, family) for each replay, one family after the other."""
        cases = harness.cases(self.name, self.file)
        for family in sorted({f for found in self.families.values() for f in found}):
            for case, results in cases:
                is_here = family in self.families[case.get("family")]
                if is_here and self.has(case, family):
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
        return _played(self.replay, api, family, json.dumps(program))

    def check(self, case, results, family):
        """Assert that tf_lso gives the result of every version.

        If `differences.json` has an entry for the case, assert instead that tf_lso gives the
        result in the entry, and that exactly the versions in the entry gave another result.
        """
        actual = self.actual(family, case)
        listed = differences.find(self.file, self.name, case, family)
        recorded = {v: entry["result"] for entry in results for v in entry["versions"]}
        others = {
            version: result
            for version, result in recorded.items()
            if not self._same(actual, result, case, family)
        }
        if listed is None:
            assert not others, f"{others}, now {actual}"
        else:
            expected = listed.expected(self.name, self.file, case, results)
            is_same = self._same(actual, expected, case, family)
            assert is_same, f"{listed}: {expected}, now {actual}"
            wanted = listed.versions_of(recorded)
            # If an entry is about the last bit of a number, other kernels may not show the
            # difference. So on other kernels, fewer versions may differ than the entry says.
            is_exact = harness.SAME_KERNELS or others.keys() - wanted
            assert not is_exact or others.keys() == wanted, (
                f"it differs from {[*others]}, but the entry says other versions: {listed}"
            )
        if "error" in actual:
            pattern = listed.message if listed else None
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
            one
            for one in differences.of(self.file, self.name)
            if not any(one.holds(case, family) for case, _, family in self.replays())
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
        family = {"v2": "legacy", "new": "new"}[case["family"]]
        return play(self.replay, "reference", family, case)


def play(replay, api, family, case):
    """Return the result of a case in the form of the record."""
    return encoding.plain(encoding.attempt(lambda: replay(api, family, case)))


@functools.cache
def _played(replay, api, family, case):
    return play(replay, api, family, json.loads(case))


# --- One test replays many recorded cases, and reports every case that fails.


def grouped(sections, more_marks=None):
    """Return a list with a `pytest.param` for each group of replays.

    A group contains the replays with the same section, part, family and marks. The value of its
    param is a list of (section, case, results, family). Its id consists of these names, such as
    "golden-trajectories-v2-SGD-legacy-slow".

    Args:
      sections: list of `Section`.
      more_marks: dict that maps the id of a group to a list of additional marks.
    """
    more_marks = more_marks or {}
    groups = {}
    for section in sections:
        for case, results, family in section.replays():
            marks = section.marks(case, family)
            names = (section.file, section.name, *section.part(case), family)
            name = "-".join([*names, *(mark.name for mark in marks)])
            _, replays = groups.setdefault(name, (marks, []))
            replays.append((section, case, results, family))
    return [
        pytest.param(replays, id=name, marks=[*marks, *more_marks.get(name, [])])
        for name, (marks, replays) in groups.items()
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
