"""`tf-lso help` prints, lists and searches the page "Troubleshooting by message".

In the repository, the files `troubleshooting.md` and `rules.md` in this folder are links to
pages in compat_docs. In an installed package, these files are the pages themselves.

An entry of a page consists of a heading `### ...`, a line `<a id="NAME"></a>` with the name
of the entry, and a text with one block of code.
"""

import argparse
import itertools
import math
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

SUMMARY = "explain an error or a warning: list the entries, search them, print one"
DESCRIPTION = """\
Prints an entry of the page "Troubleshooting by message", which comes with the
package. An entry says what a message means and shows the code that solves the
problem. Messages of tf_lso end with the name of their entry.
"""
EPILOG = """\
examples:
  tf-lso help              list all entries
  tf-lso help stuck        print the entry with this name
  tf-lso help nan          list the entries that contain a word
  tf-lso help my scale is always 1
                           list the nearest entries
  tf-lso help "object has no attribute 'lr'"
                           print the entry for a message

exit codes:
  0  found
  1  no entry has the message or all of the words; the nearest are listed
"""
_ENTRY = re.compile(
    r"^### ([^\n]*)\n\n<a id=\"([\w-]+)\"></a>\n\n(.*?)(?=^##|\Z)", re.M | re.S
)
_CODE = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
_SPAN = re.compile(r"(`+) ?(.*?) ?\1(?!`)")
_COMMANDS = ("tf-lso ", "pip ")
_LINK = re.compile(r"\[([^]]*)\]\((?!https?:)([^)\s]*)\)")


class HelpEntry(NamedTuple):
    """An entry of a page. In the heading, `…` stands for any text."""

    section: str
    heading: str
    name: str
    text: str

    def has(self, words: list[str]) -> bool:
        """Return whether each item of `words` is the beginning of a word in the entry."""
        return all(_begins_a_word(word, " ".join(self[1:])) for word in words)

    def explains(self, message: str) -> bool:
        """Return whether `message` contains the heading or a message quoted in the text."""
        spans = [span for _, span in _SPAN.findall(_CODE.sub("", self.text))]
        others = [s for s in spans if len(s.split()) > 2 or "Error: " in s]
        forms = [form for form in others if not form.startswith(_COMMANDS)]
        return any(_is_in(form, message) for form in [self.heading, *forms])

    def shown(self) -> str:
        text = _LINK.sub(r"\1 (compat_docs/\2)", self.text)
        text = _CODE.sub(lambda code: textwrap.indent(code[1].rstrip(), "    "), text)
        paragraphs = [self.heading, *text.split("\n\n")]
        return "\n\n".join(p if p[:1] == " " else _filled(p) for p in paragraphs)


def _begins_a_word(word: str, text: str) -> bool:
    start = rf"(?<![^\W_]){re.escape(word.lower())}"
    return re.search(start, text.lower()) is not None


def nearest(message: str, known: list[HelpEntry]) -> list[HelpEntry]:
    """Return the three entries that have the most words of a message in common.

    A word counts more if few entries have it, and three times as much in the heading.
    """
    scores = dict.fromkeys(range(len(known)), 0.0)
    for word in set(re.findall(r"\w+", message)):
        having = [number for number in scores if known[number].has([word])]
        for number in having:
            weight = 3 if _begins_a_word(word, known[number].heading) else 1
            scores[number] += weight * math.log(len(known) / len(having))
    best = sorted(scores, key=lambda number: -scores[number])[:3]
    return [known[number] for number in best if scores[number]]


def _is_in(form: str, message: str) -> bool:
    parts = [re.escape(part.strip()) for part in form.split("…")]
    return re.search(".*".join(parts), message, re.DOTALL) is not None


def entries(page: str = "troubleshooting.md") -> list[HelpEntry]:
    """Return the entries of a page, in their order."""
    text = Path(__file__).with_name(page).read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, flags=re.M)
    return [
        # A heading may be a message in backticks. Remove the outer backticks.
        HelpEntry(
            section, re.sub(r"^(`+) ?(.*?) ?\1$", r"\2", heading), name, text.strip()
        )
        for section, body in sections
        for heading, name, text in _ENTRY.findall(body)
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tf-lso help [NAME | WORD ...]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="the name of an entry, words to look for, or a message in quotes",
    )


def run(args: argparse.Namespace) -> int:
    known, message = entries(), " ".join(args.words)
    chosen = (
        [entry for entry in known if message == entry.name]
        # The page lists entries for single messages before general entries.
        or [entry for entry in known if message and entry.explains(message)][:1]
        or [entry for entry in known if entry.has(message.split())]
    )
    if len(chosen) == 1:
        print(chosen[0].shown())
        return 0
    if chosen:
        _print_list(chosen)
        print(f"{len(chosen)} entries. Print one: tf-lso help NAME")
        return 0
    print(
        f"tf-lso help: no entry contains all of these words: {message}", file=sys.stderr
    )
    if near := nearest(message, known):
        print("The nearest entries:\n")
        _print_list(near)
        print("Print one: tf-lso help NAME")
    return 1


def _print_list(listed: list[HelpEntry]) -> None:
    for section, members in itertools.groupby(listed, lambda entry: entry.section):
        lines = [f"  {entry.name:<24}{entry.heading}" for entry in members]
        print("\n".join([section, *(_filled(line, " " * 26) for line in lines), ""]))


def _filled(text: str, indent: str = "") -> str:
    width = min(shutil.get_terminal_size((88, 0)).columns, 100)
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False)
