"""Runs `tf-lso check` and `migrate` over other people's code, changes nothing, and counts.

`tools/corpus PATH...` prints for each folder how often each rule fires, what
`migrate` does about it, what cannot be read, and files that do not parse after their fixes.
With `--show` it prints the changed lines, too.
"""

import argparse
import collections
import pathlib
import sys
import time

from tf_lso.migrate import files, writing
from tf_lso.migrate.engine import Options
from tf_lso.migrate.finding_files import SUFFIXES
from tf_lso.migrate.findings import RULES

COLUMNS = "fixed left lost changed installs unreadable bad seconds".split()


def counted(folder, show):
    """Examine a folder; return a Counter of what was found, by rule and by word."""
    found, begun = collections.Counter(), time.process_time()
    for path in sorted([folder, *folder.rglob("*")]):  # installed packages too
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        done = files.examine(str(path), Options())
        found["files"] += 1
        found["changed"] += done.new != done.old
        found["installs"] += bool(done.installs)
        for item in done.unreadable:
            found["bad" if "fails on it" in item.reason else "unreadable"] += 1
            print(f"{item.file}: {item.reason}", file=sys.stderr)
        for one in done.findings:
            found[one.rule] += 1
            found["fixed"] += one.fix is not None
            found["left"] += bool(one.why_not)
            # What would break is changed, left, or guarded by the program.
            found["lost"] += one.fails and not (one.fix or one.why_not)
        if show and done.new != done.old:
            print(writing.diff(done))
    found["seconds"] = round(time.process_time() - begun, 1)
    return found


def main():
    """Print a table with a row for each folder."""
    parser = argparse.ArgumentParser("tools.corpus", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", type=pathlib.Path)
    parser.add_argument("--show", action="store_true", help="print the changed lines")
    given = parser.parse_args()
    columns = ["files", *RULES, *COLUMNS]
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for path in given.paths:
        found = counted(path, given.show)
        cells = [path.resolve().name, *(str(found[column]) for column in columns)]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
