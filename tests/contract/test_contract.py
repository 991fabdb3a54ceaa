"""The contract in this process: no strategy, one device, and two mirrored replicas."""

import pytest
import tensorflow as tf

from tests.contract.cases import CASES, combinations, family_in_turn
from tests.contract.setting import Setting
from tests.families import FAMILIES

# When a case runs, as lists of pytest marks.
CORE, QUICK, SLOW = [pytest.mark.core], [], [pytest.mark.slow]
NEVER = None

# Which runs of the tests include a case. Each row has a strategy, a mode, the marks of
# `family_in_turn`, and the marks of the other families. So `tools/test --core` runs each case
# with each family both eagerly and in a `tf.function`. In a `tf.function`, one family has no
# strategy, and the other families have two replicas.
RUNS = [
    (None, "eager", CORE, CORE),
    (None, "function", CORE, SLOW),
    (None, "jit", QUICK, SLOW),
    (
        "one_device",
        "eager",
        SLOW,
        NEVER,
    ),  # one device sums nothing: one family is enough
    ("one_device", "function", QUICK, NEVER),
    ("mirrored2", "eager", QUICK, SLOW),
    ("mirrored2", "function", SLOW, CORE),
]


def _parameters():
    for strategy, mode, marks_in_turn, marks_of_others in RUNS:
        for name, family, style, _ in combinations(strategy, [mode], choice="styles"):
            is_in_turn = family == family_in_turn(name, mode)
            marks = marks_in_turn if is_in_turn else marks_of_others
            if marks is not NEVER:
                yield pytest.param(
                    name,
                    family,
                    style,
                    mode,
                    strategy,
                    id=f"{name}-{family}-{style}-{mode}-{strategy}",
                    marks=marks,
                )


def _parameters_of_the_experimental_class():
    """Yield each case once. The families take turns, and so do the strategies.

    The stable class does the work of the experimental class, so once is enough.
    """
    chosen = combinations("mirrored2", ["function"], choice="families")
    for number, (name, family, *_) in enumerate(chosen):
        # The strategy changes after each round of families.
        has_strategy = number // len(FAMILIES) % 2 == 1
        strategy = "mirrored2" if has_strategy else None
        yield pytest.param(name, family, strategy, id=f"{name}-{family}-{strategy}")


@pytest.fixture(scope="session")
def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.mark.parametrize("name, family, style, mode, strategy", list(_parameters()))
def test_contract(name, family, style, mode, strategy, request):
    # The optimizer of one family makes its variables in its first step.
    is_in_turn = family == family_in_turn(name, mode)
    built = strategy == "one_device" or not is_in_turn
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy, built=built))


@pytest.mark.parametrize(
    "name, family, strategy", list(_parameters_of_the_experimental_class())
)
def test_the_experimental_class(name, family, strategy, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    setting = Setting(
        family, "legacy", "function", strategy, api="experimental", built=True
    )
    CASES[name](setting)
