"""`check` reads the cells of a notebook as one program, and `migrate` keeps all other bytes."""

import json
import re

import pytest

from tests.migrate.programs import checked, notebook, run, write
from tests.processes import ROOT

pytestmark = pytest.mark.usefixtures("folder")

POLICY = "tf.keras.mixed_precision.experimental.Policy"
USE = "tf.keras.mixed_precision.experimental.Policy('mixed_float16')"
IMPORT = "import tensorflow as tf"
BROKEN = f"{IMPORT}\ndef f(:\n"


def findings_and_unreadable(*cells, **metadata):
    """Check a notebook. Return the positions and names of findings, and of unreadable cells.

    Returns:
      A list of (cell, line, name) for the findings, and a list of (cell, line) for the cells
      that cannot be read.
    """
    report = checked(notebook(*cells, **metadata), name="program.ipynb")
    findings = [
        (finding["cell"], finding["line"], finding["name"])
        for finding in report["findings"]
    ]
    unreadable = [(item["cell"], item["line"]) for item in report["unreadable"]]
    return findings, unreadable


def migrate(data, *flags):
    """Migrate a notebook. Return its new text, the exit code and what was printed."""
    path = write("a.ipynb", data)
    code, printed = run("migrate", "--write", *flags, path)
    return path.read_bytes().decode("utf-8", "surrogateescape"), code, printed


def test_all_cells_are_counted_and_code_cells_share_their_names():
    cells = (
        {"cell_type": "markdown", "source": "# tf.keras.mixed_precision"},
        IMPORT,
        {"cell_type": "raw", "source": "import tensorflow.contrib.mixed_precision"},
        f"\n{USE}",
    )
    (finding,) = checked(notebook(*cells), name="program.ipynb")["findings"]
    assert (finding["cell"], finding["line"], finding["column"]) == (4, 2, 1)
    assert (finding["code"], finding["status"]) == (USE, "breaks")


MAGICS = {
    "line": "%matplotlib inline\n!pip install 'x\n",
    "indented": "if True:\n    !pip install x\n",
    "assigned": "files = !ls\nn = %timeit -o f()\n",
    "arithmetic": "%matplotlib inline\nx = (7\n  % 4)\n",
    "help": "?print\ntf.keras?\nprint??\n",
    "cell that runs Python": "%%time\nx = 1\n",
    "over lines": "!pip install \\\n   a \\\n   b\n",
    "quotes": "%cd it's\n!echo '''\n",
    "await": "%load_ext x\nawait f()\n",
    "string": 's = """\n%matplotlib\n!ls\n"""\n!ls\n',
    "pip without its mark": "pip install -q tensorflow==2.21\n",
    "run without its mark": "run a.py\n",
}


@pytest.mark.parametrize("magic", MAGICS.values(), ids=MAGICS)
def test_magics_change_no_line_number_and_stay(magic):
    line = magic.count("\n") + 1
    found = findings_and_unreadable(IMPORT, f"{magic}{USE}")
    assert found == ([(2, line, POLICY)], [])
    text = notebook(f"{magic}from keras.mixed_precision import experimental")
    expected = text.replace("from keras", "from tf_lso.keras")
    assert migrate(text)[:2] == (expected, 0)


# Maps the name of a case to its cells, the (cell, line) of the finding, and a list of the
# (cell, line) of unreadable cells.
CELLS = {
    "a later cell imports for an earlier cell": ([USE, IMPORT], (1, 1), []),
    "a cell that does not parse": (
        [IMPORT, "x = 1\ndef loss_scale(:\n", USE],
        (3, 1),
        [(2, 2)],
    ),
    "a cell without an old name that does not parse": (
        [IMPORT, "your code ...", USE],
        (3, 1),
        [],
    ),
    "a cell that does not parse and may contain the import": (
        [BROKEN, USE],
        (2, 1),
        [],
    ),
}


@pytest.mark.parametrize("case", CELLS.values(), ids=CELLS)
def test_a_use_is_found_whatever_other_cells_contain(case):
    cells, (cell, line), unreadable = case
    found = findings_and_unreadable(*cells)
    assert found == ([(cell, line, POLICY)], unreadable)


def test_a_use_after_a_cell_that_does_not_parse_is_unsure():
    (finding,) = checked(notebook(BROKEN, USE), name="a.ipynb")["findings"]
    assert finding["status"] == "unsure"


def test_notebooks_and_cells_of_other_languages_are_skipped():
    cell = f"loss_scale <- function(\n{USE}"
    found = findings_and_unreadable(cell, language_info={"name": "R"})
    assert found == ([], [])
    found = findings_and_unreadable(IMPORT, f"%%bash\nfor i in *; do (\n{USE}")
    assert found == ([], [])


@pytest.mark.parametrize(
    "first",
    [
        ["%%bash\nls", {"cell_type": "code", "source": []}],
        [{"cell_type": "code"}],
        [{"cell_type": "code", "source": [" \n"]}],
    ],
)
@pytest.mark.parametrize(
    ("flags", "imports"),
    [
        ([], "import keras\nimport tf_lso\n"),
        (
            ["--like", "2.4"],
            'import tf_lso\n\ntf_lso.install(like="2.4")\n\nimport keras\n',
        ),
    ],
)
def test_imports_are_added_to_the_first_cell_that_contains_code(first, flags, imports):
    old = notebook(*first, f"import keras\n{USE}", IMPORT)
    new, code, _ = migrate(old, *flags)
    use = USE.replace("tf.", "tf_lso.")
    assert code == 0
    assert new == notebook(*first, f"{imports}{use}", IMPORT)


# A notebook as Jupyter writes it, and the notebook after its migration.
FOLDER = ROOT / "tests/migrate/notebooks"
NOTEBOOK = (FOLDER / "before.json").read_text(encoding="utf-8")
MIGRATED = (FOLDER / "after.json").read_text(encoding="utf-8")


def test_cells_are_migrated_and_all_other_bytes_stay():
    new, code, printed = migrate(NOTEBOOK)
    assert (new, code) == (MIGRATED, 0)
    assert "1 file read: 1 changed, in 2 places." in printed
    assert migrate(new)[0] == new


@pytest.mark.parametrize(
    "layout",
    [
        {"indent": 2, "ensure_ascii": False},  # Colab
        {"separators": (",", ":"), "ensure_ascii": False},  # Kaggle
        {"indent": "\t"},
        {},
    ],
)
def test_the_layout_of_the_file_stays(layout):
    old = json.dumps(json.loads(NOTEBOOK), **layout)
    new, _, _ = migrate(old)
    assert new == json.dumps(json.loads(MIGRATED), **layout)


def test_a_notebook_with_another_layout_is_left_and_reported():
    old = NOTEBOOK.replace("{", "{ ", 3)
    new, code, printed = migrate(old)
    assert (new, code) == (old, 0)
    assert "why:   The notebook's JSON is not laid out as Jupyter" in printed


@pytest.mark.parametrize("mark", ["", "\N{BYTE ORDER MARK}"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_byte_order_marks_stay(mark, newline):
    new, _, _ = migrate(mark + NOTEBOOK.replace("\n", newline))
    assert new.startswith(mark) and new.removeprefix(mark)[0] == "{"
    assert new.replace(newline, "\n") == mark + migrate(NOTEBOOK)[0]


# Each of these texts contains a part of an old name. Otherwise the file would not be parsed.
NOT_NOTEBOOKS = [
    b"loss_scale",
    b'{"loss_scale": 1}',
    b'{"cells": ["loss_scale"]}',
    b"\xff\xfe{loss_scale}",
    NOTEBOOK.encode("latin-1"),
    NOTEBOOK[:-10].encode(),
]


@pytest.mark.parametrize("data", NOT_NOTEBOOKS)
def test_a_file_that_is_not_a_notebook_is_left_alone_and_reported(data):
    assert checked(data, name="a.ipynb")["unreadable"][0]["reason"]
    new, code, printed = migrate(data)
    assert code == 2
    assert re.match(r"a\.ipynb(:\d+)?: left alone  not a notebook", printed)
    assert new.encode("utf-8", "surrogateescape") == data


def test_a_cell_that_does_not_parse_is_left_alone_and_reported():
    text = NOTEBOOK.replace("policy = tf", "policy = = tf")
    new, code, printed = migrate(text)
    assert new != text
    assert code == 2
    assert (
        "policy = = tf.keras.mixed_precision.Policy" in new
    )  # other cells are migrated
    assert "a.ipynb:cell 3:2: left alone  does not parse" in printed
