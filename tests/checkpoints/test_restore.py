"""`restore` restores files of old TensorFlow versions, and training continues as it did there.

Each recorded program saved a file after five steps, and then took five more steps. The tests
restore the file, compare the state, take five steps, and compare with the recorded state.
"""

import functools
import math
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import GENERATIONS, KERASES, needs_keras3, numpy
from tf_lso import checkpoints

ALL_CASES = [
    (version, case)
    for version in artifacts.VERSIONS
    if "models" not in version
    for case in artifacts.cases(version)
]


# All cases of the oldest, the newest and one version in the middle are restored into each
# Keras. Of the other versions, one case is.
OLDEST, MIDDLE, NEWEST = "TF2.1.4", "TF2.4.4", "TF2.15.1"
CASES = [
    (version, case)
    for version, case in ALL_CASES
    if version in (OLDEST, MIDDLE, NEWEST) or case.endswith("-Adam-dynamic")
]


def _cases_and_targets():
    """Yield a parameter (version, case, target Keras, whether steps are traced) for each test.

    The quick run restores the cases with a loss scale into the Keras of `tf.keras`, and a tenth
    of all cases into each Keras. Tracing takes longer than the rest of a test, so only the
    cases of Adam of two versions trace their steps.
    """
    for number, (version, case) in enumerate(CASES):
        for target in GENERATIONS:
            if "-Lion" in case and not hasattr(KERASES[target].optimizers, "Lion"):
                continue  # Keras 2.12 has no Lion
            if target == "keras3" and "-new-SGD_plain" in case:
                continue  # refused without `partial`, as test_whole.py tests
            has_scale = not case.startswith("bare")
            is_quick = (has_scale and target == GENERATIONS[0]) or number % 10 == 0
            yield pytest.param(
                version,
                case,
                target,
                case.endswith("-Adam-dynamic") and version in (MIDDLE, NEWEST),
                id=f"{target}-{version}-{case}",
                marks=[] if is_quick else pytest.mark.slow,
            )


@functools.cache
def _network(target):
    """Return the model and its traced loss function. Tests share them to save time."""
    model = artifacts.network(KERASES[target])
    return model, tf.function(artifacts.loss_of(model))


def new_model_and_optimizer(version, case, target):
    """Return the model, with weights that no file contains, and a new optimizer of a case."""
    recorded = artifacts.cases(version)[case]
    model, _ = _network(target)
    model.set_weights([np.full_like(weight, 9.0) for weight in model.get_weights()])
    return model, artifacts.make_optimizer(recorded, target)


def take_last_steps(version, case, target, model, opt, *, is_traced=False):
    _, loss_fn = _network(target)
    artifacts.go_on(version, case, model, opt, is_traced, loss_fn)


def restored(version, case, target, name="ckpt-1"):
    """Restore a file, and return the model, the optimizer and the report."""
    model, opt = new_model_and_optimizer(version, case, target)
    path = artifacts.path_of(version, case, name)
    return model, opt, checkpoints.restore(path, model=model, optimizer=opt)


# These old optimizers computed their steps in another way. compat_docs/reference/files.md has
# the reasons under "Where the next steps differ". Rows of (a regular expression for the
# "version/case", the Kerases that differ, the largest difference from the recorded weights
# after five more steps, how much larger `iterations` is than in the record).
DIFFERENCES = [
    # Skipped steps of TensorFlow 2.0 to 2.2.
    (r"TF2\.1\.4/experimental.*dynamic", GENERATIONS, 0.1, 1),
    # Nadam of OptimizerV2.
    ("v2-Nadam", ["keras3"], 2e-2, 0),
    # The newer Nadam after a skipped step.
    ("new-Nadam-dynamic", ["keras3"], 1e-4, 0),
    # The newer Nadam of tf_keras.
    ("(new|keras3)-Nadam", ["keras2"], 2e-3, 0),
    # Clipping before TensorFlow 2.4.
    (r"TF2\.[13]\.\d/bare-v2-.*clip", GENERATIONS, 0.3, 0),
    # Ftrl with shrinkage, of TensorFlow 2.4.
    (r"TF2\.4\.4/.*Ftrl_l1l2", GENERATIONS, 0.3, 0),
    # The newer RMSprop of TensorFlow 2.9 and 2.10.
    (r"TF2\.(9|10)\.\d/.*new-RMSprop_", GENERATIONS, math.inf, 0),
]

# Of the recorded files of Keras 2, only these contain the loss scale.
HAVE_SCALE = ("ckpt-1", "savedmodel", "weights_tf")


def check_training_continues(version, case, target, name="ckpt-1", *, is_traced=False):
    """Restore a file, compare with `after5`, take five steps, and compare with `after10`."""
    model, opt, report = restored(version, case, target, name)
    assert report.complete
    expected, has_scale = artifacts.expected(version, case, name), name in HAVE_SCALE
    artifacts.assert_holds(model, opt, expected["after5"], has_scale)
    take_last_steps(version, case, target, model, opt, is_traced=is_traced)
    after = expected["after10"]
    differences = [
        (bound, additional)
        for pattern, targets, bound, additional in DIFFERENCES
        if target in targets and re.search(pattern, f"{version}/{case}")
    ]
    additional = sum(row[1] for row in differences)
    assert int(numpy(opt.iterations)) == after["iterations"] + additional
    bound = sum(row[0] for row in differences)
    if math.isinf(bound):
        return
    assert artifacts.close(model.get_weights(), after["weights"], atol=max(bound, 1e-6))
    if has_scale and isinstance(opt, tf_lso.LossScaleOptimizer):
        assert artifacts.scale_of(opt) == (after["loss_scale"], after["counter"])


@pytest.mark.parametrize(
    ("version", "case", "target", "is_traced"), list(_cases_and_targets())
)
def test_training_continues_from_a_checkpoint(version, case, target, is_traced):
    check_training_continues(version, case, target, is_traced=is_traced)


def _cases_with_file(name):
    """Return (version, case) for all programs that also saved a file of this name."""
    part = "weights_tf.index" if name == "weights_tf" else name
    return [
        (version, case)
        for version, case in CASES
        if "compiled" in artifacts.cases(version)[case]
        and artifacts.path_of(version, case, part).exists()
    ]


def lacks_optimizer(version, case, name):
    """Return whether this version silently left the optimizer out of such a file."""
    is_new, is_stable = "-new-" in case, case.startswith("stable")
    if name == "model.h5" and is_new:
        return version in ("TF2.9.3", "TF2.10.1") or (
            version == "TF2.11.1" and is_stable
        )
    return name == "model.keras" and not is_new


@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize(
    "name", ["model.h5", "model.keras", "savedmodel", "weights_tf"]
)
def test_training_continues_from_other_files(target, name):
    """If a version left the optimizer out of the file, the error must name what is missing."""
    count = 0
    for version, case in _cases_with_file(name):
        if lacks_optimizer(version, case, name):
            match = "optimizer/iterations"
            with pytest.raises(checkpoints.CheckpointError, match=match):
                restored(version, case, target, name)
        else:
            check_training_continues(version, case, target, name)
            count += 1
    assert count >= 2


@needs_keras3
def test_a_bare_optimizer_restores_a_checkpoint_with_a_loss_scale():
    version, case = "TF2.4.4", "stable-v2-Adam-dynamic"
    model, wrapped = new_model_and_optimizer(version, case, "keras3")
    inner = wrapped.inner_optimizer
    opt = type(inner).from_config(inner.get_config())
    path = artifacts.path_of(version, case)
    report = checkpoints.restore(path, model=model, optimizer=opt)
    assert report.complete
    assert [key for key in report.unused if "loss_scale" in key]
    assert int(numpy(opt.iterations)) == 5


@needs_keras3
def test_a_checkpoint_without_a_loss_scale_does_not_change_the_loss_scale():
    version, case = "TF2.4.4", "bare-v2-Adam"
    model, inner = new_model_and_optimizer(version, case, "keras3")
    opt = tf_lso.LossScaleOptimizer(inner, initial_scale=64.0)
    path = artifacts.path_of(version, case)
    report = checkpoints.restore(path, model=model, optimizer=opt)
    assert float(opt.loss_scale) == 64.0
    kept = [name for name, _ in report.kept]
    assert kept == ["optimizer/loss_scale", "optimizer/dynamic_counter"]
