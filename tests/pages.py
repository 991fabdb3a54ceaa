"""Run the code and the commands of a page, and compare their output with the page.

An HTML comment on the line above a ```python block can mark the block:

    <!-- own process -->            the block runs alone, in a process of its own
    <!-- own process, 2 workers --> the block runs in each of two TensorFlow workers
    <!-- does not run today -->     the block runs alone, and must fail
    <!-- file: train.py -->         the block is a file for the ```console blocks

All Python blocks without a mark form one program, in the order of the page. A ```text block
right after a Python block contains what the Python block prints. If the Python block must fail,
the text ends with the last line of the error.

All ```console blocks of a page run in the order of the page, in one new folder that contains
the files of the page. A line `$ tf-lso ...` or `$ python ...` is a command. The lines up to the
next command are the standard output of the command. If the command fails, the last line of the
error follows.
"""

import doctest
import re
import shlex
import sys
from typing import NamedTuple

from tests import preloaded
from tests.processes import HANGS_AFTER, QUIET, ROOT, run_workers, start

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?"
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_CONSOLE = re.compile(r"^```console\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
MARKS = ("", "own process", "own process, 2 workers", "does not run today")
_END = "--- end of a block ---"
_WIDE = {"COLUMNS": "88"}
# Runs the program of a worker. Both output streams of a worker go into one file, so this code
# writes everything that the program prints after everything that TensorFlow logs.
_APART = """
import contextlib, io, runpy, sys
with contextlib.redirect_stdout(io.StringIO()) as printed:
    runpy.run_path(sys.argv[1], run_name="__main__")
print("--- printed ---", printed.getvalue(), sep="\\n")
"""


class Program(NamedTuple):
    """The Python blocks of a page that run in one process."""

    mark: str
    lines: list[str]  # the code, with each line at its line number in the page
    outputs: list[str | None]  # what each block must print, or None

    @property
    def line(self):
        """The number of the first line of the code in the page."""
        return 1 + next(number for number, line in enumerate(self.lines) if line)

    @property
    def workers(self):
        """The number of processes that run the program."""
        return 2 if "2 workers" in self.mark else 1


class Command(NamedTuple):
    """One command of a page."""

    words: list[str]  # the words into which a shell splits the command
    output: str  # what the command must print


def programs_of(text):
    """Return the programs of a page: all blocks without a mark, then each marked block."""
    found = [Program("", [], [])]
    for match in _BLOCK.finditer(text):
        mark = match["mark"] or ""
        if mark.startswith("file: "):
            continue
        if mark:
            found.append(Program(mark, [], []))
        program = found[-1] if mark else found[0]
        above = text.count("\n", 0, match.start("code"))
        program.lines.extend([""] * (above - len(program.lines)))
        program.lines.extend(match["code"].splitlines())
        program.lines.append(f"print({_END!r}, flush=True)")
        program.outputs.append(match["output"])
    return [program for program in found if program.lines]


def files_of(text):
    """Return {name: text} of the files of a page."""
    files = {}
    for block in _BLOCK.finditer(text):
        mark = block["mark"] or ""
        if mark.startswith("file: "):
            files[mark.removeprefix("file: ")] = block["code"]
    return files


def commands_of(text):
    """Return the commands of a page, in the order of the page."""
    commands = []
    for match in _CONSOLE.finditer(text):
        for part in re.split(r"^\$ ", match["lines"], flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            commands.append(Command(shlex.split(line, comments=True), output))
    return commands


def problems_of_program(program, folder, by=start):
    """Write a program into a folder, run the program, and return a list of problems.

    `by` is the function that runs the program: `start`, or the faster `preloaded.run`. Workers
    do not use `by`.
    """
    path = folder / "page.py"
    path.write_text("\n".join(program.lines), encoding="utf-8")
    if program.workers == 1:
        done = by([str(path)], ROOT)
        return _problems(program, done.returncode, done.stdout, done.stderr)
    command = [sys.executable, "-c", _APART, str(path)]
    problems = []
    for result in run_workers(command, program.workers, HANGS_AFTER, QUIET, cwd=ROOT):
        errors, _, printed = result.output.partition("--- printed ---\n")
        problems += _problems(program, result.returncode, printed, errors)
    return problems


def _problems(program, code, printed, errors):
    """Compare the exit code and the output of a program with the page."""
    if program.mark == "does not run today":
        if code == 0:
            return ["It runs, although the page says that it does not."]
        printed += errors.splitlines()[-1]
    elif code or printed.count(_END) < len(program.outputs):
        return [f"It ended with exit code {code}:\n{printed}{errors}"]
    problems = []
    for expected, output in zip(program.outputs, printed.split(f"{_END}\n")):
        if expected is not None:
            problems += _differences("", expected, output)
    return problems


def problems_of_commands(text, folder):
    """Run the commands of a page in a folder, and return a list of problems."""
    for name, code in files_of(text).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    problems = []
    for command in commands_of(text):
        source = " ".join(command.words)
        problems += _differences(source, command.output, _run(command.words, folder))
    return problems


def _differences(source, expected, printed):
    """Return a list with a description of how the output differs from the page.

    The list is empty if the output and the page agree. `source` is the command that printed
    the output.
    """
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if checker.check_output(expected, printed, flags):
        return []
    example = doctest.Example(source, expected)
    return [checker.output_difference(example, printed, flags)]


def _run(words, folder):
    """Run a command in a folder. Return its output, as the page must show it."""
    variables = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, variables[name] = words[0].partition("=")
        words = words[1:]
    program = {"tf-lso": ["-m", "tf_lso"], "python": []}[words[0]]
    done = preloaded.run([*program, *words[1:]], folder, **_WIDE, **variables)
    last = done.stderr.rstrip().splitlines()[-1:] if done.returncode else []
    return done.stdout + "".join(last)
