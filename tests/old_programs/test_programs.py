"""Programs of 2020-2023 run unmodified, and print what they printed in their time.

`programs/expected.json` has what each program printed under the real TensorFlow for which it
was written. The programs called `wild_*` are in the style of public code. Each of the others
uses an idiom around loss scaling that is frequent in public code.
"""

import decimal
import functools
import itertools
import json
import math
import pathlib
import re
import textwrap

import pytest

from tests import preloaded, processes
from tests.generation import (
    HAS_KERAS3,
    HAS_TF_KERAS,
    LEGACY_KERAS,
    NO_CHECKPOINT,
    NO_INT,
    limit,
)

PROGRAMS = pathlib.Path(__file__).parent / "programs"

# Maps each program with its arguments to a dict with these keys:
# - "tensorflow": the version of TensorFlow that ran the program.
# - "printed": what the program printed then.
# - "like": true if the program needs the Keras of its time, and so needs `--like`.
# - "where the rewrite computes in float16": what is printed differently on a processor on which
#   TensorFlow's graph rewrite computes in float16.
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())

# Each process takes some seconds. So only these programs are not slow.
QUICK = ("wild_02_exp_set_policy_fit", "wild_05_graph_rewrite")

# Programs that some version of Keras itself cannot run without `--like`, migrated or not.
_NOT_DIVIDED = limit(
    "`fit` of this Keras does not divide the loss by the replicas", "3.0", "3.6"
)
LIMITS = {
    "wild_08_mirrored_strategy fit": [_NOT_DIVIDED],
    "checkpoint_manager": [NO_CHECKPOINT],
    "electra_cond": [NO_INT],
    "exp_user_loss_scale": [NO_INT],
    "fit_overflow": [NO_INT],
    "gan_compile": [NO_INT],
    "tts_positional": [NO_INT],
    "two_groups": [NO_INT],
    "wgan_gp": [NO_INT],
    "wild_01_ctl_scaled_loss_clip": [NO_INT],
    "wild_02_exp_set_policy_fit": [NO_INT],
}

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
    """Assert that a program printed what `EXPECTED` says."""
    expected = EXPECTED[name]
    assert code == 0, errors[-4000:]
    assert printed is not None, errors[-4000:]
    wanted = dict(expected["printed"])
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


# The programs that do not need `--like`.
WITHOUT_LIKE = [name for name, case in EXPECTED.items() if not case.get("like")]
# This program runs in a process in which `tf-lso run` comes before TensorFlow. The others run
# in processes that have already imported TensorFlow, which is faster.
BEFORE_TENSORFLOW = "wild_01_ctl_scaled_loss_clip"


@pytest.mark.parametrize("name", marked_slow(WITHOUT_LIKE, QUICK, LIMITS))
def test_on_the_keras_of_tensorflow(name, tmp_path):
    path, arguments = path_of(name)
    command = ["-m", "tf_lso", "run", path, *arguments]
    check(name, *run(command, tmp_path, after_tensorflow=name != BEFORE_TENSORFLOW))


@pytest.mark.slow
@pytest.mark.skipif(HAS_KERAS3 and not HAS_TF_KERAS, reason="it needs Keras 2")
@pytest.mark.parametrize("name", EXPECTED)
def test_like_its_tensorflow(name, tmp_path):
    path, arguments = path_of(name)
    major, minor, _ = EXPECTED[name]["tensorflow"].split(".")
    command = ["-m", "tf_lso", "run", "--like", f"{major}.{minor}", path, *arguments]
    if name == BEFORE_TENSORFLOW:
        result = run(command, tmp_path)  # `--like` itself chooses the Keras
    else:
        keras2 = LEGACY_KERAS if HAS_KERAS3 else "0"
        result = run(
            command, tmp_path, after_tensorflow=True, TF_USE_LEGACY_KERAS=keras2
        )
    check(name, *result)


@pytest.mark.slow
@pytest.mark.parametrize("first_line", ["", "import tensorflow as tf\n"])
def test_with_install_in_one_line_at_the_top(first_line, tmp_path):
    text = (PROGRAMS / "import_forms.py").read_text(encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(f"{first_line}import tf_lso; tf_lso.install()\n{text}")
    check("import_forms", *run([program], tmp_path, after_tensorflow=first_line != ""))
