"""`tf-lso help`: prints, lists and searches the entries of «Troubleshooting by message».

The page is `troubleshooting.md` beside this file: in the repository a link to the page in
compat_docs, in an installed package the page itself. An entry is a heading `### ...`, its
name as `<a id="NAME"></a>`, and a text with one block of code.
"""

import argparse
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

SUMMARY = "explain an error or a warning: list the entries, search them, print one"
DESCRIPTION = """\
Prints an entry of the page "Troubleshooting by message", which comes with the package:
what a message means, and the lines of code that end it. Messages of tf_lso name their
entry at their end.
"""
EPILOG = """\
examples:
  tf-lso help              list all entries
  tf-lso help stuck        print the entry with this name
  tf-lso help nan          list the entries that contain a word
  tf-lso help "object has no attribute 'lr'"
                           print the entry for a message

exit codes:
  0  found
  1  no entry has all of the words
"""

_PAGE = Path(__file__).with_name("troubleshooting.md")
_ENTRY = re.compile(
    r"^### (?P<heading>[^\n]*)\n\n<a id=\"(?P<name>[\w-]+)\"></a>\n\n(?P<text>.*?)(?=^##|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[([^]]*)\]\((?!https?:)([^)\s]*)\)")


class Entry(NamedTuple):
    """An entry of the page.

    Attributes:
      name: What `tf-lso help` takes.
      section: The heading of the part of the page that it stands in.
      heading: The message, or what happens; `…` stands for what differs each time.
      text: Markdown.
    """

    name: str
    section: str
    heading: str
    text: str

    def has(self, words: list[str]) -> bool:
        """Whether for each of the words one of its words begins with it."""
        whole = f"{self.name} {self.heading} {self.text}".lower()
        starts = (rf"(?<![^\W_]){re.escape(word.lower())}" for word in words)
        return all(re.search(start, whole) for start in starts)

    def explains(self, message: str) -> bool:
        """Whether its heading is in a message."""
        parts = [re.escape(part.strip()) for part in self.heading.split("…")]
        return re.search(".*".join(parts), message, re.DOTALL) is not None


def entries() -> list[Entry]:
    """Return the entries of the page, in its order."""
    found = []
    sections = re.split(r"^## (.*)\n", _PAGE.read_text(encoding="utf-8"), flags=re.M)
    for section, body in zip(sections[1::2], sections[2::2]):
        for match in _ENTRY.finditer(body):
            # `a message`, ``one with `code` `` or plain words.
            heading = re.sub(r"^(`+) ?(.*?) ?\1$", r"\2", match["heading"])
            found.append(Entry(match["name"], section, heading, match["text"].strip()))
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tf-lso help` to its parser."""
    parser.usage = "tf-lso help [NAME | WORD ...]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="the name of an entry, words to look for, or a message in quotes",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    known = entries()
    words = " ".join(args.words).split()
    chosen = (
        [entry for entry in known if words == [entry.name]]
        or [entry for entry in known if words and entry.explains(" ".join(args.words))]
        or [entry for entry in known if entry.has(words)]
    )
    if not chosen:
        print(
            f"tf-lso help: no entry has all of: {' '.join(words)}. Try fewer words, or "
            "`tf-lso help` for the list.",
            file=sys.stderr,
        )
        return 1
    text = _shown(chosen[0]) if len(chosen) == 1 else _listed(chosen)
    # A console that has no `…` or `–` gets a question mark for it.
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))
    return 0


def _listed(chosen: list[Entry]) -> str:
    """Return the list of entries, below the headings of their sections."""
    lines = []
    for number, entry in enumerate(chosen):
        if number == 0 or entry.section != chosen[number - 1].section:
            lines += ["", entry.section]
        lines.append(_filled(f"  {entry.name:<24}{entry.heading}", " " * 26))
    lines += ["", f"{len(chosen)} entries. Print one: tf-lso help NAME"]
    return "\n".join(lines[1:])


def _shown(entry: Entry) -> str:
    """Return an entry as text for a terminal."""
    text = _LINK.sub(lambda link: f"{link[1]} (compat_docs/{link[2]})", entry.text)
    parts = [_filled(entry.heading)]
    blocks = re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    for number, part in enumerate(blocks):  # every second one is code
        if number % 2:
            parts.append(textwrap.indent(part.rstrip(), "    "))
        else:
            parts += map(_filled, filter(None, part.strip().split("\n\n")))
    return "\n\n".join(parts)


def _filled(text: str, indent: str = "") -> str:
    """Return a paragraph in lines that fit the terminal."""
    return textwrap.fill(
        text,
        min(shutil.get_terminal_size((88, 0)).columns, 100),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
