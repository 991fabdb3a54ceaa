"""The code and the commands of a page, run, and compared with what stands below them.

Marks, each an HTML comment on the line above a ```python block:

    <!-- own process -->            the block runs alone, in a process of its own
    <!-- own process, 2 workers --> the same, in each of two TensorFlow workers
    <!-- does not run today -->     alone, too; the block has to fail
    <!-- file: train.py -->         the block is a file for the ```console blocks

All other Python blocks of a page are one program, in its order. A ```text block right
after a Python block is what that block prints, with the last line of its error.

All ```console blocks of a page run in its order, in one new folder that has the files of
the page. A line `$ tf-lso ...` or `$ python ...` is a command. What stands between it
and the next one is its standard output, then the last line of the error that ends a
program.
"""

import doctest
import re
import shlex
import sys
from pathlib import Path
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
# Runs the program of a worker, whose two streams are one: what it prints comes together,
# after all that TensorFlow logs.
_APART = """
import contextlib, io, runpy, sys
with contextlib.redirect_stdout(io.StringIO()) as printed:
    runpy.run_path(sys.argv[1], run_name="__main__")
print("--- printed ---", printed.getvalue(), sep="\\n")
"""


class Program(NamedTuple):
    """The Python blocks of a page that run in one process."""

    mark: str
    lines: list[str]  # with the code on the lines that it has in the page
    outputs: list[str | None]  # of each block: what it has to print, if that is written

    @property
    def line(self):
        """The first line of its code in the page."""
        return 1 + next(number for number, line in enumerate(self.lines) if line)

    @property
    def workers(self):
        """How many processes run it."""
        return 2 if "2 workers" in self.mark else 1


class Command(NamedTuple):
    """One command of a page."""

    words: list[str]  # what a shell makes of it
    output: str  # what has to be printed


def programs_of(text):
    """The programs of a page: all blocks without a mark, then each that has one."""
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
    """The files of a page, from name to text."""
    marks = [(block["mark"] or "", block["code"]) for block in _BLOCK.finditer(text)]
    return {mark[6:]: code for mark, code in marks if mark.startswith("file: ")}


def commands_of(text):
    """The commands of a page, in order."""
    commands = []
    for match in _CONSOLE.finditer(text):
        for part in re.split(r"^\$ ", match["lines"], flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            commands.append(Command(shlex.split(line, comments=True), output))
    return commands


def unused_files(text):
    """The files of a page that no command can mean: it names neither them nor a folder."""
    words = {word for command in commands_of(text) for word in command.words}
    return [
        name
        for name in files_of(text)
        if not words & {name, *(str(parent) for parent in Path(name).parents)}
    ]


def problems_of_program(program, folder, by=start):
    """Run a program, written into a folder; return what is wrong, a list of str.

    `by`: `start`, or `preloaded.run`, which is sooner. Not for workers.
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
    if program.mark == "does not run today":
        if code == 0:
            return ["It runs, although the page says that it does not."]
        printed += errors.splitlines()[-1]
    elif code or printed.count(_END) < len(program.outputs):
        return [f"It ended with exit code {code}:\n{printed}{errors}"]
    pairs = zip(program.outputs, printed.split(f"{_END}\n"))
    found = [_difference("", *pair) for pair in pairs if pair[0] is not None]
    return list(filter(None, found))


def problems_of_commands(text, folder):
    """Run the commands of a page in a folder; return what is wrong, a list of str."""
    for name, code in files_of(text).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    problems = [
        _difference(
            " ".join(command.words), command.output, _run(command.words, folder)
        )
        for command in commands_of(text)
    ]
    return list(filter(None, problems))


def _difference(source, wanted, printed):
    """How what is printed differs from what stands in the page; None if it does not."""
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if checker.check_output(wanted, printed, flags):
        return None
    return checker.output_difference(doctest.Example(source, wanted), printed, flags)


def _run(words, folder):
    variables = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, variables[name] = words[0].partition("=")
        words = words[1:]
    program = {"tf-lso": ["-m", "tf_lso"], "python": []}[words[0]]
    done = preloaded.run([*program, *words[1:]], folder, **_WIDE, **variables)
    last = done.stderr.rstrip().splitlines()[-1:] if done.returncode else []
    return done.stdout + "".join(last)
