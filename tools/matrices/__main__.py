"""`tools/matrix`: its arguments, and going through the pairs."""

import argparse
import datetime
import os
import pathlib
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from tools.matrices import environments, runs, table
from tools.matrices.environments import ROOT, Failed
from tools.matrices.pairs import BY_NAME, PAIRS, Pair

_DESCRIPTION = """\
Makes a virtual environment for each supported pair of TensorFlow and Keras, runs the
core of the tests and the old programs in it, and writes the table of what came out.
An environment that exists is used again. A pair that fails does not stop the others.
"""
_EPILOG = f"""\
examples:
  tools/matrix                       all pairs, which takes hours
  tools/matrix 2.15 2.21             two of them; the rows of the others stay
  tools/matrix --quick 2.12          without the slow programs
  tools/matrix --core 2.12           without the programs
  tools/matrix --prepare 2.12        make the environment, run nothing
  tools/matrix --list                the pairs, and where their environments are

variables:
  {environments.FOLDER}=/var/venvs             where the environments are; default: .venvs
  {environments.DISTRIBUTION}=tensorflow        what has TensorFlow; default: tensorflow-cpu
  {runs.MINUTES}=120             another bound for the tests of a column
  PYTHON=/opt/python3.12/bin/python3  one more Python to choose from, beside those on the
                                      PATH and those of pyenv

exit codes:
  0    everything passed in each pair that was named
  1    something failed, or could not be run
  2    no such pair
  130  interrupted; the rows of the pairs before it are written
"""
# How much is run in an environment.
CORE, QUICK, ALL = "core", "quick", "all"
_PAGES = ROOT / "compat_docs" / "reference"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        "tools/matrix", None, _DESCRIPTION, _EPILOG, formatter_class=raw
    )
    made.add_argument(
        "pairs", nargs="*", metavar="PAIR", help=f"of {', '.join(BY_NAME)}"
    )
    made.add_argument("--list", action="store_true", help="show the pairs, run nothing")
    less = made.add_mutually_exclusive_group()
    less.add_argument(
        "--core", action="store_true", help="run the core alone, as the row then says"
    )
    less.add_argument(
        "--quick",
        action="store_true",
        help="leave the slow programs out, as the row then says",
    )
    less.add_argument(
        "--prepare",
        action="store_true",
        help="make the environments and run nothing in them",
    )
    made.add_argument(
        "--output",
        type=pathlib.Path,
        default=_PAGES,
        metavar="FOLDER",
        help="where the table is written; default: compat_docs/reference",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    args = parser().parse_args(arguments)
    unknown = [name for name in args.pairs if name not in BY_NAME]
    if unknown:
        known = ", ".join(BY_NAME)
        print(f"tools/matrix: no pair {unknown[0]}. Known: {known}", file=sys.stderr)
        return 2
    pairs = [BY_NAME[name] for name in dict.fromkeys(args.pairs)] or list(PAIRS)
    folder = environments.default_folder().absolute()
    if args.list:
        for pair in pairs:
            tf_keras = f", tf_keras {pair.tf_keras}" if pair.tf_keras else ""
            print(
                f"{pair.name}: TensorFlow {pair.tensorflow}, Keras {pair.keras}"
                f"{tf_keras}, Python {pair.python}, {folder / pair.name}"
            )
        return 0
    try:
        if args.prepare:
            for pair in pairs:
                prepare(pair, folder)
            return 0
        how_much = CORE if args.core else QUICK if args.quick else ALL
        return run(pairs, folder, how_much, args.output)
    except Failed as error:  # of --prepare
        print(f"tools/matrix: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ntools/matrix: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def run(
    pairs: Sequence[Pair], folder: pathlib.Path, how_much: str, output: pathlib.Path
) -> int:
    """Run the pairs, write the table after each, print it; return the exit code."""
    results = table.read(output)
    ran: table.Results = {}
    with tempfile.TemporaryDirectory() as migrated:
        for pair in pairs:
            results.pop(pair.name, None)
            try:
                ran[pair.name] = one(pair, folder, how_much, migrated)
            except Failed as error:
                say(pair, str(error))
            table.write({**results, **ran}, output)
    print(table.table(ran, pairs), end="")
    good = [pair.name in ran and table.is_good(ran[pair.name]) for pair in pairs]
    return int(not all(good))


def prepare(pair: Pair, folder: pathlib.Path) -> pathlib.Path:
    """Make the environment of a pair where it is missing; return the path of its log.

    Raises:
      Failed: if it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{pair.name}.log"
    log.write_bytes(b"")
    commands = environments.steps(pair, folder)
    if commands:
        say(pair, f"makes its environment, {folder / pair.name}")
        for command in commands:
            if runs.run(f"{pair.name} installs", command, log):
                raise Failed(f"the installation failed:\n{runs.tail(log)}")
        environments.finish(pair, folder)
    return log


def one(
    pair: Pair, folder: pathlib.Path, how_much: str, migrated: str
) -> dict[str, Any]:
    """Make the environment of a pair where it is missing, and run the tests in it.

    Args:
      pair: the pair.
      folder: where environments are.
      how_much: CORE, QUICK or ALL.
      migrated: folder for the migrated programs.

    Raises:
      Failed: if it cannot be made.
    """
    log = prepare(pair, folder)
    python = str(environments.python_of(pair, folder))
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": environments.versions(pair, folder),
        "installs": environments.would_install(python),
        "quick": how_much == QUICK,
    }
    for column in runs.TESTS:
        if how_much == CORE and column != CORE:
            result[column] = None
            continue
        title = f"{pair.name} {column}"
        try:
            counted = runs.tests(
                title, column, python, log, how_much == QUICK, migrated
            )
        except Failed as error:
            failed = {"pytest": str(error)}
            counted = {"passed": 0, "skipped": 0, "failed": failed, "limits": {}}
        result[column] = counted
        say(pair, f"{column}: {table.outcome(counted)}")
        for name, why in counted["failed"].items():
            say(pair, f"  {name}: {why}")
        if counted["failed"]:
            say(pair, f"  see {log}")
    return result


def say(pair: Pair, text: str) -> None:
    """Tell people what happens."""
    print(f"{pair.name}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
