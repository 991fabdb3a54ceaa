"""For each rule that has a fix: the fixed program prints what the old one printed.

What the fix does not touch stays byte for byte, and a second run changes nothing.
"""

import json
import pathlib

import pytest

from tests.check.programs import example
from tests.generation import HAS_KERAS3
from tests.migrate.files import write
from tests.migrate.programs import outcome_of
from tests.migrate.test_cases import printed_by
from tf_lso.source import rules

TF = "import tensorflow as tf\n\n"
SGD = "tf.keras.optimizers.SGD(0.5)"
# rule -> a program that it finds
PROGRAMS = {
    rules.GONE: (
        "from tensorflow.keras.mixed_precision import experimental as mp\n\n"
        'mp.set_policy("mixed_float16")\n'
        "print(mp.global_policy().loss_scale)\n"
    ),
    rules.CHANGED: (
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer({SGD})\n"
        "print(type(opt).__name__, opt.dynamic)\n"
    ),
    rules.ARGUMENTS: (
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer({SGD}, False, 128)\n"
        "print(float(opt.loss_scale))\n"
    ),
    rules.METHOD: (
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer({SGD})\n"
        "print(float(opt.get_scaled_loss(tf.constant(2.0))))\n"
    ),
    rules.SILENT: (
        f"{TF}tf.keras.config.set_dtype_policy('mixed_float16')\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "loss = tf.constant(2.0)\n"
        "if hasattr(model.optimizer, 'get_scaled_loss'):\n"
        "    loss = model.optimizer.get_scaled_loss(loss)\n"
        "print(float(loss))\n"
    ),
    rules.OPTIMIZER: (
        f"{TF}inner = tf.keras.optimizers.SGD(lr=0.25)\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "print(float(inner.lr), float(opt.lr))\n"
    ),
    rules.FILES: (
        "import os\nimport tempfile\n\n"
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer({SGD})\n"
        "v = tf.Variable(1.0)\n"
        "opt.apply_gradients([(tf.constant(1.0), v)])\n"
        "path = os.path.join(tempfile.mkdtemp(), 'ckpt')\n"
        "ckpt = tf.train.Checkpoint(optimizer=opt, v=v)\n"
        "path = ckpt.save(path)\n"
        "opt.iterations.assign(7)\n"
        "ckpt.restore(path)\n"
        "print(int(opt.iterations), float(v))\n"
    ),
}


def test_every_rule_with_a_fix_is_here():
    assert set(PROGRAMS) == {rule for rule in rules.RULES if example(rule)[1]}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("round_trip")
    new = {
        rule: outcome_of(program, prefer="least").texts[None]
        for rule, program in PROGRAMS.items()
    }
    old = printed_by(PROGRAMS, folder, ["-m", "tf_lso", "run"], ["--unmodified"])
    return old, printed_by(new, folder)


@pytest.mark.skipif(not HAS_KERAS3, reason="run_cases.py speaks to Keras 3")
@pytest.mark.parametrize("rule", PROGRAMS)
def test_the_fixed_program_prints_what_the_old_one_printed(rule, printed):
    done = outcome_of(PROGRAMS[rule], prefer="least")
    assert rule in [one.rule for one in done.diagnostics if one.fix]
    old, new = printed
    assert "Traceback" not in old[rule] and old[rule].strip(), old[rule]
    assert new[rule] == old[rule]


# How a text is kept -> the bytes of it.
WAYS = {
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "old Mac": lambda text: text.replace("\n", "\r").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "latin-1": lambda text: f"# coding: latin-1\n{text}".encode("latin-1"),
    "cp1252": lambda text: f"#!python\n# vim: fileencoding=cp1252\n{text}".encode(
        "cp1252"
    ),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "form feed": lambda text: ("\x0c\n" + text).encode(),
    "tabs": lambda text: text.encode(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", PROGRAMS)
def test_the_rest_stays_byte_for_byte(rule, way, migrate):
    before, after = example(rule)
    tail = "# \xe9  \nif 1:\n\tx = 'y'   \n"
    path = write("a.py", WAYS[way](before + tail))
    assert migrate("--write", "a.py")[0] == 0
    assert path.read_bytes() == WAYS[way](after + tail)
    assert migrate("--check", "a.py")[0] == 0


@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_notebook_keeps_its_other_cells_and_magics(rule, migrate):
    before, _ = example(rule)
    magic = "%matplotlib inline\n!ls  \n"
    cells = [
        {"cell_type": "markdown", "source": [before]},
        {"cell_type": "code", "metadata": {}, "source": magic + before},
    ]
    path = write("a.ipynb", json.dumps({"cells": cells}, indent=3))
    assert migrate("--write", "a.ipynb")[0] == 0
    (markdown, code) = json.loads(path.read_text())["cells"]
    assert markdown == cells[0]
    assert code["source"].startswith(magic) and "tf_lso" in code["source"]
    changed = path.read_bytes()
    assert migrate("--write", "a.ipynb")[0] == 0
    assert pathlib.Path("a.ipynb").read_bytes() == changed
