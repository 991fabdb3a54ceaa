"""Where tf_lso gives another result than a recorded version did, and why.

The differences are data beside the record: `record/differences.json`, whose form
`record/README.md` tells. A difference without use, or one too few, fails the tests.
"""

import copy
import dataclasses
import functools
import json
import re

from tests.golden import encoding, harness


class _Anything:
    """Equal to everything: what a changed step count or missing slot changes too."""

    def __eq__(self, other):
        return True

    def __repr__(self):
        return "ANYTHING"


ANYTHING = _Anything()


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """One difference; `record/README.md` tells of the attributes."""

    section: str
    names: dict
    reason: str
    gives: dict
    message: str | None = None
    families: tuple = ()
    versions: tuple = ()
    row: str | None = None

    def holds(self, case, family, version):
        """Whether a replay of `case` against `version` shows this difference."""
        return (
            (not self.families or family in self.families)
            and (not self.versions or version in self.versions)
            and all(
                case.get(name) in (value if isinstance(value, list) else (value,))
                for name, value in self.names.items()
            )
        )

    def expected(self, recorded, case, family, version, file):
        """What tf_lso gives on a family, from what was recorded of a version.

        `recorded` may be what the difference before this one made of it.
        """
        ((kind, value),) = self.gives.items()
        if kind == "error":
            return {"error": value}
        if kind == "result":
            return value
        if kind == "changes":
            return changed(recorded, value)
        if kind == "replace":
            text = json.dumps(recorded, sort_keys=True)
            for pattern, replacement in value:
                text = re.sub(pattern, replacement, text)
            return json.loads(text)
        if kind == "as_in":
            wanted = {**case, **value}
            wanted.pop("version")
            ((_, results),) = [
                found
                for found in harness.cases(self.section, file)
                if found[0] == wanted
            ]
            return encoding.recorded(harness.result_of(results, value["version"]))
        assert kind == "by_case", kind
        for one in value:
            if (
                case in one["cases"]
                and version in one["versions"]
                and family in one.get("families", [family])
            ):
                recorded = changed(recorded, one["changes"])
        return recorded


def changed(recorded, changes):
    """`recorded` with {"key > index > key": value} set in a copy of it."""
    recorded = copy.deepcopy(recorded)
    for path, value in changes.items():
        if not path:
            return value
        *above, last = path.split(" > ")
        place = recorded
        for key in above:
            place = place[_key(place, key)]
        place[_key(place, last)] = value
    return recorded


def _key(place, key):
    return int(key) if isinstance(place, list) else key


def _with_anything(value):
    """The data with `ANYTHING` for the text of that name."""
    if isinstance(value, dict):
        return {key: _with_anything(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_with_anything(element) for element in value]
    return ANYTHING if value == "ANYTHING" else value


@functools.cache
def _table():
    path = harness.RECORDS / "differences.json"
    return json.loads(path.read_text(encoding="utf-8"))


@functools.cache
def of(file, section):
    """The differences of a section of a file of the record, a tuple."""
    found = (_with_anything(entry) for entry in _table()[file])
    return tuple(Difference(**entry) for entry in found if entry["section"] == section)


def rows(file):
    """How the rows begin that the differences of a file name, a set."""
    return {entry.get("row") for entry in _table()[file]}
