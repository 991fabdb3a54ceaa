"""Compares what tf_lso gives with a recorded section, version by version.

Each recorded case is replayed once on each optimizer family that has it. What it gives is
what every version gave, or what the table of differences makes of that.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Callable

import pytest

from tests import families
from tests.golden import differences, harness, messages, replays

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
      equal: function of (actual, expected, case, family).
      families: family in the record -> the families here.
      applies: function of (case, family): whether the Keras that is installed has it.
      slow: function of (case, family): whether the replay is left to the longer run.
      file: the file's name.
      is_clear: function of (message, recorded, case): whether a message of tf_lso that no
        difference tells of says enough.
      recorded: function that makes of a recorded result what is compared.
      each: whether a difference must change each replay that it holds for, or some.
    """

    name: str
    replay: Callable
    equal: Callable = same
    families: dict = dataclasses.field(default_factory=lambda: FAMILIES)
    applies: Callable = lambda case, family: True
    slow: Callable = lambda case, family: False
    file: str = "training"
    is_clear: Callable = lambda message, recorded, case: messages.is_as_clear(
        message, recorded.get("message", "")
    )
    recorded: Callable = replays.recorded
    each: bool = False

    @property
    def differences(self):
        """The differences of this section, a tuple."""
        return differences.of(self.file, self.name)

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
            if difference.holds(case, family, version)
        ]

    def check(self, case, results, family):
        """Assert that tf_lso gives what each version gave, differences aside."""
        for version, recorded, listed in self._each_version(case, results, family):
            problem = self._problem(version, recorded, listed, case, family)
            assert problem is None, f"{version}: {problem}"
            if self.each and harness.SAME_KERNELS:
                idle = self._idle(version, recorded, listed, case, family)
                reasons = [difference.reason for difference in idle]
                assert not idle, f"{version} does not differ in this: {reasons}"

    def idle(self):
        """The differences without which each replay would be equal."""
        found = list(self.differences)
        for case, results, family in self.replays():
            for version, recorded, listed in self._each_version(case, results, family):
                idle = self._idle(version, recorded, listed, case, family)
                found = [one for one in found if one not in listed or one in idle]
        return found

    def _each_version(self, case, results, family):
        for entry in results:
            for version in entry["versions"]:
                listed = self.listed(case, family, version)
                yield version, self.recorded(entry["result"]), listed

    def _idle(self, version, recorded, listed, case, family):
        """Those of the listed differences without which the replay would be equal."""
        return [
            one
            for one in listed
            if self._problem(
                version, recorded, [d for d in listed if d is not one], case, family
            )
            is None
        ]

    def _problem(self, version, recorded, listed, case, family):
        """How tf_lso differs beyond the listed differences, or None."""
        actual, expected = self.actual(family, case), recorded
        try:
            for difference in listed:
                expected = difference.expected(
                    expected, case, family, version, self.file
                )
            is_equal = self.equal(actual, expected, case, family)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            return repr(error)  # one changes what another has to give first
        if not is_equal:
            return f"{expected}, now {actual}"
        if "error" in actual and not self._tells(
            actual["message"], recorded, listed, case
        ):
            return f"unclear: {actual['message']}"
        return None

    def _tells(self, message, recorded, listed, case):
        patterns = [difference.message for difference in listed if difference.message]
        if patterns:
            return re.search(patterns[-1], message)
        return self.is_clear(message, recorded, case)


@functools.cache
def _played(replay, family, case):
    return replay(family, json.loads(case))


def parameters(sections):
    """A `pytest.param` for each replay of {name: Section}; some are marked slow."""
    return [
        pytest.param(
            section,
            case,
            results,
            family,
            marks=pytest.mark.slow if section.slow(case, family) else (),
            id=f"{section.name}-{harness.name_of(case)}-{family}",
        )
        for section in sections.values()
        for case, results, family in section.replays()
    ]


def group(section, case, results, family):
    """The name of the test that a replay belongs to."""
    del case, results
    return f"{section.name}-{family}"
