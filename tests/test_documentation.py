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

_FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("compat_docs/**/*.md")]
TEXTS = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in _FILES}
PAGES = sorted(TEXTS)
# The pages whose code runs in the quick run. The code of other pages is slow, because each
# process takes some seconds.
QUICK = ("README.md", "compat_docs/start.md")
IMPORT_TF_LSO_FIRST = ("README.md", "compat_docs/how-to/run.md")
# Pages whose code needs something that Keras 3.0 lacks, such as `int()` of a variable.
OF_NEWER_KERAS = {
    *("explanation/verdict.md", "how-to/accumulate.md", "how-to/checkpoints.md"),
    *("how-to/gan.md", "how-to/leave.md", "how-to/resume.md", "how-to/scale.md"),
}


# --- Code and commands.


def _programs():
    for page in PAGES:
        for program in pages.programs_of(TEXTS[page]):
            marks = [pytest.mark.multiworker] * (program.workers > 1)
            marks += [pytest.mark.slow] * (page not in QUICK)
            if page.removeprefix("compat_docs/") in OF_NEWER_KERAS:
                marks.append(limit("the code needs a newer Keras 3", "3.0"))
            name = f"{page}:{program.line}"
            yield pytest.param(page, program, id=name, marks=marks)


@pytest.mark.parametrize(("page", "program"), list(_programs()))
def test_code_runs_and_prints_what_stands_below_it(page, program, tmp_path):
    by = start if page in IMPORT_TF_LSO_FIRST else preloaded.run
    problems = pages.problems_of_program(program, tmp_path, by)
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("page", PAGES)
def test_code_is_found_with_known_marks_only(page):
    text = TEXTS[page]
    programs = pages.programs_of(text)
    found = sum(len(p.outputs) for p in programs) + len(pages.files_of(text))
    assert found == len(re.findall(r"^ *```python", text, re.MULTILINE))
    assert {program.mark for program in programs} <= set(pages.MARKS)


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
    programs = pages.programs_of(text)
    found = [pages.problems_of_program(program, tmp_path) for program in programs]
    told = "".join("".join(problems) for problems in found)
    assert problem in told if problem else told == ""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page in QUICK else [pytest.mark.slow])
        for page in PAGES
        if pages.commands_of(TEXTS[page])
    ],
)
def test_commands_print_what_stands_below_them(page, tmp_path):
    problems = pages.problems_of_commands(TEXTS[page], tmp_path)
    assert problems == [], "\n".join(problems)


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
        if not target.exists() or (anchor and not _has(target, anchor)):
            broken.append(link)
    return broken


def _has(target, anchor):
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


def ways_into_the_source(page, text):
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


def addresses_of_ours(page, text):
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


def _all(form, texts):
    return " ".join(map(form.format, texts))


_HERE, _PAGES = "tests/test_documentation.py", "tests/pages.py"
_FILE = "<!-- file: a/b.py -->\n```python\nprint(1)\n1 / 0\n```\n"
_CLUSTERS = "```sh\nTF_CONFIG='{\"cluster\":1}' x\nTF_CONFIG='{\"cluster\":2}' x\n```\n"
_LINKS = ["gone.md", "#c", f"../{_HERE}#gone", f"../{_PAGES}#Command.gone"]
_NAMES = [f"{_HERE}::test_gone", "tests/gone.py::test_x", "tf_lso/gone.py"]
_NAMES.append(f"{_PAGES}::Command::gone")
_ROWS = ["| b | 2.0\u20132.3 |", "| c ([test](../../tests/x.py)) | never |"]
_ROW = "| a ([test](../../tests/x.py#test_a)) | 2.0\u20132.3, 2.9 |"

# Maps a check to three values: a text of compat_docs/start.md without mistakes, a text with
# mistakes, and what the check must return for the second text.
CHECKS = {
    broken_links: (
        _all("[]({})", ["#install", "../LICENSE", "http:#d", f"../{_PAGES}#Command"]),
        _all("[]({})", _LINKS),
        _LINKS,
    ),
    missing_names: (
        _all("`{}`", [_HERE, f"{_PAGES}::Program::line"]),
        _all("`{}`", _NAMES),
        _NAMES,
    ),
    ways_into_the_source: ("```py\ntests/a.py\n```\n", "a tests/a.py", ["tests/a.py"]),
    shell_problems: (
        "```sh\nls x\n```\n",
        "```sh\nls 'x\n```\n```sh\nTF_CONFIG='{\"c\"' x\n```\n" + _CLUSTERS,
        ["ls 'x\n", '{"c"', "2"],
    ),
    addresses_of_ours: ("https://x.org", "(https://tf-lso.x/)", ["https://tf-lso.x/"]),
    incomplete_rows: (
        f"| What | Versions |\n|---|---|\n{_ROW}\n",
        "\n".join(["| What | Versions |", "|---|---|", _ROW, *_ROWS]),
        _ROWS,
    ),
    unused_files: (f"{_FILE}```console\n$ tf-lso check a\n```\n", _FILE, ["a/b.py"]),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("check", CHECKS)
def test_the_text_of_a_page(check, page):
    assert check(ROOT / page, TEXTS[page]) == []


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_finds_what_is_wrong(check):
    good, bad, found = CHECKS[check]
    page = ROOT / "compat_docs" / "start.md"
    assert check(page, good) == []
    assert check(page, bad) == found


def test_nothing_leads_to_an_address_that_does_not_exist():
    folders = ("tf_lso", "compat_docs", "tools", ".github", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(files) > 200
    for file in files:
        assert addresses_of_ours(file, file.read_text("utf-8", "ignore")) == []


def test_the_page_of_differences_has_tables():
    assert TEXTS["compat_docs/reference/differences.md"].count("| Versions |") >= 2
