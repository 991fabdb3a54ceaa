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


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a file of the record.

    Attributes:
      file: the file's name.
      name: that of the section.
      replay: function of (api, family, case) that does what the case says.
      equal: function of (actual, expected, case, family).
      families: family in the record -> the families here.
      has: function of (case, family): whether the section has it, and this Keras.
      marks: function of (case, family): the marks of the replay.
      api: the class that replays all cases, in place of that of each case.
      each: whether a difference must change each replay that it holds for, or some.
    """

    file: str
    name: str
    replay: Callable
    equal: Callable = same
    families: dict = dataclasses.field(default_factory=lambda: FAMILIES)
    has: Callable = lambda case, family: True
    marks: Callable = lambda case, family: ()
    api: str | None = None
    each: bool = False

    def replays(self):
        """Yield (case, results, family), one family after the other."""
        cases = harness.cases(self.name, self.file)
        for family in sorted({f for found in self.families.values() for f in found}):
            for case, results in cases:
                is_here = family in self.families[case.get("family")]
                if is_here and self.has(case, family):
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

    def check(self, case, results, family):
        """Assert that tf_lso gives what each version gave, differences aside."""
        for version, recorded, listed in self._versions(case, results, family):
            problem = self._problem(recorded, listed, case, family)
            assert problem is None, f"{version}: {problem}"
            if self.each and harness.SAME_KERNELS:
                idle = self._idle(recorded, listed, case, family)
                reasons = [difference.reason for difference in idle]
                assert not idle, f"{version} does not differ in this: {reasons}"

    def idle(self):
        """The differences without which each replay would be equal.

        Beside other kernels those of another reason alone: there some of the differences
        in rounding are within the tolerance.
        """
        every = differences.of(self.file, self.name)
        found = set(every)
        for case, results, family in self.replays():
            for _, recorded, listed in self._versions(case, results, family):
                if found.intersection(listed):
                    idle = self._idle(recorded, listed, case, family)
                    found -= set(listed) - set(idle)
        needed = {one.reason for one in every if one not in found}
        if harness.SAME_KERNELS:
            return found
        return {one for one in found if one.reason not in needed}

    def wrong_on_tf_keras(self):
        """Replay the cases on tf_keras's own wrapper: does it what was recorded of it?

        Returns:
          The number of cases, and what differs from the record.
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
        """What tf_keras's own wrapper gives."""
        family = harness.TF_KERAS_FAMILY[case["family"]]
        return play(self.replay, "reference", family, case)

    def _versions(self, case, results, family):
        """Yield each version, what it gave, and the differences that hold for it."""
        of_section = differences.of(self.file, self.name)
        for entry in results:
            for version in entry["versions"]:
                listed = [d for d in of_section if d.holds(case, family, version)]
                yield version, entry["result"], listed

    def _idle(self, recorded, listed, case, family):
        """Those of the listed differences without which the replay would be equal."""

        def is_idle(one):
            others = [difference for difference in listed if difference is not one]
            return self._problem(recorded, others, case, family) is None

        return [one for one in listed if is_idle(one)]

    def _problem(self, recorded, listed, case, family):
        """How tf_lso differs beyond the listed differences, or None."""
        actual, expected = self.actual(family, case), recorded
        try:
            for difference in listed:
                expected = difference.expected(expected, case)
            is_equal = self.equal(actual, expected, case, family)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            return repr(error)  # one changes what another has to give first
        if not is_equal:
            return f"{expected}, now {actual}"
        if "error" not in actual:
            return None
        message = actual["message"]
        patterns = [difference.message for difference in listed if difference.message]
        if patterns:
            is_clear = re.search(patterns[-1], message)
        else:
            is_clear = messages.is_as_clear(message, recorded.get("message", ""), case)
        return None if is_clear else f"unclear: {message}"


def play(replay, api, family, case):
    """What the record would hold for the case."""
    return encoding.plain(encoding.attempt(lambda: replay(api, family, case)))


@functools.cache
def _played(replay, api, family, case):
    return play(replay, api, family, json.loads(case))


def parameters(sections):
    """A `pytest.param` for each replay of the sections."""
    return [
        pytest.param(
            section,
            case,
            results,
            family,
            marks=section.marks(case, family),
            id=f"{section.name}-{harness.name_of(case)}-{family}",
        )
        for section in sections
        for case, results, family in section.replays()
    ]


# --- Many recorded cases in one test, which tells all that fail and not the first.


def grouped(parameters, by):
    """Group parameters by the name that a function of their values returns.

    Returns:
      A list of `pytest.param`, each a list of parameters. Those with marks, such as slow
      ones, have groups of their own.
    """
    groups = {}
    for parameter in parameters:
        name = "-".join([by(*parameter.values), *(m.name for m in parameter.marks)])
        groups.setdefault(name, []).append(parameter)
    return [
        pytest.param(found, id=name, marks=found[0].marks)
        for name, found in groups.items()
    ]


def check_all(check, parameters):
    """Call `check` with each parameter; fail with all that did, by their ids."""
    problems = []
    for parameter in parameters:
        try:
            check(*parameter.values)
        except Exception as error:
            problems.append(f"{parameter.id}: {type(error).__name__}: {error}")
    if problems:
        count = f"{len(problems)} of {len(parameters)} cases"
        pytest.fail("\n\n".join([count, *problems]), pytrace=False)
