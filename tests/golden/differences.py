"""Where tf_lso gives another result than a recorded version did: what it gives, and why.

`record/differences.json` has an entry for each such case, whose form `record/README.md`
describes. `comparing.py` fails where tf_lso gives something else than its entry says, and
where an entry has no case that differs.
"""

import copy
import dataclasses
import functools
import json

from tests.golden import harness
from tests.golden.encoding import decode

# How the reasons begin that are rows of compat_docs/reference/differences.md.
ROW = "differences.md: "


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """One entry; `record/README.md` describes the attributes."""

    case: dict
    because: list
    families: tuple = ()
    versions: list | None = None
    like: dict = dataclasses.field(default_factory=dict)
    gives: dict = dataclasses.field(default_factory=dict)
    message: str | None = None

    def holds(self, case, family):
        """Whether a case is one of this entry, replayed on a family."""
        return (not self.families or family in self.families) and all(
            case.get(name) in (value if isinstance(value, list) else (value,))
            for name, value in self.case.items()
        )

    def versions_of(self, recorded):
        """Return those of the recorded versions that gave another result, a set."""
        return set(recorded if self.versions is None else self.versions)

    def expected(self, section, file, case, results):
        """Return what tf_lso gives for a case of this entry."""
        version = self.like.get("version")
        names = {k: v for k, v in self.like.items() if k != "version"}
        if names:
            ((_, results),) = harness.cases(section, file, **{**case, **names})
        return changed(harness.result_of(results, version), self.gives)


def changed(recorded, changes):
    """Return `recorded` with {"key > index > * > key": value} set in a copy of it."""
    recorded = copy.deepcopy(recorded)
    for path, value in changes.items():
        if not path:
            return value
        *above, last = path.split(" > ")
        places = [recorded]
        for key in above:
            each = key == "*"
            places = [f for p in places for f in (p if each else [p[_key(p, key)]])]
        for place in places:
            place[_key(place, last)] = value
    return recorded


def _key(place, key):
    return int(key) if isinstance(place, list) else key


@functools.cache
def _read():
    text = (harness.RECORDS / "differences.json").read_text(encoding="utf-8")
    return json.loads(text)


@functools.cache
def of(file, section):
    """Return the entries of a section of a file of the record."""
    entries = _read().get(file, {}).get(section, [])
    return [Difference(**{**e, "gives": decode(e.get("gives", {}))}) for e in entries]


def find(file, section, case, family):
    """Return the entry of a case on a family, or None."""
    found = [one for one in of(file, section) if one.holds(case, family)]
    assert len(found) <= 1, f"several entries hold for {case} on {family}: {found}"
    return found[0] if found else None


def rows():
    """Return how the rows of the page begin that entries name."""
    return {
        reason.removeprefix(ROW)
        for sections in _read().values()
        for entries in sections.values()
        for entry in entries
        for reason in entry["because"]
        if reason.startswith(ROW)
    }
