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

    def applies_to(self, case, family):
        """Return whether the entry applies to a case that is replayed on a family."""
        if self.families and family not in self.families:
            return False
        for name, value in self.case.items():
            alternatives = value if isinstance(value, list) else [value]
            if case.get(name) not in alternatives:
                return False
        return True

    def differing_versions(self, recorded):
        """Return the set of the recorded versions that gave another result."""
        return set(recorded if self.versions is None else self.versions)

    def expected(self, section, file, case, results):
        """Return the result that the entry describes for a case."""
        version = self.like.get("version")
        names = {k: v for k, v in self.like.items() if k != "version"}
        if names:
            ((_, results),) = harness.cases(section, file, **{**case, **names})
        return with_changes(harness.result_of(results, version), self.gives)


def with_changes(recorded, changes):
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


@functools.cache
def _read():
    text = (harness.RECORDS / "differences.json").read_text(encoding="utf-8")
    return json.loads(text)


@functools.cache
def entries(file, section):
    """Return the entries for a section in a file of the record."""
    return [
        Difference(**{**entry, "gives": decode(entry.get("gives", {}))})
        for entry in _read().get(file, {}).get(section, [])
    ]


def find(file, section, case, family):
    """Return the entry that applies to a case on a family, or None."""
    found = [
        entry for entry in entries(file, section) if entry.applies_to(case, family)
    ]
    assert len(found) <= 1, f"several entries apply to {case} on {family}: {found}"
    return found[0] if found else None


def named_rows():
    """Return the rows of the page that entries name, as a set of the texts they begin with."""
    return {
        reason.removeprefix(ROW)
        for sections in _read().values()
        for listed in sections.values()
        for entry in listed
        for reason in entry["because"]
        if reason.startswith(ROW)
    }
