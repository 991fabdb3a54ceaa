"""Notebooks: cells, magics, one scope, and cells that cannot be read."""

import pytest

from tests.check.programs import notebook, outcome_of
from tf_lso.source import notebooks

pytestmark = pytest.mark.core

POLICY = "tf.keras.mixed_precision.experimental.Policy"
USE = "tf.keras.mixed_precision.experimental.Policy('mixed_float16')"


def places(data):
    """Returns (cell, line, name) of each finding, and (cell, line) of the unreadable."""
    outcome = outcome_of(data, "program.ipynb")
    found = [(f.cell, f.line, f.verdict.name) for f in outcome.findings]
    return found, [(item.cell, item.line) for item in outcome.unreadable]


def test_cells_are_counted_as_they_stand_and_share_their_names():
    data = notebook(
        {"cell_type": "markdown", "source": "# tf.keras.mixed_precision"},
        "import tensorflow as tf",
        {"cell_type": "raw", "source": "import tensorflow.contrib.mixed_precision"},
        f"\n{USE}",
    )
    outcome = outcome_of(data, "program.ipynb")
    (finding,) = outcome.findings
    assert (finding.cell, finding.line, finding.column) == (4, 2, 1)
    assert finding.code == USE
    assert outcome.exit_code == 1


def test_a_later_cell_binds_for_an_earlier_one():
    assert places(notebook(USE, "import tensorflow as tf"))[0] == [(1, 1, POLICY)]


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
}


@pytest.mark.parametrize("magic", MAGICS.values(), ids=MAGICS)
def test_magics_move_no_line(magic):
    line = magic.count("\n") + 1
    data = notebook("import tensorflow as tf", f"{magic}{USE}")
    assert places(data) == ([(2, line, POLICY)], [])


def test_arithmetic_stays():
    tree = notebooks.parse("%matplotlib inline\nx = (7\n  % 4)")
    assert tree.body[1].value.op.__class__.__name__ == "Mod"


@pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%writefile x.py", "%%sql a"])
def test_cells_of_other_languages_are_skipped(magic):
    assert places(notebook(f"{magic}\nfor i in *; do (\n{USE}")) == ([], [])


def test_a_cell_that_does_not_parse_stops_no_other():
    data = notebook("import tensorflow as tf", "x = 1\ndef loss_scale(:\n", USE)
    assert places(data) == ([(3, 1, POLICY)], [(2, 2)])
    assert outcome_of(data, "program.ipynb").exit_code == 2


def test_a_cell_without_an_old_name_may_be_anything():
    data = notebook("import tensorflow as tf", "your code here ...", USE)
    assert places(data) == ([(3, 1, POLICY)], [])
    assert outcome_of(data, "program.ipynb").exit_code == 1


def test_a_cell_that_is_indented_as_a_whole():
    """IPython takes the indent off, as when code is pasted out of a function."""
    data = notebook("import tensorflow as tf", f"    x = 1\n    y = {USE}\n    z = 1")
    assert places(data) == ([(2, 2, POLICY)], [])


def test_a_broken_cell_may_have_held_the_import():
    data = notebook("import tensorflow as tf\ndef f(:\n", USE)
    (finding,) = outcome_of(data, "program.ipynb").findings
    assert finding.verdict.status == "unsure"


@pytest.mark.parametrize("language", ["R", "julia", "scala"])
def test_notebooks_of_other_languages_are_skipped(language):
    data = notebook("x <- function(", language_info={"name": language})
    assert places(data) == ([], [])


@pytest.mark.parametrize(
    "data",
    [
        b"loss_scale",
        b'{"loss_scale"',
        b'["loss_scale"]',
        b'{"loss_scale": 1}',
        b'{"cells": "loss_scale"}',
        b'{"cells": ["loss_scale"]}',
        b"\xff\xfe{loss_scale}",
        b'"loss_scale"',
    ],
)
def test_what_is_no_notebook_is_unreadable(data):
    outcome = outcome_of(data, "program.ipynb")
    (item,) = outcome.unreadable
    assert item.reason and outcome.exit_code == 2
