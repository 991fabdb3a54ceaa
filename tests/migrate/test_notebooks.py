"""Notebooks: cells move, and all other bytes stay."""

import json
import pathlib

import pytest

from tf_lso import cli
from tf_lso.source import notebooks

# As Jupyter writes them, as Colab does, and as a small one may look.
NOTEBOOK = r"""{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": [
    "Uses tf.keras.mixed_precision\n"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "metadata": {"scrolled":   true},
   "outputs": [{"name": "stdout", "text": ["caf\u00e9 é \/ mixed_precision\n"]}],
   "source": [
    "%matplotlib inline\n",
    "import tensorflow as tf  # é\n",
    "!pip install -q tensorflow\n",
    "from tensorflow.keras import layers, mixed_precision as mp"
   ]
  },
  {
   "cell_type": "code",
   "metadata": {},
   "source": "%%time\npolicy = tf.keras.mixed_precision.Policy(\"mixed_float16\")\n"
  },
  {
   "cell_type": "code",
   "metadata": {},
   "source": [
    "%time mp = tf.keras.mixed_precision"
   ]
  },
  {"cell_type": "code", "metadata": {}, "source": ["mp.set_global_policy(policy)"]},
  {"cell_type": "code", "metadata": {}, "source": []}
 ],
 "metadata": {"kernelspec": {"language": "python", "name": "python3"}},
 "nbformat": 4,
 "nbformat_minor": 1e0
}
"""
CHANGED = {
    """    "import tensorflow as tf  # é\\n",
""": """    "import tensorflow as tf  # é\\n",
    "import tf_lso\\n",
""",
    """    "from tensorflow.keras import layers, mixed_precision as mp"
""": """    "from tensorflow.keras import layers\\n",
    "from tf_lso.keras import mixed_precision as mp"
""",
    r"policy = tf.keras": r"policy = tf_lso.keras",
}


@pytest.fixture
def migrate(tmp_path, monkeypatch, capsys):
    """Migrates a notebook; returns its new text, the exit code and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(data, *flags):
        path = pathlib.Path("a.ipynb")
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        code = cli.main(["migrate", "--write", *flags, "a.ipynb"])
        return path.read_bytes().decode(), code, capsys.readouterr().out

    return run


def test_cells_move_and_all_other_bytes_stay(migrate):
    new, code, printed = migrate(NOTEBOOK, "--prefer", "tf_lso")
    expected = NOTEBOOK
    for before, after in CHANGED.items():
        assert expected.count(before) == 1
        expected = expected.replace(before, after)
    assert new == expected
    assert code == 0
    assert (
        "a.ipynb:cell 4:1:1: LSO108 left" in printed
    )  # the cell, the line and the column
    assert "only IPython understands" in printed
    assert migrate(new)[0] == new


@pytest.mark.parametrize("mark", ["", "\N{BYTE ORDER MARK}"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_marks_stay(migrate, mark, newline):
    new, _, _ = migrate(mark + NOTEBOOK.replace("\n", newline))
    assert new.startswith(mark) and new.removeprefix(mark)[0] == "{"
    assert new.replace(newline, "\n") == mark + migrate(NOTEBOOK)[0]


def test_a_notebook_in_ascii_stays_in_ascii(migrate):
    code = 'import tensorflow as tf\nx = tf.keras.mixed_precision, "é"'
    text = json.dumps({"cells": [{"cell_type": "code", "source": code}]})
    new, _, _ = migrate(text)
    assert new.isascii() and r"tf_lso.keras.mixed_precision, \"\u00e9\"" in new


def test_a_notebook_without_an_old_name_is_not_touched(migrate):
    text = NOTEBOOK.replace("mixed_precision", "layers")
    assert migrate(text)[0] == text


@pytest.mark.parametrize(
    "text, words",
    [
        (NOTEBOOK.replace("policy = tf", "policy = = tf"), "does not parse"),
        (NOTEBOOK[:-10], "not the JSON of a notebook"),
        ('["mixed_precision"]', "not a notebook"),
        (NOTEBOOK.encode("latin-1"), "not text in utf-8"),
    ],
)
def test_a_bad_notebook_is_left_alone(migrate, text, words, capsys):
    data = text if isinstance(text, bytes) else text.encode()
    pathlib.Path("b.py").write_text("import keras\n")
    path = pathlib.Path("a.ipynb")
    path.write_bytes(data)
    code = cli.main(["migrate", "--write", "."])
    assert code == 2 and path.read_bytes() == data
    assert words in capsys.readouterr().out


def test_the_reason_names_the_cell(migrate):
    text = NOTEBOOK.replace("policy = tf", "policy = = tf")
    _, _, printed = migrate(text)
    assert "a.ipynb:cell 3:2: left alone  does not parse" in printed


def test_cells_are_counted_as_check_counts_them():
    sources = dict(notebooks.cells(NOTEBOOK.encode()))
    same = {number: source for number, source in sources.items() if source}
    assert notebooks.encoded(NOTEBOOK.encode(), {2: same[2]}) == NOTEBOOK.encode()


def code(*sources):
    """Returns a notebook of these code cells."""
    cells_ = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"cells": cells_})


@pytest.mark.parametrize(
    "line",
    ["pip install -q tensorflow==2.21", "conda install tf", "cd ../x", "run a.py"],
)
def test_a_magic_without_its_mark(migrate, line):
    text = code(f"{line}\nfrom keras import mixed_precision")
    assert migrate(text)[:2] == (text.replace("from keras", "from tf_lso.keras"), 0)


@pytest.mark.parametrize(
    "source",
    [
        "%%writefile a.py\nfrom keras import mixed_precision",
        "\n%%script python\nimport keras\nkeras.mixed_precision.Policy('x')",
        "import keras as k\nx = %timeit -o k.mixed_precision.Policy('x')",
        "import keras as k\nx = !echo {k.mixed_precision.Policy('x')}",
    ],
)
def test_what_only_ipython_understands_is_told_of(migrate, source):
    text = code("x = 1", source)
    new, exit_code, printed = migrate(text)
    assert (new, exit_code) == (text, 0)
    assert "a.ipynb:cell 2:" in printed and "only IPython understands" in printed


def test_a_flag_of_a_command_is_no_old_name(migrate):
    text = code("!python train.py --hparams='mixed_precision=true'\nx = 1")
    assert migrate(text)[0::2] == (text, "1 file read: nothing to change.\n")


@pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%sql"])
def test_a_cell_of_another_language_is_not_spoken_of(migrate, magic):
    text = code(f"{magic}\npip install mixed_precision")
    assert migrate(text)[0::2] == (text, "1 file read: nothing to change.\n")
