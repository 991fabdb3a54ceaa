"""The code of the documentation runs, and the links and names in the documentation exist.

`pages.py` explains the marks of code blocks. The code runs in processes in which TensorFlow is
already imported, except for the pages in `IMPORT_TF_LSO_FIRST`.
"""

import ast
import json
import re
import subprocess

import pytest

from tests import pages, preloaded
from tests.generation import limit
from tests.processes import ROOT, start
from tools import written_pages

_FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("compat_docs/**/*.md")]
TEXTS = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in _FILES}
PAGES = sorted(TEXTS)
# The page whose code runs in the quick run. The code of other pages is slow, because each
# process takes some seconds.
QUICK_PAGE = "README.md"
IMPORT_TF_LSO_FIRST = ("README.md", "compat_docs/how-to/run.md")
# Pages whose code needs something that Keras 3.0 lacks, such as `int()` of a variable.
NEED_KERAS_AFTER_3_0 = {
    "compat_docs/how-to/accumulate.md",
    "compat_docs/how-to/checkpoints.md",
    "compat_docs/how-to/gan.md",
    "compat_docs/how-to/leave.md",
    "compat_docs/how-to/resume.md",
    "compat_docs/how-to/scale.md",
}


@pytest.mark.parametrize("path", written_pages.WRITTEN)
def test_the_parts_from_tables_are_up_to_date(path):
    text = TEXTS[f"compat_docs/{path}"]
    assert text == written_pages.page(path, text), "run tools/docs"


# --- Code and commands.


def _programs():
    for page in PAGES:
        for program in pages.programs_of(TEXTS[page]):
            marks = []
            if program.workers > 1:
                marks.append(pytest.mark.multiworker)
            if page != QUICK_PAGE:
                marks.append(pytest.mark.slow)
            if page in NEED_KERAS_AFTER_3_0:
                marks.append(limit("the code needs a newer Keras 3", "3.0"))
            name = f"{page}:{program.line}"
            yield pytest.param(page, program, id=name, marks=marks)


@pytest.mark.parametrize(("page", "program"), list(_programs()))
def test_code_prints_the_text_below_it(page, program, tmp_path):
    by = start if page in IMPORT_TF_LSO_FIRST else preloaded.run
    problems = pages.problems_of_program(program, tmp_path, by)
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("page", PAGES)
def test_code_is_found_with_known_marks_only(page):
    text = TEXTS[page]
    programs = pages.programs_of(text)
    blocks = sum(len(program.outputs) for program in programs)
    blocks += len(pages.files_of(text))
    assert blocks == len(re.findall(r"^ *```python", text, re.MULTILINE))
    assert {program.mark for program in programs} <= set(pages.MARKS)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == QUICK_PAGE else [pytest.mark.slow])
        for page in PAGES
        if pages.commands_of(TEXTS[page])
    ],
)
def test_commands_print_the_text_below_them(page, tmp_path):
    problems = pages.problems_of_commands(TEXTS[page], tmp_path)
    assert problems == [], "\n".join(problems)


# --- The text.


def _without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def broken_links(page, text):
    """Return the links to files of the repository, or to parts of files, that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _without_code(text)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if re.match(r"[a-z]+:", path):
            continue
        if not target.exists() or (anchor and not _page_has(target, anchor)):
            broken.append(link)
    return broken


def _page_has(target, anchor):
    """Return whether a page has a heading, or a Python file defines a name."""
    if target.suffix == ".py":
        return _defines(target, anchor.split("."))
    text = target.read_text("utf-8") if target.is_file() else ""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", h.strip().lower()) for h in headings]
    return target.suffix == ".md" and anchor in [s.replace(" ", "-") for s in slugs]


def _defines(path, names):
    """Return whether a file defines the names, such as ["function"] or ["Class", "method"]."""
    scope = ast.parse(path.read_text(encoding="utf-8"))
    for name in names:
        scope = next((n for n in scope.body if getattr(n, "name", "") == name), None)
        if scope is None:
            return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_the_links_lead_to_files_headings_and_tests(page):
    assert broken_links(ROOT / page, TEXTS[page]) == []


def test_the_shell_commands_parse():
    blocks = re.findall(r"^```sh\n(.*?)^```$", "\n".join(TEXTS.values()), re.M | re.S)
    assert blocks
    for block in blocks:
        done = subprocess.run(["bash", "-n"], input=block, text=True)
        assert done.returncode == 0, block
        for value in re.findall(r"TF_CONFIG='([^']*)'", block):
            assert json.loads(value)["cluster"]


# The address of a site, of a repository, or of a package of this project.
_OUR_ADDRESS = re.compile(r"https?://[^\s)\"'`>]*tf[-_]lso[^\s)\"'`>]*")


def test_nothing_leads_to_an_address_of_this_project():
    """No such address exists, because nothing is published."""
    folders = ("tf_lso", "compat_docs", "tools", ".github", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    for file in files:
        assert _OUR_ADDRESS.findall(file.read_text("utf-8", "ignore")) == [], file
