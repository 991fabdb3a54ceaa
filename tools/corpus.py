"""Runs `tf-lso check` and `migrate` over other people's code, changes nothing, and counts.

`tools/corpus PATH...` prints for each folder how often each rule fires, what
`migrate` does about it, what cannot be read, and files that do not parse after their fixes.
"""

import argparse
import collections
import pathlib
import sys
import time

from tf_lso.commands import programs
from tf_lso.names.targets import NEWEST
from tf_lso.source.files import SUFFIXES
from tf_lso.source.renaming import Options
from tf_lso.source.rules import RULES

COLUMNS = "fixed left lost only-left changed installs unreadable bad seconds".split()


def counted(folder):
    """Examine a folder; return a Counter of what was found, by rule and by word."""
    found, begun = collections.Counter(), time.perf_counter()
    for path in sorted([folder, *folder.rglob("*")]):  # installed packages too
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        done = programs.examine(str(path), Options(), NEWEST)
        found["files"] += 1
        found["changed"] += done.new != done.old
        found["installs"] += bool(done.installs)
        for item in done.unreadable:
            found["bad" if "its migration" in item.reason else "unreadable"] += 1
            print(f"{item.file}: {item.reason}", file=sys.stderr)
        found["only-left"] += sum(not one.seen for one in done.diagnostics)
        for one in filter(lambda one: one.seen, done.diagnostics):
            found[one.rule] += 1
            found["fixed"] += one.fix is not None
            found["left"] += one.why_not is not None
            # What would break is changed, left, or guarded by the program.
            found["lost"] += one.fails and not (one.fix or one.why_not)
    found["seconds"] = round(time.perf_counter() - begun, 1)
    return found


def main():
    """Print a table with a row for each folder."""
    parser = argparse.ArgumentParser("tools.corpus", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", type=pathlib.Path)
    paths = parser.parse_args().paths
    columns = ["files", *RULES, *COLUMNS]
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for path in paths:
        found = counted(path)
        cells = [path.resolve().name, *(str(found[column]) for column in columns)]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
