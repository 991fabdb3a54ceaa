"""Where tf_lso gives another result than a recorded version did, and why.

The differences are data beside the record: `record/differences.json`, whose form
`record/README.md` tells. A difference without use, or one too few, fails the tests.
"""

import copy
import dataclasses
import functools
import json
import re

from tests.golden import harness


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """One difference; `record/README.md` tells of the attributes."""

    file: str
    section: str
    names: dict
    reason: str
    gives: dict
    message: str | None = None
    families: tuple = ()
    versions: tuple = ()
    cases: tuple = ()
    row: str | None = None

    def holds(self, case, family, version):
        """Whether a replay of `case` against `version` shows this difference."""
        return (
            (not self.families or family in self.families)
            and (not self.versions or version in self.versions)
            and (not self.cases or case in self.cases)
            and all(
                case.get(name) in (value if isinstance(value, list) else (value,))
                for name, value in self.names.items()
            )
        )

    def expected(self, recorded, case):
        """What tf_lso gives in place of `recorded`.

        That may be what the difference before this one made of it.
        """
        ((kind, value),) = self.gives.items()
        if kind == "changes":
            return changed(recorded, value)
        if kind == "replace":
            text = json.dumps(recorded, sort_keys=True)
            for pattern, replacement in value:
                text = re.sub(pattern, replacement, text)
            return json.loads(text)
        if kind == "as_in":
            names = {**case, **value}
            version = names.pop("version")
            ((_, results),) = harness.cases(self.section, self.file, **names)
            return harness.result_of(results, version)
        assert kind in ("result", "error"), kind
        return value if kind == "result" else {"error": value}


def changed(recorded, changes):
    """`recorded` with {"key > index > * > key": value} set in a copy of it."""
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


# What a part of `by_case` tells beside its changes.
_NARROWER = ("cases", "families", "versions")


@functools.cache
def every():
    """All differences, in the order in which they change a result."""
    path = harness.RECORDS / "differences.json"
    found = []
    for file, entries in json.loads(path.read_text(encoding="utf-8")).items():
        for entry in entries:
            gives = entry.pop("gives")
            for part in gives.get("by_case", [gives]):
                narrower = {k: part.pop(k) for k in _NARROWER if k in part}
                found.append(Difference(file, gives=part, **(entry | narrower)))
    return found


@functools.cache
def of(file, section):
    return [one for one in every() if (one.file, one.section) == (file, section)]


def rows():
    """How the rows of the page begin that differences name."""
    return {one.row for one in every() if one.row}
