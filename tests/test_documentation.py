"""The documentation does what it says: its code runs, its links and names exist.

Marks, each an HTML comment on the line above a ```python block:

    <!-- own process -->            the block runs alone, in a process of its own
    <!-- own process, 2 workers --> the same, in each of two TensorFlow workers
    <!-- does not run today -->     the block has to fail

    <!-- file: train.py -->         a file for the ```console blocks: see consoles.py

All other blocks of a page run in its order in one process. A ```text block right after
a Python block is what that block prints, or the last line of its error. TensorFlow is
there before the first block begins, but for the README.
"""

import ast
import configparser
import contextlib
import doctest
import io
import json
import linecache
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest

import tf_lso
from tests import consoles, preloaded
from tests.processes import HANGS_AFTER, QUIET, assert_succeeded, run_workers

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CHANGELOG.md",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("compat_docs/**/*.md")),
]
PAGES.sort()

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?"
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_MARKS = (None, "own process", "own process, 2 workers", "does not run today")


class Block(NamedTuple):
    """A ```python block of a page.

    Attributes:
      line: The line of the page that its first line of code stands on.
      mark: The comment above it, or None.
      code: Its text.
      output: The text that it has to print, or None if that is not written down.
    """

    line: int
    mark: str | None
    code: str
    output: str | None


def blocks_of(text):
    """The Python blocks of a page that are run, in order."""
    blocks = []
    for match in _BLOCK.finditer(text):
        if (match["mark"] or "").startswith("file: "):
            continue
        line = text.count("\n", 0, match.start("code")) + 1
        blocks.append(Block(line, match["mark"], match["code"], match["output"]))
    return blocks


def processes_of(blocks):
    """The lists of blocks that share a process, each with its number of workers."""
    alone = [block for block in blocks if (block.mark or "").startswith("own process")]
    shared = [block for block in blocks if block not in alone]
    groups = [([block], 2 if "2 workers" in block.mark else 1) for block in alone]
    return [(shared, 1), *groups] if shared else groups


# --- Code.


def run_block(page, block, namespace):
    """Run a block; return what is wrong with it, or None."""
    printed = io.StringIO()
    # With the line numbers of the page, for tracebacks, and where AutoGraph looks for
    # the source of functions.
    source = "\n" * (block.line - 1) + block.code
    name = f"<{page.name}, block of line {block.line}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    failed = False
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, name, "exec"), namespace)
    except Exception as error:
        failed = True
        if block.mark != "does not run today":
            return traceback.format_exc()
        printed.write(traceback.format_exception_only(error)[-1])
    if block.mark == "does not run today" and not failed:
        return "It runs, although the page says that it does not."
    if block.output is None:
        return None
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    if checker.check_output(block.output, printed.getvalue(), flags):
        return None
    example = doctest.Example(block.code, block.output)
    return checker.output_difference(example, printed.getvalue(), flags)


def run_process(page, number):
    """Run the blocks of one process of a page; return the exit code."""
    blocks, _ = processes_of(blocks_of(page.read_text(encoding="utf-8")))[number]
    namespace = {"__name__": "__main__"}
    for block in blocks:
        own = {"__name__": "__main__"} if block.mark else namespace
        problem = run_block(page, block, own)
        if problem:
            print(f"{page.name}, line {block.line}:\n{problem}", flush=True)
            return 1
    return 0


# A process costs some seconds, so the quick run has the pages that are read first.
QUICK = ("README.md", "compat_docs/start.md")


def _all_processes():
    for page in PAGES:
        blocks = blocks_of((ROOT / page).read_text(encoding="utf-8"))
        for number, (group, workers) in enumerate(processes_of(blocks)):
            yield pytest.param(
                page,
                number,
                workers,
                id=f"{page}:{group[0].line}",
                marks=[
                    *[pytest.mark.multiworker] * (workers > 1),
                    *[pytest.mark.slow] * (page not in QUICK),
                ],
            )


@pytest.mark.parametrize(("page", "number", "workers"), list(_all_processes()))
def test_code_runs_and_prints_what_stands_below_it(page, number, workers):
    command = ["-m", "tests.test_documentation", str(ROOT / page), str(number)]
    # These have programs whose first import is tf_lso.
    after_tensorflow = page not in ("README.md", "compat_docs/how-to/run.md")
    if workers == 1 and after_tensorflow:
        done = preloaded.run(command, ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    command = [sys.executable, *command]
    assert_succeeded(
        run_workers(
            command,
            workers,
            HANGS_AFTER,
            QUIET,
            cwd=ROOT,
            after_tensorflow=after_tensorflow,
        )
    )


def test_code_is_found_with_known_marks_only():
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = blocks_of(text)
        found = len(blocks) + len(consoles.files_of(text))
        assert found == len(re.findall(r"^ *```python", text, re.MULTILINE)), page
        assert {block.mark for block in blocks} <= set(_MARKS), page


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n", None),
        ("```python\nprint('a bc')\n```\n\n```text\na ...c\n```\n", None),
        ("```python\nx = 1\n```\n```python\nprint(x)\n```\n```text\n1\n```\n", None),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "Got:\n    2"),
        ("```python\n\n1 / 0\n```\n", 'line 2>", line 3, in'),
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
def test_wrong_code_and_wrong_output_are_found(text, problem, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    groups = processes_of(blocks_of(text))
    codes = [run_process(page, number) for number in range(len(groups))]
    assert any(codes) == (problem is not None)
    assert problem is None or problem in capsys.readouterr().out


# --- Commands.


WITH_COMMANDS = [
    page for page in PAGES if consoles.commands_of((ROOT / page).read_text("utf-8"))
]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page in QUICK else [pytest.mark.slow])
        for page in WITH_COMMANDS
    ],
)
def test_commands_print_what_stands_below_them(page, tmp_path):
    problems = consoles.problems_of((ROOT / page).read_text("utf-8"), tmp_path)
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_a_page_is_used_by_a_command(page):
    assert consoles.unused_files((ROOT / page).read_text("utf-8")) == []


def test_wrong_commands_and_wrong_output_are_found(tmp_path):
    file = "<!-- file: a/b.py -->\n```python\nprint(1)\n1 / 0\n```\n"
    right = "```console\n$ python a/b.py\n1\nZeroDivisionError: ...\n```\n"
    wrong = "```console\n$ python a/b.py\n2\n```\n"
    assert consoles.problems_of(file + right, tmp_path) == []
    [problem] = consoles.problems_of(file + wrong, tmp_path)
    assert "Got:\n    1\n    ZeroDivisionError: division by zero" in problem
    with pytest.raises(KeyError):
        consoles.problems_of("```console\n$ rm -r x\n```\n", tmp_path)
    assert consoles.unused_files(file + right) == []
    assert consoles.unused_files(file + "```console\n$ tf-lso check a\n```\n") == []
    assert consoles.unused_files(file) == ["a/b.py"]


# --- Links.

# Of the project itself: a site, a repository, a package of an index.
_OUR_ADDRESS = re.compile(r"https?://[^\s)\"'`>]*tf[-_]lso[^\s)\"'`>]*")


def addresses_of_ours(files):
    """The addresses in files that do not exist: there is no site yet."""
    found = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="ignore")
        found += _OUR_ADDRESS.findall(text)
    return found


def test_nothing_leads_to_an_address_that_does_not_exist():
    folders = ("tf_lso", "compat_docs", "tools", ".github", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(files) > 200
    assert addresses_of_ours(files) == []


def test_an_address_that_does_not_exist_is_found(tmp_path):
    file = tmp_path / "page.md"
    file.write_text("[a](https://tf-lso.x.org/a.html) https://tensorflow.org")
    assert addresses_of_ours([file]) == ["https://tf-lso.x.org/a.html"]


def _slug(heading):
    """The anchor that a heading gets."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def broken_links(page, text):
    """The links of a page into the repository that lead nowhere."""
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
    """Whether a page has a heading, or a Python file a name."""
    if target.suffix == ".py":
        return _defines(target, anchor.split("."))
    text = target.read_text("utf-8") if target.is_file() else ""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return target.suffix == ".md" and anchor in map(_slug, headings)


def _without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_broken_links_are_found():
    page = ROOT / "compat_docs" / "start.md"
    here = "../tests/test_documentation.py"
    good = ["#install", "../LICENSE", "https://x.org/#d", f"{here}#Block"]
    bad = ["gone.md", "#c", f"{here}#gone", f"{here}#Block.gone"]
    text = " ".join(f"[x]({link})" for link in [*good, *bad])
    assert broken_links(page, text) == bad


# --- Names of files and tests.


def missing_names(text):
    """The files and the `file.py::name` in backticks that do not exist."""
    missing = []
    for name in re.findall(r"`((?:tf_lso|tests|tools|compat_docs)/[^`\s]*)`", text):
        path, *names = name.split("::")
        if not (ROOT / path).exists() or not _defines(ROOT / path, names):
            missing.append(name)
    return missing


def _defines(path, names):
    """Whether a file has the function, or the class and in it the method."""
    if not names:
        return True
    scope = ast.parse(path.read_text(encoding="utf-8"))
    for name in names:
        found = [n for n in scope.body if getattr(n, "name", None) == name]
        if not found:
            return False
        scope = found[0]
    return True


FOR_USERS = [page for page in PAGES if re.search(r"(start|how-to/.*)\.md$", page)]


@pytest.mark.parametrize("page", FOR_USERS)
def test_a_page_for_users_does_not_send_them_into_the_source(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"\b(?:tf_lso|tests)/\S+", _without_code(text)) == []


@pytest.mark.parametrize("page", PAGES)
def test_files_and_tests_that_are_named_exist(page):
    assert missing_names((ROOT / page).read_text(encoding="utf-8")) == []


def test_missing_files_and_tests_are_found():
    here = "tests/test_documentation.py"
    good = f"`{here}`, `{here}::{test_missing_files_and_tests_are_found.__name__}`"
    bad = [f"{here}::test_gone", "tests/gone.py::test_x", "tf_lso/gone.py"]
    bad.append(f"{here}::Block::test_missing_files_and_tests_are_found")
    assert missing_names(" ".join([good, *(f"`{name}`" for name in bad)])) == bad


_ROW_OF_A_DIFFERENCE = re.compile(
    r"^\|.*\(\[test\]\(\.\./\.\./tests/.*"
    r"\| (2\.\d+(\u20132\.\d+)?|Keras 3)(, 2\.\d+(\u20132\.\d+)?)* \|$"
)


def incomplete_rows(text):
    """The rows of tables with a column `Versions` that lack a test or a version."""
    rows, in_table = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
        elif line.rstrip(" |").endswith("| Versions"):
            in_table = True
        elif (
            in_table
            and set(line) - set("|-: ")
            and not _ROW_OF_A_DIFFERENCE.match(line)
        ):
            rows.append(line)
    return rows


def test_each_difference_has_a_test_and_its_versions():
    text = (ROOT / "compat_docs/reference/differences.md").read_text(encoding="utf-8")
    assert text.count("| Versions |") >= 2
    assert incomplete_rows(text) == []


def test_an_incomplete_difference_is_found():
    good = "| a ([test](../../tests/x.py#test_a)) | 2.0\u20132.3, 2.9 |"
    bad = ["| b | 2.0\u20132.3 |", "| c ([test](../../tests/x.py)) | never |"]
    table = "\n".join(["| What | Versions |", "|---|---|", good, *bad, ""])
    assert incomplete_rows(table) == bad


# --- What the README and Start say of the package.


def _config():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def unnamed_extras(text, extras):
    """The extras that no row of a table names, and those named that do not exist."""
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`tf-lso\[([a-z-]+)\]`", rows))
    return named ^ set(extras)


def test_start_names_the_extras():
    start = (ROOT / "compat_docs" / "start.md").read_text(encoding="utf-8")
    assert unnamed_extras(start, _config()["options.extras_require"]) == set()


def test_the_readme_is_read_in_minutes():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 700


def test_unnamed_extras_are_found():
    assert unnamed_extras("| `tf-lso[a]` |\n`tf-lso[b]`", ["a", "b"]) == {"b"}
    assert unnamed_extras("| `tf-lso[a]` | `tf-lso[b]` |", ["a"]) == {"b"}


def test_the_readme_names_the_pythons():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    classifiers = _config()["metadata"]["classifiers"]
    for python in re.findall(r":: (3\.\d+)", classifiers):
        assert re.search(
            rf"^\| Python \|.*\b{re.escape(python)}\b", readme, re.MULTILINE
        )


def test_the_changelog_has_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{tf_lso.__version__}]" in changelog


def shell_problems(text):
    """Lines of ```sh blocks that no shell could read, or with a wrong TF_CONFIG."""
    problems, clusters = [], set()
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        parsed = subprocess.run(["bash", "-n"], input=block, text=True, check=False)
        if parsed.returncode:
            problems.append(block)
        for value in re.findall(r"TF_CONFIG='([^']*)'", block):
            try:
                clusters.add(json.dumps(json.loads(value)["cluster"]))
            except ValueError:
                problems.append(value)
    return problems + sorted(clusters)[1:]


@pytest.mark.parametrize("page", PAGES)
def test_shell_lines_parse_and_tell_of_one_cluster(page):
    assert shell_problems((ROOT / page).read_text(encoding="utf-8")) == []


def test_wrong_shell_lines_are_found():
    assert shell_problems("```sh\nls 'x\n```\n") == ["ls 'x\n"]
    assert shell_problems("```sh\nTF_CONFIG='{\"cluster\"' x\n```\n") == ['{"cluster"']
    two = "```sh\nTF_CONFIG='{\"cluster\":1}' x\nTF_CONFIG='{\"cluster\":2}' x\n```\n"
    assert shell_problems(two) == ["2"]


if __name__ == "__main__":
    sys.exit(run_process(Path(sys.argv[1]), int(sys.argv[2])))
