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
import textwrap

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

# Each process takes some seconds. So only these programs, one of each kind, are not slow.
QUICK = (
    "wild_02_exp_set_policy_fit",
    "wild_05_graph_rewrite",
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
# Programs that call `int()` or `float()` of a variable.
CALL_INT_OR_FLOAT = (
    "absl_app --dtype fp16 --steps=3",
    "absl_app --dtype=fp16 --loss_scale=dynamic",
    "auto_mixed_precision",
    "config_roundtrip",
    "ctl_accumulation",
    "eager_and_steps",
    "embedding_sparse",
    "exp_custom_loop",
    "exp_custom_loop 1024",
    "exp_first_version",
    "exp_user_loss_scale",
    "fit_overflow",
    "gan_compile",
    "garden_configure_optimizer",
    "garden_configure_optimizer --dtype fp32",
    "garden_configure_optimizer --dtype rewrite",
    "garden_configure_optimizer --loss_scale 128",
    "horovod_like",
    "jit_step",
    "layer_policies",
    "many_callbacks",
    "minimize_tape",
    "one_device",
    "rewrite_compat_names",
    "save_load_keras",
    "scale_formats",
    "train_step_minimize",
    "two_groups",
    "wild_01_ctl_scaled_loss_clip",
    "wild_02_exp_set_policy_fit",
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
}
for _name in CALL_INT_OR_FLOAT:
    LIMITS[_name] = [*LIMITS.get(_name, ()), NO_INT]

# Matches the keys of numbers that must be equal: the state of loss scaling, and counts.
EXACT_KEYS = re.compile("scale|iterations|counter|steps|skip")

# The tolerances for other numbers, which processors round differently in float16. Sums whose
# terms nearly cancel need an absolute tolerance.
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 1e-3, 1e-4


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
    start = preloaded.run if after_tensorflow else processes.start
    done = start(command, cwd, **{"TF_USE_LEGACY_KERAS": "0", **variables})
    printed = None
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            printed = json.loads(line.removeprefix("RESULT "))
    return printed, done.returncode, done.stderr


def close(expected, got):
    """Return whether two numbers are equal within the tolerances and the program's rounding."""
    if not (math.isfinite(expected) and math.isfinite(got)):
        return expected == got
    # Programs round to at least three decimals, so allow one unit of the last decimal.
    exponents = [
        decimal.Decimal(repr(number)).as_tuple().exponent for number in (expected, got)
    ]
    rounding = 10.0 ** min(*exponents, -3)
    return math.isclose(
        expected, got, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE + rounding
    )


def differences(expected, got, path="", is_close=close):
    """Return a list of texts that say where two results differ.

    Args:
      expected, got: the results, as `json.loads` returns them.
      path: str, the keys that lead to these parts of the whole results, for the texts.
      is_close: function that compares two floats whose keys do not match `EXACT_KEYS`.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        keys = {**expected, **got}
        pairs = [(key, expected.get(key), got.get(key)) for key in keys]
    elif isinstance(expected, list) and isinstance(got, list):
        items = itertools.zip_longest(expected, got, fillvalue="-")
        pairs = [(index, left, right) for index, (left, right) in enumerate(items)]
    else:
        same = expected == got and type(expected) is type(got)
        if isinstance(expected, float) and isinstance(got, float):
            same = same or (not EXACT_KEYS.search(path) and is_close(expected, got))
        return [] if same else [f"{path}: {expected!r} != {got!r}"]
    found = []
    for key, left, right in pairs:
        found += differences(left, right, f"{path}/{key}", is_close)
    return found


def check(name, printed, code, errors):
    """Assert that a program printed and returned what `EXPECTED` says."""
    expected = EXPECTED[name]
    assert code == expected.get("exit", 0), errors[-4000:]
    assert printed is not None, errors[-4000:]
    wanted = {**expected["printed"], **expected.get("differs", {})}
    if "where the rewrite computes in float16" in expected and rewrite_uses_float16():
        wanted |= expected["where the rewrite computes in float16"]
    assert not differences(wanted, printed), printed


@functools.cache
def rewrite_uses_float16():
    """Return whether TensorFlow's graph rewrite computes in float16 on this processor.

    It does on CPUs with AVX512-FP16 and on GPUs. Then the product 8e6 overflows.
    """
    program = textwrap.dedent("""
        import json
        import tensorflow as tf
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
        product = tf.function(tf.matmul)(tf.fill([8, 8], 1e3), tf.fill([8, 8], 1e3))
        print("RESULT", json.dumps(bool(tf.reduce_all(tf.math.is_inf(product)))))
    """)
    printed, code, errors = run(["-c", program], None, after_tensorflow=True)
    assert code == 0, errors[-4000:]
    return printed


def marked_slow(names, quick, limits=None):
    """Return names as parameters of a test. Mark the names that are not in `quick` as slow.

    `limits` maps names to lists of further marks.
    """
    parameters = []
    for name in names:
        marks = [] if name in quick else [pytest.mark.slow]
        marks += (limits or {}).get(name, [])
        parameters.append(pytest.param(name, marks=marks))
    return parameters


def path_of(name):
    """Return the path of a program, and the list of its arguments."""
    program, *arguments = name.split()
    return str(PROGRAMS / f"{program}.py"), arguments


# Programs run faster in a process that has already imported TensorFlow. These programs run in
# processes that have not: under `tf-lso run`, and under `tf-lso run --like`.
BEFORE_TENSORFLOW = ("wild_01_ctl_scaled_loss_clip",)
BEFORE_TENSORFLOW_WITH_LIKE = (
    "minimize_tape",
    "decayed_lr",
    "rewrite_v1_optimizer",
    "inner_overrides_apply",
    "two_groups",
)


def run_on_the_keras_of_tensorflow(name, cwd):
    """Run a program under `tf-lso run`. Return the result of `run`."""
    path, arguments = path_of(name)
    command = ["-m", "tf_lso", "run", path, *arguments]
    return run(command, cwd, after_tensorflow=name not in BEFORE_TENSORFLOW)


def run_like_its_tensorflow(name, cwd):
    """Run a program under `tf-lso run --like`. Return the result of `run`."""
    path, arguments = path_of(name)
    major, minor, _ = EXPECTED[name]["tensorflow"].split(".")
    command = ["-m", "tf_lso", "run", "--like", f"{major}.{minor}", path, *arguments]
    after_tensorflow = name not in BEFORE_TENSORFLOW_WITH_LIKE
    # `--like` cannot change the Keras of a TensorFlow that is already imported.
    legacy_keras = "1" if after_tensorflow and HAS_KERAS3 else "0"
    return run(command, cwd, after_tensorflow, TF_USE_LEGACY_KERAS=legacy_keras)


# The programs that do not need `--like`.
WITHOUT_LIKE = [name for name, case in EXPECTED.items() if not case.get("like")]
# Maps each test of all programs to the function that runs a program for it.
RUN = {
    "test_on_the_keras_of_tensorflow": run_on_the_keras_of_tensorflow,
    "test_like_its_tensorflow": run_like_its_tensorflow,
}


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """Start the programs of all selected tests, as many at the same time as there are cores.

    Return a dict from (name of the test, program) to the future of `run`.
    """
    runs = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for item in request.session.items:
            if item.path == pathlib.Path(__file__) and item.originalname in RUN:
                name = item.callspec.params["name"]
                cwd = tmp_path_factory.mktemp("program")
                future = pool.submit(RUN[item.originalname], name, cwd)
                runs[item.originalname, name] = future
        yield runs
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", marked_slow(WITHOUT_LIKE, QUICK, LIMITS))
def test_on_the_keras_of_tensorflow(name, started):
    check(name, *started["test_on_the_keras_of_tensorflow", name].result())


@pytest.mark.skipif(HAS_KERAS3 and not HAS_TF_KERAS, reason="it needs Keras 2")
@pytest.mark.parametrize("name", marked_slow(EXPECTED, (), LIMITS_WITH_LIKE))
def test_like_its_tensorflow(name, started):
    check(name, *started["test_like_its_tensorflow", name].result())


INSTALL = "import tf_lso; tf_lso.install()\n"
# Programs that the next test runs by Python itself, with this line at the top.
WITH_ONE_LINE = (
    "wild_06_loss_scale_objects",
    "wild_02_exp_set_policy_fit",
    "exp_mirrored_fit",
    "import_forms",
    "python_keras_imports",
    "rewrite_compat_names",
    "save_load_h5",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first_line",
    ["", "import tensorflow as tf\n"],
    ids=["first", "after TensorFlow"],
)
@pytest.mark.parametrize("name", marked_slow(WITH_ONE_LINE, (), LIMITS))
def test_with_install_in_one_line_at_the_top(name, first_line, tmp_path):
    path, arguments = path_of(name)
    program = tmp_path / "program.py"
    program.write_text(first_line + INSTALL + pathlib.Path(path).read_text())
    command = [str(program), *arguments]
    check(name, *run(command, tmp_path, after_tensorflow=first_line != ""))


def test_every_program_is_run():
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    programs.remove("garden_performance")  # a module that other programs import
    assert programs == {name.split()[0] for name in EXPECTED}


@pytest.mark.parametrize(
    "names", [QUICK, LIMITS, BEFORE_TENSORFLOW, BEFORE_TENSORFLOW_WITH_LIKE]
)
def test_the_lists_of_programs_contain_only_programs(names):
    assert set(names) <= set(EXPECTED)


def test_the_recorded_rewrite_in_float16_skips_the_first_step():
    """Compute the program in NumPy. The scale 2**15 overflows float16, and 2**14 does not."""
    rows = np.random.RandomState(0).rand(16, 3).astype("float32")
    batches = [rows[:8], rows[8:]] * 2

    def loss_of_second_epoch(skipped_steps):
        kernel, bias, losses = np.ones(3, "float32"), np.float32(0), []
        for number, batch in enumerate(batches):
            outputs = batch @ kernel + bias
            losses.append(np.mean(outputs**2))
            if number >= skipped_steps:
                gradient = 2 * outputs / len(batch)  # of the loss by the outputs
                kernel = kernel - 0.05 * gradient @ batch
                bias = bias - 0.05 * gradient.sum()
        return float(np.mean(losses[2:]))

    def first_gradient_overflows(scale):
        gradient = 2 * (rows[:8] @ np.ones(3, "float32")) / 8
        products = (gradient * scale) @ rows[:8]
        return bool((np.abs(products) > np.finfo(np.float16).max).any())

    assert first_gradient_overflows(2.0**15)
    assert not first_gradient_overflows(2.0**14)
    expected = EXPECTED["wild_05_graph_rewrite"]
    assert close(expected["printed"]["loss"], loss_of_second_epoch(skipped_steps=0))
    in_float16 = expected["where the rewrite computes in float16"]
    assert close(in_float16["loss"], loss_of_second_epoch(skipped_steps=1))


class TestDifferences:
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
    def test_finds_a_difference(self, expected, got):
        assert differences(expected, got)

    def test_allows_the_rounding_of_float16(self):
        assert not differences({"loss": [1.0, {"w": 2}]}, {"loss": [1.0005, {"w": 2}]})
