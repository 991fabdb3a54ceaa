"""`check` reads the cells of a notebook as one program, and `migrate` keeps all other bytes."""

import json
import re

import pytest

from tests.migrate.programs import checked, notebook, run, write
from tests.processes import ROOT

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("folder")]

POLICY = "tf.keras.mixed_precision.experimental.Policy"
USE = "tf.keras.mixed_precision.experimental.Policy('mixed_float16')"
IMPORT = "import tensorflow as tf"
BROKEN = f"{IMPORT}\ndef f(:\n"


def places(*cells, **metadata):
    """Check a notebook. Return the positions and names of findings, and of unreadable cells.

    Returns:
      A list of (cell, line, name) for the findings, and a list of (cell, line) for the cells
      that cannot be read.
    """
    document = checked(notebook(*cells, **metadata), name="program.ipynb")
    found = [(one["cell"], one["line"], one["name"]) for one in document["findings"]]
    return found, [(item["cell"], item["line"]) for item in document["unreadable"]]


def migrate(data, *flags):
    """Migrate a notebook. Return its new text, the exit code and what was printed."""
    path = write("a.ipynb", data)
    code, printed = run("migrate", "--write", *flags, path)
    return path.read_bytes().decode("utf-8", "surrogateescape"), code, printed


def test_cells_are_counted_as_they_stand_and_share_their_names():
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
    "help": "?print\ntf.keras?\nprint??\n",
    "cell that runs Python": "%%time\nx = 1\n",
    "cell that runs Python, with spaces": "\n%%timeit -n 1\n",
    "over lines": "!pip install \\\n   a \\\n   b\n",
    "quotes": "%cd it's\n!echo '''\n",
    "arithmetic": "%matplotlib inline\nx = (7\n  % 4)\n",
    "await": "%load_ext x\nawait f()\n",
    "string": 's = """\n%matplotlib\n!ls\n"""\n!ls\n',
    "bracket": "!ls (\n",
    "pip without its mark": "pip install -q tensorflow==2.21\n",
    "conda without its mark": "conda install tf\n",
    "cd without its mark": "cd ../x\n",
    "run without its mark": "run a.py\n",
}


@pytest.mark.parametrize("magic", MAGICS.values(), ids=MAGICS)
def test_magics_move_no_line_and_stay(magic):
    line = magic.count("\n") + 1
    assert places(IMPORT, f"{magic}{USE}") == ([(2, line, POLICY)], [])
    text = notebook(f"{magic}from keras.mixed_precision import experimental")
    expected = text.replace("from keras", "from tf_lso.keras")
    assert migrate(text)[:2] == (expected, 0)


# Maps the name of a case to its cells, the (cell, line) of the finding, and a list of the
# (cell, line) of unreadable cells.
CELLS = {
    "a later cell binds for an earlier one": ([USE, IMPORT], (1, 1), []),
    "one that does not parse stops no other": (
        [IMPORT, "x = 1\ndef loss_scale(:\n", USE],
        (3, 1),
        [(2, 2)],
    ),
    "without an old name it may be anything": (
        [IMPORT, "your code ...", USE],
        (3, 1),
        [],
    ),
    # IPython removes the indent, because users paste code out of functions.
    "one that is indented as a whole": (
        [IMPORT, f"    x = 1\n    y = {USE}\n    z = 1"],
        (2, 2),
        [],
    ),
    "a broken one may have held the import": ([BROKEN, USE], (2, 1), []),
}


@pytest.mark.parametrize("case", CELLS.values(), ids=CELLS)
def test_cells(case):
    cells, (cell, line), unreadable = case
    assert places(*cells) == ([(cell, line, POLICY)], unreadable)


def test_what_a_broken_cell_may_have_bound_is_unsure():
    (finding,) = checked(notebook(BROKEN, USE), name="a.ipynb")["findings"]
    assert finding["status"] == "unsure"


@pytest.mark.parametrize("language", ["R", "julia", "scala"])
def test_notebooks_of_other_languages_are_skipped(language):
    info = {"name": language}
    assert places(f"loss_scale <- function(\n{USE}", language_info=info) == ([], [])


@pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%writefile x.py", "%%sql a"])
def test_cells_of_other_languages_are_skipped(magic):
    assert places(IMPORT, f"{magic}\nfor i in *; do (\n{USE}") == ([], [])


EMPTY = {"cell_type": "code", "source": []}


@pytest.mark.parametrize(
    "first",
    [
        [EMPTY],
        ["%%bash\nls", EMPTY],
        [{"cell_type": "code"}],
        [{"cell_type": "code", "source": ""}],
        [{"cell_type": "code", "source": [" \n"]}],
    ],
)
@pytest.mark.parametrize("flags", [(), ("--like", "2.4")])
def test_an_empty_first_cell_stays_empty(first, flags):
    added = "import tf_lso\n"
    if flags:
        added = 'import tf_lso\n\ntf_lso.install(like="2.4")\n\n'
    new, code, _ = migrate(notebook(*first, f"import keras\n{USE}", IMPORT), *flags)
    head = f"{added}import keras\n" if flags else f"import keras\n{added}"
    use = USE.replace("tf.", "tf_lso.")
    assert (new, code) == (notebook(*first, f"{head}{use}", IMPORT), 0)


# A notebook as Jupyter writes it, and the notebook after its migration.
NOTEBOOK, MOVED = (
    (ROOT / f"tests/migrate/notebooks/{name}.json").read_text(encoding="utf-8")
    for name in ("before", "after")
)


def test_cells_move_and_all_other_bytes_stay():
    new, code, printed = migrate(NOTEBOOK)
    assert (new, code) == (MOVED, 0)
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
    old, new = (json.dumps(json.loads(text), **layout) for text in (NOTEBOOK, MOVED))
    assert migrate(old)[0] == new


def test_a_notebook_laid_out_by_hand_is_left_and_told_of():
    old = NOTEBOOK.replace("{", "{ ", 3)
    new, code, printed = migrate(old)
    assert (new, code) == (old, 0)
    assert "why:   The notebook's JSON is not laid out as Jupyter" in printed


@pytest.mark.parametrize("mark", ["", "\N{BYTE ORDER MARK}"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_marks_stay(mark, newline):
    new, _, _ = migrate(mark + NOTEBOOK.replace("\n", newline))
    assert new.startswith(mark) and new.removeprefix(mark)[0] == "{"
    assert new.replace(newline, "\n") == mark + migrate(NOTEBOOK)[0]


def test_a_notebook_in_ascii_stays_in_ascii():
    new, _, _ = migrate(
        notebook(f'{IMPORT}\nx = tf.keras.mixed_precision.experimental, "é"')
    )
    assert (
        new.isascii()
        and r"tf_lso.keras.mixed_precision.experimental, \"\u00e9\"" in new
    )


def test_a_notebook_without_an_old_name_is_not_touched():
    text = NOTEBOOK.replace("mixed_precision", "layers")
    assert migrate(text)[0] == text


BAD = [
    (b"loss_scale", "not a notebook"),
    (b'{"loss_scale"', "not a notebook"),
    (b'["loss_scale"]', "not a notebook"),
    (b'{"loss_scale": 1}', "not a notebook"),
    (b'{"cells": "loss_scale"}', "not a notebook"),
    (b'{"cells": ["loss_scale"]}', "not a notebook"),
    (b'"loss_scale"', "not a notebook"),
    (b"\xff\xfe{loss_scale}", "not a notebook"),
    (NOTEBOOK.encode("latin-1"), "not a notebook"),
    (NOTEBOOK[:-10].encode(), "not a notebook"),
]


@pytest.mark.parametrize(("data", "words"), BAD)
def test_what_is_no_notebook_is_left_alone_and_named(data, words):
    assert checked(data, name="a.ipynb")["unreadable"][0]["reason"]
    new, code, printed = migrate(data)
    assert code == 2
    assert re.match(rf"a\.ipynb(:\d+)?: left alone  {words}", printed)
    assert new.encode("utf-8", "surrogateescape") == data


def test_a_cell_that_does_not_parse_is_left_alone_and_named():
    text = NOTEBOOK.replace("policy = tf", "policy = = tf")
    new, code, printed = migrate(text)
    assert (new != text, code) == (True, 2)
    assert (
        "policy = = tf.keras.mixed_precision.Policy" in new
    )  # other cells are migrated
    assert "a.ipynb:cell 3:2: left alone  does not parse" in printed


@pytest.mark.parametrize(
    "source",
    [
        "!python train.py --hparams='mixed_precision=true'\nx = 1",
        *(f"%%{name}\npip install mixed_precision" for name in ("bash", "html", "sql")),
    ],
)
def test_what_is_no_old_name_is_not_spoken_of(source):
    text = notebook(source)
    new, code, printed = migrate(text)
    assert (new, code) == (text, 0)
    assert printed.startswith("1 file read: nothing to change.\n")
