"""Paths, files that cannot be read, and exit codes."""

import os
import re

import pytest

from tests.check.programs import notebook, outcome_of, run
from tf_lso.commands.check import check
from tf_lso.source import files

pytestmark = pytest.mark.core

BREAKS = "import tensorflow.contrib.mixed_precision\n"


@pytest.fixture
def tree(tmp_path):
    """A function that writes files into a folder, and returns the folder."""

    def write(sources):
        for name, source in sources.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        return tmp_path

    return write


def test_finds_python_files_and_notebooks_in_order(tree):
    folder = tree(
        dict.fromkeys(
            (
                "b.py",
                "a.pyw",
                "c/d.py",
                "c/n.ipynb",
                "readme.txt",
                ".git/x.py",
                ".venv/x.py",
                "env/pyvenv.cfg",
                "env/x.py",
                "node_modules/x.py",
                "lib/site-packages/x.py",
                "__pycache__/x.py",
            ),
            "",
        )
    )
    os.symlink(folder, folder / "c" / "loop")
    found = [os.path.relpath(p, folder) for p in files.find([str(folder)], None)]
    assert found == ["a.pyw", "b.py", "c/d.py", "c/n.ipynb"]


def test_a_file_is_read_whatever_its_name(tree):
    folder = tree({"script": BREAKS})
    assert check([str(folder / "script")]).exit_code == 1
    assert check([str(folder)]).exit_code == 0


def test_a_directory_that_is_named_is_read_though_hidden(tree):
    folder = tree({".hidden/a.py": BREAKS})
    assert check([str(folder / ".hidden")]).exit_code == 1


def test_a_file_named_twice_is_read_once(tree):
    folder = tree({"a.py": BREAKS})
    outcome = check([str(folder / "a.py"), str(folder / "a.py")])
    assert (len(outcome.files), len(outcome.findings)) == (1, 1)


def test_what_links_lead_to_is_read_once_under_its_own_name(tree):
    folder = tree({"src/model.py": BREAKS})
    (folder / "a_link.py").symlink_to("src/model.py")
    (folder / "a_folder").symlink_to("src", target_is_directory=True)
    outcome = check([str(folder), f"{folder}/src/../a_link.py"])
    assert [f.file for f in outcome.findings] == [f"{folder}/src/model.py"]
    assert len(outcome.files) == 1


def test_a_link_to_a_folder_is_not_followed(tree):
    folder = tree({"elsewhere/model.py": BREAKS, "src/a.py": ""})
    (folder / "src/link").symlink_to("../elsewhere", target_is_directory=True)
    assert check([f"{folder}/src"]).findings == []


UNREADABLE = {
    "syntax": (b"x = 1\ndef f(:\n", 2, "does not parse"),
    "python 2": (b"import os\nprint 'hello'\n", 2, "parentheses"),
    "encoding": (b"x = '\xff'\n", None, "utf-8"),
    "unknown encoding": (b"# coding: klingon\n", None, "klingon"),
    "null": (b"x = 1\0\n", None, "null"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", None, ""),
    "deep": (b"-" * 100_000 + b"1\n", None, "nested too deeply"),
    "brackets": (b"(" * 5000 + b")" * 5000, None, ""),
    "indentation": (b"if x:\n  a\n b\n", 3, "unindent"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_named_with_its_reason(case):
    source, line, words = case
    assert outcome_of(source).unreadable == []  # without an old name it is not parsed
    outcome = outcome_of(source + b"\n# mixed_precision\n")
    (item,) = outcome.unreadable
    assert item.file.endswith("program.py") and words in item.reason
    assert line is None or item.line == line
    assert outcome.exit_code == 2


READABLE = {
    "latin": "# -*- coding: latin-1 -*-\ns = 'é'; ".encode("latin-1"),
    "bom": b"\xef\xbb\xbfs = 1; ",
    "cr": b"s = 1\rs = 1\r\ns = 1; ",
    "form feed": b"s = 1\n\x0c\ns = 1; ",
    "escapes": b"s = '\\d'; ",
    "long sum": b"s = " + b"1 + " * 900 + b"1; ",
    "long chain": b"s = x" + b".f().g" * 450 + b"; ",
}


@pytest.mark.parametrize("source", READABLE.values(), ids=READABLE)
@pytest.mark.filterwarnings("error")
def test_odd_files_are_read(source):
    outcome = outcome_of(source + BREAKS.encode())
    assert outcome.unreadable == []
    (finding,) = outcome.findings
    before = re.split(r"\r\n|\r|\n", source.decode("latin-1"))
    assert finding.line == len(before)
    assert finding.code.endswith("import tensorflow.contrib.mixed_precision")


def test_the_rest_is_checked_all_the_same(tree):
    folder = tree({"a.py": "def f(: # loss_scale\n", "b.py": BREAKS})
    outcome = check([str(folder / "missing"), str(folder)])
    assert [item.file for item in outcome.unreadable] == [
        str(folder / "missing"),
        str(folder / "a.py"),
    ]
    assert len(outcome.findings) == 1
    assert outcome.exit_code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tree):
    folder = tree({"a.py": BREAKS})
    (folder / "a.py").chmod(0)
    (item,) = check([str(folder)]).unreadable
    assert "Permission denied" in item.reason


def test_a_directory_that_cannot_be_listed(tree, monkeypatch):
    folder = tree({"a.py": "", "b/x.py": "", "c.py": ""})
    scandir = os.scandir

    def refuse(path):
        if path.endswith("b"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    outcome = check([str(folder)])
    (item,) = outcome.unreadable
    assert (item.file, item.reason) == (str(folder / "b"), "Permission denied")
    assert (len(outcome.files), outcome.exit_code) == (2, 2)


def test_a_link_to_nothing_that_is_named(tree):
    folder = tree({"a.py": ""})
    os.symlink("nowhere", folder / "b.py")
    assert check([str(folder / "b.py")]).exit_code == 2
    assert check([str(folder)]).exit_code == 0


@pytest.mark.parametrize(
    "sources, code",
    [
        ({}, 0),
        ({"a.py": "import tensorflow as tf\n"}, 0),
        ({"a.py": "from keras.mixed_precision import Policy\n"}, 0),
        ({"a.py": "from keras.mixed_precision import *\n"}, 0),
        ({"a.py": BREAKS}, 1),
        ({"a.ipynb": notebook(BREAKS).decode()}, 1),
        ({"a.py": BREAKS, "b.py": "def f(:\n"}, 1),
        ({"a.py": BREAKS, "b.py": "def loss_scale(:\n"}, 2),
        ({"b.py": "def f(:\n"}, 0),
        ({"b.py": "def loss_scale(:\n"}, 2),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_exit_codes(tree, sources, code, form):
    assert run(tree(sources), "--format", form)[0] == code
