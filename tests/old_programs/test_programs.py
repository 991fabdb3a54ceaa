"""Programs of 2020-2023 run unmodified, and print what they printed in their time.

`programs/expected.json` has what each program printed under the real TensorFlow for which it
was written. The programs called `wild_*` are in the style of public code. Each of the others
uses an idiom around loss scaling that is frequent in public code.
"""

import concurrent.futures
import decimal
import functools
import itertools
import json
import math
import os
import pathlib
import re

import numpy as np
import pytest

from tests import preloaded, processes
from tests.generation import (
    HAS_KERAS3,
    HAS_TF_KERAS,
    NO_CHECKPOINT,
    NO_INT,
    NO_WRAPPED_H5,
    limit,
)

PROGRAMS = pathlib.Path(__file__).parent / "programs"

# Maps each program with its arguments to a dict with these keys:
# - "tensorflow": the version of TensorFlow that ran the program.
# - "printed": what the program printed then.
# - "exit": the exit code of the program, if it is not 0.
# - "like": true if the program needs the Keras of its time, and so needs `--like`.
# - "differs": what tf_lso prints differently on purpose, as differences.md explains.
# - "where the rewrite computes in float16": what is printed differently on a processor on which
#   TensorFlow's graph rewrite computes in float16.
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())

# Each process takes some seconds. So only one program of each kind is not slow.
QUICK = (
    "wild_01_ctl_scaled_loss_clip",
    "wild_02_exp_set_policy_fit",
    "wild_05_graph_rewrite",
    "wild_08_mirrored_strategy fit",
    "exp_user_loss_scale",
    "cli_main --fp16 --factor 1e30",
)

# Programs that some version of Keras itself cannot run, not even with `--like`.
LIMITS_WITH_LIKE = {
    "config_roundtrip": [
        limit(
            "this Keras writes the class of a newer optimizer as `Custom>Adam`", "2.12"
        )
    ],
    "standalone_keras": [
        limit(
            "the package `keras` of this version has wrappers of legacy optimizers alone",
            "2.12",
        ),
        NO_INT,  # `keras` itself stays Keras 3
    ],
}
_NOT_DIVIDED = limit(
    "`fit` of this Keras does not divide the loss by the replicas", "3.0", "3.6"
)
_CALL_INT_OR_FLOAT = (
    *("wild_01_ctl_scaled_loss_clip", "wild_02_exp_set_policy_fit", "minimize_tape"),
    *("exp_user_loss_scale", "ctl_accumulation", "train_step_minimize", "fit_overflow"),
    *("save_load_keras", "config_roundtrip", "garden_configure_optimizer"),
    *("garden_configure_optimizer --dtype fp32", "one_device", "horovod_like"),
    *("garden_configure_optimizer --loss_scale 128", "gan_compile", "two_groups"),
    *("garden_configure_optimizer --dtype rewrite", "exp_first_version"),
    *("absl_app --dtype=fp16 --loss_scale=dynamic", "embedding_sparse"),
    *("exp_custom_loop", "exp_custom_loop 1024", "rewrite_compat_names", "jit_step"),
    *("absl_app --dtype fp16 --steps=3", "layer_policies", "eager_and_steps"),
    *("scale_formats", "many_callbacks", "auto_mixed_precision"),
)
# Programs that some version of Keras itself cannot run without `--like`, migrated or not.
LIMITS = {
    **LIMITS_WITH_LIKE,
    "wild_08_mirrored_strategy fit": [_NOT_DIVIDED],
    "exp_mirrored_fit": [_NOT_DIVIDED],
    "checkpoint_manager": [NO_CHECKPOINT],
    "mirrored_accumulate": [NO_CHECKPOINT],
    "save_load_h5": [NO_WRAPPED_H5],
    "exp_load_custom_objects": [NO_WRAPPED_H5],
    **{n: [*LIMITS_WITH_LIKE.get(n, ()), NO_INT] for n in _CALL_INT_OR_FLOAT},
}

# Matches the keys of numbers that must be equal: the state of loss scaling, and counts.
EXACT = re.compile("scale|iterations|counter|steps|skip")

# The tolerances for other numbers, which processors round differently in float16. Sums whose
# terms nearly cancel need an absolute tolerance.
RELATIVE, ABSOLUTE = 1e-3, 1e-4

INSTALL = "import tf_lso; tf_lso.install()\n"


def run(command, cwd, after_tensorflow=False, **variables):
    """Run Python. Return what it printed as its result, its exit code and its error output.

    The result is the JSON object after the last "RESULT ", or None.

    Args:
      command: list of str, the arguments of Python.
      cwd: the folder in which Python runs.
      after_tensorflow: bool, whether to run in a process that has already imported TensorFlow,
        which is faster.
      **variables: environment variables. TF_USE_LEGACY_KERAS defaults to "0".
    """
    by = preloaded.run if after_tensorflow else processes.start
    done = by(command, cwd, **{"TF_USE_LEGACY_KERAS": "0", **variables})
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    printed = json.loads(lines[-1].removeprefix("RESULT ")) if lines else None
    return printed, done.returncode, done.stderr


def close(expected, got):
    """Return whether two numbers are equal within the tolerances and the program's rounding."""
    if not (math.isfinite(expected) and math.isfinite(got)):
        return expected == got
    exponents = [decimal.Decimal(repr(x)).as_tuple().exponent for x in (expected, got)]
    # Programs round to at least three decimals, so allow one unit of the last decimal.
    rounding = 10.0 ** min(*exponents, -3)
    return math.isclose(expected, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE + rounding)


def differences(expected, got, path="", is_close=close):
    """Return a list of texts that say where two results differ."""
    if isinstance(expected, dict) and isinstance(got, dict):
        pairs = {key: (expected.get(key), got.get(key)) for key in {**expected, **got}}
    elif isinstance(expected, list) and isinstance(got, list):
        pairs = dict(enumerate(itertools.zip_longest(expected, got, fillvalue="-")))
    else:
        same = expected == got and type(expected) is type(got)
        if isinstance(expected, float) and isinstance(got, float):
            same = same or (not EXACT.search(path) and is_close(expected, got))
        return [] if same else [f"{path}: {expected!r} != {got!r}"]
    return [
        difference
        for key, (left, right) in pairs.items()
        for difference in differences(left, right, f"{path}/{key}", is_close)
    ]


def check(name, printed, code, errors):
    """Assert that a program printed and returned what `EXPECTED` says."""
    expected = EXPECTED[name]
    assert code == expected.get("exit", 0), errors[-4000:]
    assert printed is not None, errors[-4000:]
    wanted = {**expected["printed"], **expected.get("differs", {})}
    if "where the rewrite computes in float16" in expected and rewrite_uses_float16():
        wanted |= expected["where the rewrite computes in float16"]
    assert not differences(wanted, printed), printed


_PROBE = """
import json
import tensorflow as tf
tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
product = tf.function(tf.matmul)(tf.fill([8, 8], 1e3), tf.fill([8, 8], 1e3))
print("RESULT", json.dumps(bool(tf.reduce_all(tf.math.is_inf(product)))))
"""


@functools.cache
def rewrite_uses_float16():
    """Return whether TensorFlow's graph rewrite computes in float16 on this processor.

    It does on CPUs with AVX512-FP16 and on GPUs. Then the product 8e6 overflows.
    """
    printed, code, errors = run(["-c", _PROBE], None, after_tensorflow=True)
    assert code == 0, errors[-4000:]
    return printed


def marked_slow(names, quick, limits=None):
    """Return names as parameters of a test. Mark the names that are not in `quick` as slow.

    `limits` maps names to lists of further marks.
    """
    marks = {name: [] if name in quick else [pytest.mark.slow] for name in names}
    for name in marks.keys() & (limits or {}):
        marks[name] += limits[name]
    return [pytest.param(name, marks=marks[name]) for name in names]


def path_of(name):
    """Return the path of a program, and the list of its arguments."""
    program, *arguments = name.split()
    return str(PROGRAMS / f"{program}.py"), arguments


def by_run(name):
    """Return how to run a program with the Keras of TensorFlow.

    Returns:
      The options of `tf-lso run`, the argument `after_tensorflow` of `run`, and a dict of
      environment variables. Programs run faster after TensorFlow, so only one does not.
    """
    return [], name != QUICK[0], {"TF_USE_LEGACY_KERAS": "0"}


def by_like(name):
    """Return how to run a program with `--like`, as `by_run` does.

    One program in 16 runs in a process that has not imported TensorFlow.
    """
    major, minor, _ = EXPECTED[name]["tensorflow"].split(".")
    options = ["--like", f"{major}.{minor}"]
    is_first = list(EXPECTED).index(name) % 16 != 8
    is_tf_keras = is_first and HAS_KERAS3
    return options, is_first, {"TF_USE_LEGACY_KERAS": str(int(is_tf_keras))}


ALONE = [name for name, case in EXPECTED.items() if not case.get("like")]
WAYS = {"test_on_the_keras_of_tensorflow": by_run, "test_like_its_tensorflow": by_like}


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """Start the programs of all selected tests, as many at the same time as there are cores.

    Return a dict from (name of the test, program) to the future of `run`.
    """
    runs = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for item in request.session.items:
            way = WAYS.get(getattr(item, "originalname", None))
            if way is None or item.path != pathlib.Path(__file__):
                continue
            name = item.callspec.params["name"]
            path, arguments = path_of(name)
            options, after_tensorflow, variables = way(name)
            runs[item.originalname, name] = pool.submit(
                run,
                ["-m", "tf_lso", "run", *options, path, *arguments],
                tmp_path_factory.mktemp("program"),
                after_tensorflow,
                **variables,
            )
        yield runs
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", marked_slow(ALONE, QUICK, LIMITS))
def test_on_the_keras_of_tensorflow(name, started):
    check(name, *started["test_on_the_keras_of_tensorflow", name].result())


@pytest.mark.skipif(HAS_KERAS3 and not HAS_TF_KERAS, reason="it needs Keras 2")
@pytest.mark.parametrize("name", marked_slow(EXPECTED, (), LIMITS_WITH_LIKE))
def test_like_its_tensorflow(name, started):
    check(name, *started["test_like_its_tensorflow", name].result())


WITH_ONE_LINE = (
    "wild_06_loss_scale_objects",
    "wild_02_exp_set_policy_fit",
    "exp_mirrored_fit",
    "import_forms",
    "python_keras_imports",
    "rewrite_compat_names",
    "save_load_h5",
)


@pytest.mark.parametrize(
    "after",
    ["", pytest.param("import tensorflow as tf\n", marks=pytest.mark.slow)],
    ids=["first", "after TensorFlow"],
)
@pytest.mark.parametrize("name", marked_slow(WITH_ONE_LINE, WITH_ONE_LINE[:1], LIMITS))
def test_with_one_line_at_the_top(name, after, tmp_path):
    path, arguments = path_of(name)
    program = tmp_path / "program.py"
    program.write_text(f"{after}{INSTALL}{pathlib.Path(path).read_text()}")
    check(name, *run([str(program), *arguments], tmp_path, bool(after)))


def test_every_program_is_run():
    run_ = {name.split()[0] for name in EXPECTED}
    there = {path.stem for path in PROGRAMS.glob("*.py")}
    assert there - run_ == {"garden_performance"}  # a module that programs import
    assert set(QUICK) <= set(EXPECTED)


def test_the_rewrite_in_float16_skips_the_first_step():
    """Compute the program in NumPy. The scale 2**15 overflows float16, and 2**14 does not."""
    rows = np.random.RandomState(0).rand(16, 3).astype("float32")
    batches = [rows[:8], rows[8:]] * 2

    def last_loss(skipped):
        kernel, bias, losses = np.ones(3, "float32"), np.float32(0), []
        for number, batch in enumerate(batches):
            outputs = batch @ kernel + bias
            losses.append(np.mean(outputs**2))
            if number >= skipped:
                slopes = 2 * outputs / len(batch)
                kernel = kernel - 0.05 * slopes @ batch
                bias = bias - 0.05 * slopes.sum()
        return float(np.mean(losses[2:]))

    def overflows(scale):
        slopes = 2 * (rows[:8] @ np.ones(3, "float32")) / 8
        products = (slopes * scale) @ rows[:8]
        return bool((np.abs(products) > np.finfo(np.float16).max).any())

    assert (overflows(2.0**15), overflows(2.0**14)) == (True, False)
    expected = EXPECTED["wild_05_graph_rewrite"]
    assert close(expected["printed"]["loss"], last_loss(0))
    in_float16 = expected["where the rewrite computes in float16"]
    assert close(in_float16["loss"], last_loss(1))


class TestTheComparison:
    @pytest.mark.parametrize(
        ("expected", "got"),
        [
            ({"scale": 128.0}, {"scale": 128.01}),
            ({"loss": 1.0}, {"loss": 1.01}),
            ({"iterations": 4}, {"iterations": 5}),
            ({"iterations": 4}, {"iterations": 4.0}),
            ({"loss": [1.0]}, {"loss": [1.0, 2.0]}),
            ({"type": "a"}, {"type": "b"}),
            ({"a": 1}, {"a": 1, "b": 2}),
            ({"a": True}, {"a": 1}),
            ({"loss": 1.0}, None),
        ],
    )
    def test_sees(self, expected, got):
        assert differences(expected, got)

    def test_allows_the_noise_of_float16(self):
        assert not differences({"loss": [1.0, {"w": 2}]}, {"loss": [1.0005, {"w": 2}]})
