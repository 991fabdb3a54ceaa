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
from tests.golden import differences, encoding, harness, messages

# Family in the record -> the families here; policies have none, but are of a Keras.
FAMILIES = {
    "v2": families.here("legacy", "keras3"),
    "new": families.here("new", "keras3"),
    None: families.here("new", "keras3"),
}


def same(actual, expected, case, family):
    """Whether a result is the expected one, to the last bit."""
    return encoding.equal(actual, expected)


def is_as_clear(message, recorded, case):
    """Whether a message of tf_lso that no difference tells of says enough."""
    return messages.is_as_clear(message, recorded.get("message", ""))


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a file of the record.

    Attributes:
      file: the file's name.
      name: that of the section.
      replay: function of (api, family, case) that does what the case says.
      equal: function of (actual, expected, case, family).
      families: family in the record -> the families here.
      applies: function of (case, family): whether the Keras that is installed has it.
      slow: function of (case, family): whether the replay is left to the longer run.
      api: the class that replays all cases, in place of that of each case.
      is_clear: function of (message, recorded, case).
      recorded: function that makes of a recorded result what is compared.
      each: whether a difference must change each replay that it holds for, or some.
      on_tf_keras: whether the record of tf_keras is replayed on its own wrapper.
    """

    file: str
    name: str
    replay: Callable
    equal: Callable = same
    families: dict = dataclasses.field(default_factory=lambda: FAMILIES)
    applies: Callable = lambda case, family: True
    slow: Callable = lambda case, family: False
    api: str | None = None
    is_clear: Callable = is_as_clear
    recorded: Callable = encoding.recorded
    each: bool = False
    on_tf_keras: bool = False

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

        Cases that differ in the family of the record alone are one program on `family`,
        and so are those of both classes where one class replays all.
        """
        shared = ("family", "api") if self.api else ("family",)
        program = {name: value for name, value in case.items() if name not in shared}
        api = self.api or case.get("api")
        return _played(self.replay, api, family, json.dumps(program))

    def on_reference(self, family, case):
        """What tf_keras's own wrapper gives."""
        return play(self.replay, "reference", family, case)

    def listed(self, case, family, version):
        """The differences that a replay of `case` against `version` shows."""
        return [
            difference
            for difference in differences.of(self.file, self.name)
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
        found = list(differences.of(self.file, self.name))
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

        def is_idle(one):
            others = [difference for difference in listed if difference is not one]
            return self._problem(version, recorded, others, case, family) is None

        return [one for one in listed if is_idle(one)]

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


def play(replay, api, family, case):
    """What the record would hold for the case."""
    return encoding.plain(encoding.attempt(lambda: replay(api, family, case)))


@functools.cache
def _played(replay, api, family, case):
    return play(replay, api, family, json.loads(case))


def parameters(sections):
    """A `pytest.param` for each replay of the sections; some are marked slow."""
    return [
        pytest.param(
            section,
            case,
            results,
            family,
            marks=pytest.mark.slow if section.slow(case, family) else (),
            id=f"{section.name}-{harness.name_of(case)}-{family}",
        )
        for section in sections
        for case, results, family in section.replays()
    ]
