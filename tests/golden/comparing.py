"""Compares what tf_lso gives with a recorded section, version by version.

Each recorded case is replayed once on each optimizer family that has it. What it gives is
what every version gave, or what the table of differences makes of that.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Callable

from tests import families
from tests.golden import harness, messages, replays

# Family in the record -> the families here; policies have none, but are of a Keras.
FAMILIES = {
    "v2": families.here("legacy", "keras3"),
    "new": families.here("new", "keras3"),
    None: families.here("new", "keras3"),
}


def same(actual, expected, case, family):
    """Whether a result is the expected one, to the last bit."""
    del case, family
    return replays.equal(actual, expected)


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a file of the record.

    Attributes:
      name: that of the section.
      replay: function of (family, case) that gives what the record holds for the case.
      differences: list of `differences.Difference`.
      equal: function of (actual, expected, case, family).
      families: family in the record -> the families here.
      applies: function of (case, family): whether the Keras that is installed has it.
      slow: function of (case, family): whether the replay is left to the longer run.
      file: the file's name.
    """

    name: str
    replay: Callable
    differences: list
    equal: Callable = same
    families: dict = dataclasses.field(default_factory=lambda: FAMILIES)
    applies: Callable = lambda case, family: True
    slow: Callable = lambda case, family: False
    file: str = "training"

    def replays(self):
        """Yield (case, results, family), one family after the other."""
        cases = harness.cases(self.name, self.file)
        for family in sorted({f for found in self.families.values() for f in found}):
            for case, results in cases:
                is_here = family in self.families[case.get("family")]
                if is_here and self.applies(case, family):
                    yield case, results, family

    def actual(self, family, case):
        """What tf_lso gives; played once.

        Cases that differ in the family of the record alone are one program on `family`.
        """
        program = {name: value for name, value in case.items() if name != "family"}
        return _played(self.replay, family, json.dumps(program))

    def listed(self, case, family, version):
        """The differences that a replay of `case` against `version` shows."""
        return [
            difference
            for difference in self.differences
            if difference.holds(self.name, case, family, version)
        ]

    def check(self, case, results, family):
        """Assert that tf_lso gives what each version gave, differences aside."""
        for version, recorded in _each_version(results):
            listed = self.listed(case, family, version)
            problem = self._problem(recorded, listed, case, family)
            assert problem is None, f"{version}: {problem}"

    def idle(self):
        """The differences without which each replay that is not slow would be equal."""
        needed = set()
        for case, results, family in self.replays():
            if self.slow(case, family):
                continue
            for version, recorded in _each_version(results):
                listed = self.listed(case, family, version)
                for difference in listed:
                    others = [d for d in listed if d is not difference]
                    if self._problem(recorded, others, case, family):
                        needed.add(id(difference))
        return [d for d in self.differences if id(d) not in needed]

    def _problem(self, recorded, listed, case, family):
        """How tf_lso differs beyond the listed differences, or None."""
        actual, expected = self.actual(family, case), recorded
        try:
            for difference in listed:
                expected = difference.expected(expected, case)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return repr(error)  # one changes what another has to give first
        if not self.equal(actual, expected, case, family):
            return f"{expected}, now {actual}"
        if "error" in actual and not _is_clear(actual["message"], recorded, listed):
            return f"unclear: {actual['message']}"
        return None


@functools.cache
def _played(replay, family, case):
    return replay(family, json.loads(case))


def _each_version(results):
    for entry in results:
        for version in entry["versions"]:
            yield version, replays.recorded(entry["result"])


def _is_clear(message, recorded, listed):
    patterns = [difference.message for difference in listed if difference.message]
    if patterns:
        return re.search(patterns[-1], message)
    return messages.is_as_clear(message, recorded.get("message", ""))


def as_in(version, section, of=None):
    """What `version` gave: of versions that disagree, tf_lso follows it.

    Args:
      version: the version.
      section: the section of `training.json.gz`.
      of: names of another case, whose result it is.
    """

    def expected(recorded, case):
        del recorded
        ((_, results),) = [
            found
            for found in harness.cases(section, "training")
            if found[0] == {**case, **(of or {})}
        ]
        return replays.recorded(harness.result_of(results, version))

    return expected
