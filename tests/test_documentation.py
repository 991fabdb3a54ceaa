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


# Each row has the text of a page, and a part of the problem that must be found, or None.
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n", None),
        ("```python\nprint('a bc')\n```\n\n```text\na ...c\n```\n", None),
        ("```python\nx = 1\n```\n```python\nprint(x)\n```\n```text\n1\n```\n", None),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "Got:\n    2"),
        ("```python\n\n1 / 0\n```\n", 'page.py", line 3, in'),
        ("```python\nraise SystemExit\n```\n", "ended with exit code 0"),
        ("<!-- does not run today -->\n```python\n1 / 0\n```\n", None),
        ("<!-- does not run today -->\n```python\n1 / 1\n```\n", "It runs"),
        (
            "<!-- does not run today -->\n```python\n1 / 0\n```\n"
            "```text\nZeroDivisionError: another\n```\n",
            "Got:\n    ZeroDivisionError: division by zero",
        ),
        (
            "```python\nx = 1\n```\n<!-- own process -->\n```python\nx\n```\n",
            "NameError",
        ),
    ],
)
def test_wrong_code_and_wrong_output_are_found(text, problem, tmp_path):
    found = []
    for program in pages.programs_of(text):
        found += pages.problems_of_program(program, tmp_path)
    if problem is None:
        assert found == []
    else:
        assert problem in "".join(found)


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


# A page with a file for the commands of the page.
_FILE = "<!-- file: a/b.py -->\n```python\nprint(1)\n1 / 0\n```\n"


@pytest.mark.slow
def test_wrong_commands_and_wrong_output_are_found(tmp_path):
    right = "```console\n$ python a/b.py\n1\nZeroDivisionError: ...\n```\n"
    wrong = "```console\n$ python a/b.py\n2\n```\n"
    assert pages.problems_of_commands(_FILE + right, tmp_path) == []
    [problem] = pages.problems_of_commands(_FILE + wrong, tmp_path)
    assert "Got:\n    1\n    ZeroDivisionError: division by zero" in problem
    with pytest.raises(KeyError):
        pages.problems_of_commands("```console\n$ rm -r x\n```\n", tmp_path)
    assert pages.unused_files(_FILE + right) == []


# --- Checks of the text of a page. Each check is a function of the path and the text of a page,
# --- and returns a list of what is wrong.


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


def missing_names(page, text):
    """Return the files and the names such as `file.py::name` in backticks that do not exist."""
    missing = []
    for name in re.findall(r"`((?:tf_lso|tests|tools|compat_docs)/[^`\s]*)`", text):
        path, *names = name.split("::")
        if not (ROOT / path).exists() or not _defines(ROOT / path, names):
            missing.append(name)
    return missing


def _defines(path, names):
    """Return whether a file defines a function, a class, or a method in a class.

    Args:
      path: the path of a Python file.
      names: a list such as ["function"] or ["Class", "method"].
    """
    scope = ast.parse(path.read_text(encoding="utf-8")) if names else None
    for name in names:
        scope = next((n for n in scope.body if getattr(n, "name", "") == name), None)
        if scope is None:
            return False
    return True


def paths_of_source_files(page, text):
    """Return the paths of source files that a page for users names."""
    if not re.search(r"(start|how-to/.*)\.md$", str(page)):
        return []
    return re.findall(r"\b(?:tf_lso|tests)/\S+", _without_code(text))


def shell_problems(page, text):
    """Return the ```sh blocks that have a syntax error, and the wrong values of TF_CONFIG.

    The values of TF_CONFIG on one page must describe the same cluster.
    """
    problems, clusters = [], set()
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if subprocess.run(["bash", "-n"], input=block, text=True).returncode:
            problems.append(block)
        for value in re.findall(r"TF_CONFIG='([^']*)'", block):
            try:
                clusters.add(json.dumps(json.loads(value)["cluster"]))
            except ValueError:
                problems.append(value)
    return problems + sorted(clusters)[1:]


# The address of a site, of a repository, or of a package of this project.
_OUR_ADDRESS = re.compile(r"https?://[^\s)\"'`>]*tf[-_]lso[^\s)\"'`>]*")


def addresses_of_this_project(page, text):
    """Return the addresses of this project. None of them exists, since nothing is published."""
    return _OUR_ADDRESS.findall(text)


_VERSIONS = r"2\.\d+(\u20132\.\d+)?"
_ROW_OF_A_DIFFERENCE = re.compile(
    rf"^\|.*\(\[test\]\(\.\./\.\./tests/.*\| ({_VERSIONS}|Keras 3)(, {_VERSIONS})* \|$"
)


def incomplete_rows(page, text):
    """Return the rows without a test or a version, in tables with the column `Versions`."""
    rows, in_table = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
        elif line.rstrip(" |").endswith("| Versions"):
            in_table = True
        elif in_table and set(line) - set("|-: "):
            rows += [] if _ROW_OF_A_DIFFERENCE.match(line) else [line]
    return rows


def unused_files(page, text):
    """Return the files of a page that no command of the page uses."""
    return pages.unused_files(text)


CHECKS = [
    broken_links,
    missing_names,
    paths_of_source_files,
    shell_problems,
    addresses_of_this_project,
    incomplete_rows,
    unused_files,
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("check", CHECKS)
def test_the_text_of_a_page(check, page):
    assert check(ROOT / page, TEXTS[page]) == []


class TestTheChecks:
    """Each check finds nothing in a correct text, and finds each mistake in a wrong text."""

    PAGE = ROOT / "compat_docs" / "start.md"  # links are relative to this page

    def test_broken_links(self):
        text = "[](#install) [](../LICENSE) [](http:#d) [](../tests/pages.py#Command)"
        assert broken_links(self.PAGE, text) == []
        wrong = [
            "gone.md",
            "#c",
            "../tests/pages.py#gone",
            "../tests/pages.py#Command.gone",
        ]
        text = " ".join(f"[]({link})" for link in wrong)
        assert broken_links(self.PAGE, text) == wrong

    def test_missing_names(self):
        text = "`tests/pages.py` and `tests/pages.py::Program::line`"
        assert missing_names(self.PAGE, text) == []
        wrong = [
            "tests/pages.py::test_gone",
            "tests/gone.py::test_x",
            "tf_lso/gone.py",
            "tests/pages.py::Command::gone",
        ]
        text = " ".join(f"`{name}`" for name in wrong)
        assert missing_names(self.PAGE, text) == wrong

    def test_paths_of_source_files(self):
        assert paths_of_source_files(self.PAGE, "```py\ntests/a.py\n```\n") == []
        assert paths_of_source_files(self.PAGE, "a tests/a.py") == ["tests/a.py"]

    def test_shell_problems(self):
        assert shell_problems(self.PAGE, "```sh\nls x\n```\n") == []
        text = "```sh\nls 'x\n```\n```sh\nTF_CONFIG='{\"c\"' x\n```\n"
        assert shell_problems(self.PAGE, text) == ["ls 'x\n", '{"c"']
        two_clusters = """```sh
TF_CONFIG='{"cluster":1}' x
TF_CONFIG='{"cluster":2}' x
```
"""
        assert shell_problems(self.PAGE, two_clusters) == ["2"]

    def test_addresses_of_this_project(self):
        assert addresses_of_this_project(self.PAGE, "https://x.org") == []
        text = "(https://tf-lso.x/)"
        assert addresses_of_this_project(self.PAGE, text) == ["https://tf-lso.x/"]

    def test_incomplete_rows(self):
        head = "| What | Versions |\n|---|---|\n"
        row = "| a ([test](../../tests/x.py#test_a)) | 2.0\u20132.3, 2.9 |"
        without_test = "| b | 2.0\u20132.3 |"
        without_version = "| c ([test](../../tests/x.py)) | never |"
        assert incomplete_rows(self.PAGE, f"{head}{row}\n") == []
        text = f"{head}{row}\n{without_test}\n{without_version}\n"
        assert incomplete_rows(self.PAGE, text) == [without_test, without_version]

    def test_unused_files(self):
        command = "```console\n$ tf-lso check a\n```\n"
        assert unused_files(self.PAGE, _FILE + command) == []
        assert unused_files(self.PAGE, _FILE) == ["a/b.py"]


def test_nothing_leads_to_an_address_that_does_not_exist():
    folders = ("tf_lso", "compat_docs", "tools", ".github", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(files) > 200
    for file in files:
        assert addresses_of_this_project(file, file.read_text("utf-8", "ignore")) == []


def test_the_page_of_differences_has_tables():
    assert TEXTS["compat_docs/reference/differences.md"].count("| Versions |") >= 2
