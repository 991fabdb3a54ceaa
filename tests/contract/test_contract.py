"""The contract in this process: no strategy, one device, and two mirrored replicas."""

import numpy as np
import pytest
import tensorflow as tf

from tests import families
from tests.contract.cases import CASES, cases_for
from tests.contract.setting import Setting
from tests.families import FAMILIES, keras, needs_keras3

# When the cases of a row run: also with `tools/test --core`, with `tools/test`, or only with
# `tools/test --all`.
CORE, QUICK, SLOW = [pytest.mark.core], [], [pytest.mark.slow]

# Each row has a strategy, a mode, a family, a protocol, whether a case makes the optimizer's
# variables before its first step, and when the cases run. All cases that can run in such a
# setting run. Cases with only one protocol are in the rows of that protocol.
SETTINGS = [
    (None, "eager", "keras3", "legacy", False, CORE),
    (None, "eager", "keras3", "keras3", True, QUICK),
    (None, "eager", "legacy", "legacy", True, QUICK),
    (None, "eager", "legacy", "keras3", False, CORE),
    (None, "eager", "new", "legacy", False, CORE),
    (None, "eager", "new", "keras3", True, QUICK),
    (None, "function", "keras3", "legacy", True, QUICK),
    (None, "function", "keras3", "keras3", False, SLOW),
    (None, "function", "legacy", "legacy", True, SLOW),
    (None, "function", "new", "legacy", False, SLOW),
    (None, "function", "new", "keras3", True, SLOW),
    (None, "jit", "keras3", "legacy", True, QUICK),
    (None, "jit", "legacy", "legacy", False, SLOW),
    (None, "jit", "new", "keras3", True, SLOW),
    # One device sums nothing, so one family is enough.
    ("one_device", "eager", "legacy", "legacy", True, SLOW),
    ("one_device", "function", "new", "legacy", True, SLOW),
    ("mirrored2", "eager", "keras3", "legacy", False, QUICK),
    ("mirrored2", "eager", "keras3", "keras3", True, SLOW),
    ("mirrored2", "eager", "legacy", "legacy", True, QUICK),
    ("mirrored2", "eager", "legacy", "keras3", False, SLOW),
    ("mirrored2", "eager", "new", "legacy", True, SLOW),
    ("mirrored2", "eager", "new", "keras3", False, QUICK),
    ("mirrored2", "function", "keras3", "legacy", True, CORE),
    ("mirrored2", "function", "keras3", "keras3", False, SLOW),
    ("mirrored2", "function", "legacy", "legacy", True, CORE),
    ("mirrored2", "function", "legacy", "keras3", False, SLOW),
    ("mirrored2", "function", "new", "legacy", False, SLOW),
    ("mirrored2", "function", "new", "keras3", True, QUICK),
]

# The experimental class, whose work the stable class does. So each family has one row.
SETTINGS_OF_THE_EXPERIMENTAL_CLASS = [
    ("mirrored2", "function", "keras3", "legacy", True, SLOW),
    (None, "function", "legacy", "legacy", True, QUICK),
    ("mirrored2", "function", "new", "legacy", True, SLOW),
]


def parameters(settings):
    """Return the parameters of a test, with one case in each."""
    return [
        pytest.param(
            name,
            *(strategy, mode, family, style, built),
            id=f"{name}-{family}-{style}-{mode}-{strategy}",
            marks=marks,
        )
        for strategy, mode, family, style, built, marks in settings
        if family in FAMILIES
        for name in cases_for(strategy, mode, family, style)
    ]


@pytest.fixture(scope="session")
def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.mark.parametrize(
    "name, strategy, mode, family, style, built", parameters(SETTINGS)
)
def test_contract(name, strategy, mode, family, style, built, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy, built=built))


@pytest.mark.parametrize(
    "name, strategy, mode, family, style, built",
    parameters(SETTINGS_OF_THE_EXPERIMENTAL_CLASS),
)
def test_the_experimental_class(name, strategy, mode, family, style, built, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy, api="experimental", built=built))


@needs_keras3
def test_keras_3s_own_wrapper_fails_the_contract(mirrored2):
    """If this fails, Keras has mended the fault, and differences.md must say so."""
    setting = Setting("keras3", "keras3", "function", mirrored2, built=True)
    x = setting.variable(1.0)
    with mirrored2.scope():
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    setting.linear_step(optimizer, [x])([1.0, float("nan")])
    # NaN has reached the variable. Keras 3.0 and 3.1 do not sum gradients, so there only the
    # replica with NaN is lost.
    is_nan = np.isnan(families.copies(x)).tolist()
    assert is_nan == [families.bare_sums("keras3"), True]
