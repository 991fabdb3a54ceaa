"""The ```console blocks of a page: commands, each with what it prints.

    <!-- file: train.py -->     above a ```python block: the block is that file

All console blocks of a page run in its order, in one new folder that has the files of
the page. A line `$ tf-lso ...` or `$ python ...` is a command. What stands between it
and the next one is its standard output, then the last line of the error that ends a
program.
"""

import doctest
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests import preloaded

_FILE = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CONSOLE = re.compile(r"^```console\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDE = {"COLUMNS": "88"}


class Command(NamedTuple):
    """One command of a page.

    Attributes:
      words: what a shell makes of it, a list of str.
      output: what has to be printed.
    """

    words: list[str]
    output: str


def files_of(text):
    """The files of a page, from name to text."""
    return {match["name"]: match["code"] for match in _FILE.finditer(text)}


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


def problems_of(text, folder):
    """Run the commands of a page in a folder; return what is wrong, a list of str."""
    for name, code in files_of(text).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    problems = []
    for command in commands_of(text):
        printed = _run(command.words, folder)
        checker = doctest.OutputChecker()
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if not checker.check_output(command.output, printed, flags):
            example = doctest.Example(" ".join(command.words), command.output)
            problems.append(checker.output_difference(example, printed, flags))
    return problems


def _run(words, folder):
    variables = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, variables[name] = words[0].partition("=")
        words = words[1:]
    program = {"tf-lso": ["-m", "tf_lso"], "python": []}[words[0]]
    done = preloaded.run([*program, *words[1:]], folder, _WIDE, **variables)
    last = done.stderr.rstrip().splitlines()[-1:] if done.returncode else []
    return done.stdout + "".join(last)
