"""Migrates small programs, and the cases of `cases.txt`."""

import difflib
import pathlib
import re
import textwrap

from tf_lso.source.diagnose import diagnose
from tf_lso.source.renaming import Options

_TEXT = (pathlib.Path(__file__).parent / "cases.txt").read_text(encoding="utf-8")


def cases():
    """Returns name -> (program, the lines of its diff)."""
    found = {}
    for part in re.split(r"^=== ", _TEXT, flags=re.MULTILINE)[1:]:
        head, _, diff = part.partition("--- gives\n")
        name, _, program = head.partition("\n")
        found[name] = program, diff.splitlines()[: diff.rstrip("\n").count("\n") + 1]
    return found


def outcome_of(source, **options):
    """Returns the `Diagnosis` of a program: all old names move, unless told otherwise."""
    options = Options(**{"prefer": "tf_lso", **options})
    return diagnose([(None, textwrap.dedent(source))], options=options)


def migrated(source, **options):
    """Returns the new text of a program, held to be the same when migrated again."""
    source = textwrap.dedent(source)
    new = outcome_of(source, **options).texts.get(None, source)
    again = outcome_of(new, **options).texts
    assert again == {}, again
    compile(new, "migrated", "exec", dont_inherit=True)
    return new


def diff_of(old, new):
    """Returns the lines taken away and added."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]
