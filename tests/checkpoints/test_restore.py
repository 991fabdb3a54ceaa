"""Files of real TensorFlow restore, and training goes on as in their own programs."""

import functools
import itertools
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

# Of each version these are restored into both Kerases, the second in slow runs.
BOTH = re.compile("(stable|experimental)-(v2|new)-(Adam|SGD)-dynamic|bare-v2-RMSprop$")

ALL = [
    (version, case)
    for version in artifacts.VERSIONS
    if "models" not in version
    for case in artifacts.cases(version)
]


def _pairs():
    """Each case of each version into one Keras, in turns; some into both."""
    versions = sorted({version for version, _ in ALL})
    cases = sorted({case for _, case in ALL})
    for version, case in ALL:
        turn = versions.index(version) + cases.index(case)
        for number, target in enumerate(GENERATIONS):
            if "-Lion" in case and not hasattr(KERASES[target].optimizers, "Lion"):
                continue  # Keras 2.12
            is_turn = turn % 2 == number
            if is_turn or BOTH.search(case):
                label = f"{target}-{version}-{case}"
                marks = [] if is_turn else pytest.mark.slow
                yield pytest.param(version, case, target, id=label, marks=marks)


@functools.cache
def _network(target):
    """The one model of a Keras, and its loss, traced: most of a case is spent on both."""
    model = artifacts.network(KERASES[target])
    return model, tf.function(artifacts.loss_of(model))


def made(version, case, target):
    """The model with weights that no file has, and the optimizer of a case, new."""
    recorded = artifacts.cases(version)[case]
    model, _ = _network(target)
    model.set_weights([np.full_like(weight, 9.0) for weight in model.get_weights()])
    return model, artifacts.optimizer(recorded, target)


def go_on(version, case, target, model, opt, *, traced=True):
    recorded = artifacts.cases(version)[case]
    data = artifacts.inputs()
    xs = data["X_clean" if recorded["clean"] else "X"][5:]
    # Traced with one optimizer only: tracing takes longer than all the rest.
    compiled = traced and case.endswith("-Adam-dynamic")
    artifacts.train(model, opt, xs, data["Y"][5:], compiled, _network(target)[1])


def check(version, case, target, path, expected, *, has_scale=True, traced=True):
    """Restore, compare all with `after5`, train, and compare with `after10`."""
    model, opt = made(version, case, target)
    report = checkpoints.restore(path, model=model, optimizer=opt)
    assert report.complete
    before, after = expected["after5"], expected["after10"]
    assert all(
        np.array_equal(a, artifacts.numbers(b), equal_nan=True)
        for a, b in zip(model.get_weights(), before["weights"], strict=True)
    )
    assert int(numpy(opt.iterations)) == before["iterations"]
    wraps = isinstance(opt, tf_lso.LossScaleOptimizer)
    if has_scale and wraps:
        scale = (before["loss_scale"], before["counter"])
        assert artifacts.scale_of(opt) == scale
    differences = writers.of(version, case, target)
    go_on(version, case, target, model, opt, traced=traced)
    ahead = sum(d.iterations for d in differences)
    bound = sum(d.weights for d in differences)
    assert int(numpy(opt.iterations)) == after["iterations"] + ahead
    if has_scale and wraps and not math.isinf(bound):
        assert artifacts.scale_of(opt) == (after["loss_scale"], after["counter"])
    assert math.isinf(bound) or artifacts.close(
        model.get_weights(), after["weights"], atol=max(bound, 1e-6)
    )
    return report


@pytest.mark.parametrize(("version", "case", "target"), list(_pairs()))
def test_a_checkpoint_goes_on(version, case, target):
    path = artifacts.folder(version) / case / "ckpt-1"
    expected = artifacts.cases(version)[case]["checkpoint"]
    check(version, case, target, path, expected)


FILES = {
    "h5": "model.h5",
    "keras": "model.keras",
    "savedmodel": "savedmodel",
    "weights": "weights_tf",
}


def _files(kind):
    name = "weights_tf.index" if kind == "weights" else FILES[kind]
    return [
        (v, c)
        for v, c in ALL
        if "compiled" in artifacts.cases(v)[c]
        and (artifacts.folder(v) / c / name).exists()
    ]


def lost(version, case, kind):
    """Whether the real version left the optimizer out of such a file, silently."""
    new = "-new-" in case
    return (
        (kind == "h5" and new and version in ("TF2.9.3", "TF2.10.1"))
        or (kind == "h5" and case.startswith("stable-new") and version == "TF2.11.1")
        or (kind == "keras" and not new)
    )


@pytest.mark.parametrize(
    "half, target, kind", list(itertools.product((0, 1), GENERATIONS, FILES))
)
def test_other_files_go_on(half, target, kind):
    """Whole models and weights; what a version left out is named as missing."""
    files = _files(kind)[half::2]
    seen, traced = 0, False
    for version, case in files:
        path = artifacts.folder(version) / case / FILES[kind]
        expected = artifacts.cases(version)[case]["compiled"]
        if lost(version, case, kind):
            model, opt = made(version, case, target)
            with pytest.raises(
                checkpoints.CheckpointError, match="optimizer/iterations"
            ):
                checkpoints.restore(path, model=model, optimizer=opt)
            continue
        # Neither the .h5 files nor the .keras files of Keras 2 have a loss scale.
        has_scale = kind in ("savedmodel", "weights")
        first = not traced and case.endswith("-Adam-dynamic")  # the one that is traced
        check(
            *(version, case, target, path, expected), has_scale=has_scale, traced=first
        )
        seen, traced = seen + 1, traced or first
    assert seen >= 2


@pytest.mark.parametrize("version", ["TF2.1.4", "TF2.4.4", "TF2.15.1"])
@needs_keras3
def test_the_layouts_have_names(version):
    names = {"TF2.1.4": "2.0-2.2", "TF2.4.4": "v2", "TF2.15.1": "new"}
    cases = [c for c in artifacts.cases(version) if c.endswith("Adam-dynamic")]
    model, opt = made(version, cases[0], "keras3")
    path = artifacts.folder(version) / cases[0] / "ckpt-1"
    report = checkpoints.restore(path, model=model, optimizer=opt)
    assert report.layout == names[version]


@needs_keras3
def test_an_optimizer_alone_takes_a_checkpoint_with_a_scale():
    case = "stable-v2-Adam-dynamic"
    model, opt = made("TF2.4.4", case, "keras3")
    inner = opt.inner_optimizer
    alone = type(inner).from_config(inner.get_config())
    path = artifacts.folder("TF2.4.4") / case / "ckpt-1"
    report = checkpoints.restore(path, model=model, optimizer=alone)
    assert report.complete
    assert [key for key in report.unused if "loss_scale" in key]
    assert int(numpy(alone.iterations)) == 5


@needs_keras3
def test_a_checkpoint_without_a_scale_leaves_the_scale_as_it_is():
    model, opt = made("TF2.4.4", "bare-v2-Adam", "keras3")
    wrapper = tf_lso.LossScaleOptimizer(opt, initial_scale=64.0)
    path = artifacts.folder("TF2.4.4") / "bare-v2-Adam" / "ckpt-1"
    report = checkpoints.restore(path, model=model, optimizer=wrapper)
    assert float(wrapper.loss_scale) == 64.0
    assert [name for name, _ in report.kept] == [
        "optimizer/loss_scale",
        "optimizer/dynamic_counter",
    ]


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
    """At least one case of each row fails without it."""
    target = difference.targets[0]
    cases = [(v, c) for v, c in ALL if re.search(difference.case, f"{v}/{c}")]
    assert any(not _ends_as_recorded(*case, target) for case in cases)


def _ends_as_recorded(version, case, target):
    model, opt = made(version, case, target)
    after = artifacts.cases(version)[case]["checkpoint"]["after10"]
    path = artifacts.folder(version) / case / "ckpt-1"
    checkpoints.restore(path, model=model, optimizer=opt)
    go_on(version, case, target, model, opt)
    same = artifacts.close(model.get_weights(), after["weights"])
    return same and int(numpy(opt.iterations)) == after["iterations"]
