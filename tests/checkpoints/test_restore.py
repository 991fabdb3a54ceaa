"""`restore` restores files of old TensorFlow versions, and training continues as it did there.

Each recorded program saved a file after five steps, and then took five more steps. The tests
restore the file, compare the state, take five steps, and compare with the recorded state.
"""

import functools
import math
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts, writers
from tests.families import GENERATIONS, KERASES, needs_keras3, numpy
from tf_lso import checkpoints

PAGE = pathlib.Path(__file__).parents[2] / "compat_docs" / "reference" / "files.md"

# These cases are restored into both Kerases. One of them is a slow test.
BOTH = re.compile("(stable|experimental)-(v2|new)-(Adam|SGD)-dynamic|bare-v2-RMSprop$")

ALL = [
    (version, case)
    for version in artifacts.VERSIONS
    if "models" not in version
    for case in artifacts.cases(version)
]


def _pairs():
    """Yield a parameter (version, case, target Keras, whether steps are traced) for each test.

    To save time, the cases of a version are restored into Keras 3 and Keras 2 in turn, and only
    the cases that match `BOTH` are restored into both. Tracing takes longer than the rest of
    a test, so only the first test of each Adam traces its steps.
    """
    versions = sorted({version for version, _ in ALL})
    cases = sorted({case for _, case in ALL})
    traced = set()
    for version, case in ALL:
        turn = versions.index(version) + cases.index(case)
        for number, target in enumerate(GENERATIONS):
            if "-Lion" in case and not hasattr(KERASES[target].optimizers, "Lion"):
                continue  # Keras 2.12
            is_turn = turn % 2 == number
            if is_turn or BOTH.search(case):
                label = f"{target}-{version}-{case}"
                marks = [] if is_turn else pytest.mark.slow
                kind = case, target, is_turn
                traces = case.endswith("-Adam-dynamic") and kind not in traced
                traced.add(kind)
                values = version, case, target, traces
                yield pytest.param(*values, id=label, marks=marks)


@functools.cache
def _network(target):
    """Return the model and its traced loss function. Tests share them to save time."""
    model = artifacts.network(KERASES[target])
    return model, tf.function(artifacts.loss_of(model))


def made(version, case, target):
    """Return the model, with weights that no file contains, and a new optimizer of a case."""
    recorded = artifacts.cases(version)[case]
    model, _ = _network(target)
    model.set_weights([np.full_like(weight, 9.0) for weight in model.get_weights()])
    return model, artifacts.optimizer(recorded, target)


def go_on(version, case, target, model, opt, *, traced=False):
    artifacts.go_on(version, case, model, opt, traced, _network(target)[1])


def restored(version, case, target, name="ckpt-1", change=lambda opt: opt):
    """Restore a file, and return the model, the optimizer and the report."""
    model, opt = made(version, case, target)
    path, opt = artifacts.path_of(version, case, name), change(opt)
    return model, opt, checkpoints.restore(path, model=model, optimizer=opt)


def check(version, case, target, name="ckpt-1", *, traced=False):
    """Restore a file, compare with `after5`, take five steps, and compare with `after10`."""
    model, opt, report = restored(version, case, target, name)
    assert report.complete
    expected, has_scale = artifacts.expected(version, case, name), name in HAVE_SCALE
    artifacts.assert_holds(model, opt, expected["after5"], has_scale)
    go_on(version, case, target, model, opt, traced=traced)
    differences, after = writers.of(version, case, target), expected["after10"]
    bound = sum(d.weights for d in differences)
    ahead = sum(d.iterations for d in differences)
    assert int(numpy(opt.iterations)) == after["iterations"] + ahead
    if math.isinf(bound):
        return
    assert artifacts.close(model.get_weights(), after["weights"], atol=max(bound, 1e-6))
    if has_scale and isinstance(opt, tf_lso.LossScaleOptimizer):
        assert artifacts.scale_of(opt) == (after["loss_scale"], after["counter"])


@pytest.mark.parametrize(("version", "case", "target", "traced"), list(_pairs()))
def test_a_checkpoint_goes_on(version, case, target, traced):
    check(version, case, target, traced=traced)


FILES = ("model.h5", "model.keras", "savedmodel", "weights_tf")
HAVE_SCALE = ("ckpt-1", "savedmodel", "weights_tf")  # in files of Keras 2, only these


def _files(name):
    part = "weights_tf.index" if name == "weights_tf" else name
    return [
        (v, c)
        for v, c in ALL
        if "compiled" in artifacts.cases(v)[c]
        and artifacts.path_of(v, c, part).exists()
    ]


def lost(version, case, name):
    """Return whether this version silently left the optimizer out of such a file."""
    is_new, is_stable = "-new-" in case, case.startswith("stable")
    if name == "model.h5":
        versions = ("TF2.9.3", "TF2.10.1", *["TF2.11.1"] * is_stable)
        return is_new and version in versions
    return name == "model.keras" and not is_new


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("name", FILES)
def test_other_files_go_on(half, target, name):
    """If a version left the optimizer out of the file, the error must name what is missing."""
    seen = 0
    for version, case in _files(name)[half::2]:
        if lost(version, case, name):
            match = "optimizer/iterations"
            with pytest.raises(checkpoints.CheckpointError, match=match):
                restored(version, case, target, name)
            continue
        check(version, case, target, name)
        seen += 1
    assert seen >= 2


@pytest.mark.parametrize(
    ("version", "case", "layout"),
    [
        ("TF2.1.4", "experimental-v2-Adam-dynamic", "2.0-2.2"),
        ("TF2.4.4", "stable-v2-Adam-dynamic", "v2"),
        ("TF2.15.1", "stable-new-Adam-dynamic", "new"),
    ],
)
@needs_keras3
def test_the_layouts_have_names(version, case, layout):
    assert restored(version, case, "keras3")[-1].layout == layout


@needs_keras3
def test_an_optimizer_alone_takes_a_checkpoint_with_a_scale():
    def alone(opt):
        inner = opt.inner_optimizer
        return type(inner).from_config(inner.get_config())

    case = "stable-v2-Adam-dynamic"
    _, opt, report = restored("TF2.4.4", case, "keras3", change=alone)
    assert report.complete
    assert [key for key in report.unused if "loss_scale" in key]
    assert int(numpy(opt.iterations)) == 5


@needs_keras3
def test_a_checkpoint_without_a_scale_leaves_the_scale_as_it_is():
    def wrap(opt):
        return tf_lso.LossScaleOptimizer(opt, initial_scale=64.0)

    _, opt, report = restored("TF2.4.4", "bare-v2-Adam", "keras3", change=wrap)
    assert float(opt.loss_scale) == 64.0
    kept = [name for name, _ in report.kept]
    assert kept == ["optimizer/loss_scale", "optimizer/dynamic_counter"]


def test_every_writer_that_differs_is_in_the_documentation():
    text = PAGE.read_text()
    section = text.split("## Where the next steps differ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+?) \|", section, re.MULTILINE)
    rows = [row for row in rows if row not in ("writer", "---")]
    exact = {"RMSprop and Adagrad"}  # too small to need a bound
    assert set(rows) - exact == {d.row for d in writers.DIFFERENCES}


@pytest.mark.parametrize("difference", writers.DIFFERENCES, ids=lambda d: d.row)
@needs_keras3
def test_no_writer_is_excused_without_need(difference):
    """Each row of the table is needed: without it, at least one of its cases would fail."""
    target = difference.targets[0]
    cases = [(v, c) for v, c in ALL if re.search(difference.case, f"{v}/{c}")]
    assert any(not _ends_as_recorded(*case, target) for case in cases)


def _ends_as_recorded(version, case, target):
    model, opt, _ = restored(version, case, target)
    go_on(version, case, target, model, opt)
    after = artifacts.expected(version, case)["after10"]
    same = artifacts.close(model.get_weights(), after["weights"])
    return same and int(numpy(opt.iterations)) == after["iterations"]
