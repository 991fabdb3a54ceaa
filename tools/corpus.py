"""Counts what `tf-lso check` and `migrate` find in other people's code. Changes no file.

`tools/corpus PATH...` prints a row for each folder. The row says how often each rule reports
something, what `migrate` does about the findings, how many files cannot be read, and how many
files do not parse after their fixes. With `--show` the tool also prints the changed lines.
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
    """Examine a folder. Return a Counter whose keys are the rules and the columns."""
    found, begun = collections.Counter(), time.process_time()
    for path in sorted([folder, *folder.rglob("*")]):  # including installed packages
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        done = files.examine(str(path), Options())
        found["files"] += 1
        found["changed"] += done.new != done.old
        found["installs"] += bool(done.installs)
        for item in done.unreadable:
            found["bad" if "fails on it" in item.reason else "unreadable"] += 1
            print(f"{item.file}: {item.reason}", file=sys.stderr)
        for finding in done.findings:
            found[finding.rule] += 1
            found["fixed"] += bool(finding.fix)
            found["left"] += bool(finding.why_not)
            # A use that would break must be fixed, or have a reason why it is not fixed.
            found["lost"] += finding.fails and not (finding.fix or finding.why_not)
        if show and done.new != done.old:
            print(writing.diff(done))
    found["seconds"] = round(time.process_time() - begun, 1)
    return found


def main():
    """Print a table with a row for each folder."""
    parser = argparse.ArgumentParser("tools.corpus", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", type=pathlib.Path)
    parser.add_argument("--show", action="store_true", help="print the changed lines")
    options = parser.parse_args()
    columns = ["files", *RULES, *COLUMNS]
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for path in options.paths:
        found = counted(path, options.show)
        cells = [path.resolve().name, *(str(found[column]) for column in columns)]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
