"""Which files `check` reads, what it reports of unreadable files, and its exit codes."""

import json
import multiprocessing
import os
import re
import sys

import pytest

from tests.migrate.programs import checked, notebook, run, write

pytestmark = pytest.mark.usefixtures("folder")

OLD_NAME = "import tensorflow.keras.mixed_precision.experimental\n"


def check(*paths):
    """Return the JSON report of `check` on paths, and the names of the files with findings."""
    report = json.loads(run("check", "--format", "json", *paths)[1])
    return report, [finding["file"] for finding in report["findings"]]


def write_all(*names):
    """Write files that contain an old name."""
    for name in names:
        write(name, OLD_NAME)


def test_python_files_and_notebooks_in_a_folder_are_read_in_order():
    write_all("b.py", "a.pyw", "c/d.py")
    write("c/n.ipynb", notebook(OLD_NAME))
    os.symlink("..", "c/loop")
    # Files that are not read.
    write_all("readme.txt", ".git/x.py", ".venv/x.py", "env/pyvenv.cfg", "env/x.py")
    write_all("node_modules/x.py", "lib/site-packages/x.py", "__pycache__/x.py")
    assert check(".")[1] == ["./a.pyw", "./b.py", "./c/d.py", "./c/n.ipynb"]


@pytest.mark.parametrize(
    ("name", "paths", "found"),
    [
        ("script", ["script"], ["script"]),
        ("script", ["."], []),
        (".hidden/a.py", [".hidden"], [".hidden/a.py"]),
        ("a.py", ["a.py", "a.py"], ["a.py"]),
    ],
)
def test_a_path_in_the_command_is_read_once_whatever_its_name(name, paths, found):
    write_all(name)
    report, files = check(*paths)
    assert report["files"] == len(found)
    assert files == found


def test_a_linked_file_is_read_once_under_its_own_name():
    write_all("src/model.py")
    os.symlink("src/model.py", "a_link.py")
    os.symlink("src", "a_folder")
    report, files = check(".", "src/../a_link.py")
    assert report["files"] == 1
    assert files == ["./src/model.py"]


def test_a_pipe_in_a_folder_is_not_read():
    write_all("a.py")
    os.mkfifo("b.py")
    process = multiprocessing.get_context("fork").Process(target=check, args=["."])
    process.start()
    process.join(60)
    process.kill()
    assert process.exitcode == 0


def test_a_link_out_of_the_folder_is_not_followed():
    write_all("elsewhere/model.py")
    write("src/a.py", "")
    os.symlink("../elsewhere", "src/link")
    assert check("src")[1] == []


# Maps the name of a case to the bytes of a file, the line in the report or None, and a part of
# the reason. Both commands report the file, and then read the other files.
UNREADABLE = {
    "syntax": (b"x = 1\ndef f(:\n", 2, "does not parse"),
    "python 2": (b"import os\nprint 'hello'\n", 2, "parentheses"),
    "encoding": (b"x = '\xff'\n", None, "utf-8"),
    "not its declared encoding": (b"# coding: ascii\nx = '\xe9'\n", None, "ascii"),
    "unknown encoding": (b"# coding: klingon\n", None, "klingon"),
    "null": (b"x = 1\0\n", None, "null"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", None, ""),
    "deep": (b"-" * 100_000 + b"1\n", None, "nested too deeply for this Python"),
    "brackets": (b"(" * 5000 + b")" * 5000, None, ""),
    "indentation": (b"if x:\n  a\n b\n", 3, "unindent"),
}
for codec in ("hex", "utf-16"):  # Python source cannot use these
    UNREADABLE[codec] = f"# coding: {codec}\n# mixed_precision\n".encode(), None, ""


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_reported_with_the_reason_and_not_counted(case):
    """It need not hold a part of an old name."""
    source, line, reason = case
    unreadable = write("a.py", source)
    other = write("b.py", "from keras.mixed_precision import experimental\n")
    report, _ = check(".")
    (item,) = report["unreadable"]
    assert item["file"] == "./a.py"
    assert reason in item["reason"]
    assert line is None or item["line"] == line
    assert (report["exit_code"], report["files"]) == (2, 1)
    assert "\n1 file read: " in run("check", ".")[1]
    assert run("migrate", "--write", ".")[0] == 2
    assert unreadable.read_bytes() == source
    assert (
        other.read_text() == "from tf_lso.keras.mixed_precision import experimental\n"
    )


# Python 3.12 allows less nesting than other versions, whatever its recursion limit is.
DEPTH = 600 if sys.version_info[:2] == (3, 12) else 900
# Unusual texts. An old name follows each text on its last line.
READABLE = {
    "latin": "# -*- coding: latin-1 -*-\ns = 'é'; ".encode("latin-1"),
    "bom": b"\xef\xbb\xbfs = 1; ",
    "cr": b"s = 1\rs = 1\r\ns = 1; ",
    "form feed": b"s = 1\n\x0c\ns = 1; ",
    "escapes": b"s = '\\d'; ",
    "long sum": b"s = " + b"1 + " * DEPTH + b"1; ",
    "long chain": b"s = x" + b".f().g" * (DEPTH // 3) + b"; ",
}


@pytest.mark.parametrize(
    "source",
    [
        # LibCST takes some seconds for the long chain.
        pytest.param(text, id=kind, marks=[pytest.mark.slow] * (kind == "long chain"))
        for kind, text in READABLE.items()
    ],
)
@pytest.mark.filterwarnings("error")
def test_unusual_files_are_read(source):
    report = checked(source + OLD_NAME.encode())
    assert report["unreadable"] == []
    (finding,) = report["findings"]
    lines = re.split(r"\r\n|\r|\n", source.decode("latin-1"))
    assert finding["line"] == len(lines)
    assert finding["code"].endswith(OLD_NAME.strip())


def test_the_recursion_limit_of_the_process_stays():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        report, _ = check(write("a.py", OLD_NAME))
        assert report["findings"]
        assert sys.getrecursionlimit() == 5000
    finally:
        sys.setrecursionlimit(before)


def test_a_file_without_permission_is_reported(monkeypatch):
    write_all("a.py", "b.py")
    original = open

    def refuse(path, *arguments, **options):
        if path == "./a.py":
            raise PermissionError(13, "Permission denied", path)
        return original(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", refuse)
    (item,) = check(".")[0]["unreadable"]
    assert item["file"] == "./a.py"
    assert item["reason"] == "cannot be opened: Permission denied"
    assert "cannot be opened: Permission denied" in run("migrate", ".")[1]


def test_a_folder_without_permission_is_reported(monkeypatch):
    write_all("a.py", "b/x.py", "c.py")
    original = os.scandir

    def refuse(path):
        if path.endswith("b"):
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report, files = check(".")
    (item,) = report["unreadable"]
    assert (item["file"], item["reason"]) == ("./b", "Permission denied")
    assert files == ["./a.py", "./c.py"]
    assert report["exit_code"] == 2


def test_a_link_to_nothing_fails_only_if_the_command_names_it():
    write("a.py", "")
    os.symlink("nowhere", "b.py")
    assert run("check", "b.py")[0] == 2
    assert run("check", ".")[0] == 0


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_without_a_path_the_current_folder_is_read(command):
    write_all("a.py", "b/c.py")
    _, printed = run(command)
    assert "\n2 files read: " in printed
    assert "b/c.py" in printed
