"""Read `record/differences.json`.

The file has an entry with a reason for each case in which tf_lso gives another result than a
recorded version. `record/README.md` describes the form of an entry. A test fails if tf_lso does
not give the result in the entry, and if an entry applies to no case.
"""

import copy
import dataclasses
import functools
import json

from tests.golden import harness
from tests.golden.encoding import decode

# A reason that begins with this text names a row of compat_docs/reference/differences.md.
ROW = "differences.md: "


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """One entry of differences.json. `record/README.md` describes the attributes."""

    case: dict
    because: list
    families: tuple = ()
    versions: list | None = None
    like: dict = dataclasses.field(default_factory=dict)
    gives: dict = dataclasses.field(default_factory=dict)
    message: str | None = None

    def holds(self, case, family):
        """Return whether the entry applies to a case that is replayed on a family."""
        return (not self.families or family in self.families) and all(
            case.get(name) in (value if isinstance(value, list) else (value,))
            for name, value in self.case.items()
        )

    def versions_of(self, recorded):
        """Return the set of the recorded versions that gave another result."""
        return set(recorded if self.versions is None else self.versions)

    def expected(self, section, file, case, results):
        """Return the result that the entry describes for a case."""
        version = self.like.get("version")
        names = {k: v for k, v in self.like.items() if k != "version"}
        if names:
            ((_, results),) = harness.cases(section, file, **{**case, **names})
        return changed(harness.result_of(results, version), self.gives)


def changed(recorded, changes):
    """Return a copy of a recorded result with changes.

    Args:
      recorded: the result, of nested dicts and lists.
      changes: dict that maps paths to new values. The path "rows > 0 > scale" leads to
        `recorded["rows"][0]["scale"]`. In "rows > * > scale", `*` stands for every element of a
        list. The empty path stands for the whole result.
    """
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
    """Return the entries for a section in a file of the record."""
    entries = _read().get(file, {}).get(section, [])
    return [Difference(**{**e, "gives": decode(e.get("gives", {}))}) for e in entries]


def find(file, section, case, family):
    """Return the entry that applies to a case on a family, or None."""
    found = [one for one in of(file, section) if one.holds(case, family)]
    assert len(found) <= 1, f"several entries hold for {case} on {family}: {found}"
    return found[0] if found else None


def rows():
    """Return the rows of the page that entries name, as a set of the texts they begin with."""
    return {
        reason.removeprefix(ROW)
        for sections in _read().values()
        for entries in sections.values()
        for entry in entries
        for reason in entry["because"]
        if reason.startswith(ROW)
    }
