"""The contract in this process: no strategy, one device, two mirrored replicas."""

import pytest
import tensorflow as tf

from tests.contract.cases import CASES, combinations
from tests.contract.setting import Setting
from tests.families import FAMILIES

STRATEGIES = (None, "one_device", "mirrored2")


# Where a function makes the optimizer's variables in its first call: see `Setting.built`.
LAZY = {
    (name, family, mode)
    for name, family, _, mode in combinations(FAMILIES, None, choice="families")
}


def _parameters():
    """Each case with each family in each mode, alone and on two replicas.

    A family takes the one protocol alone and the other on replicas. On one device, where
    nothing is summed, the families take turns too.
    """
    for strategy in STRATEGIES:
        choice = "families" if strategy == "one_device" else "styles"
        core, quick = _core(strategy), _quick(strategy)
        for case in combinations(FAMILIES, strategy, choice=choice):
            name, family, style, mode = case
            marks = [] if case in quick else [pytest.mark.slow]
            yield pytest.param(
                *case,
                strategy,
                id=f"{name}-{family}-{style}-{mode}-{strategy}",
                marks=[pytest.mark.core] if case in core else marks,
            )


def _core(strategy):
    """What tools/test --core runs: each case eagerly and in a tf.function.

    The latter with one family a case without a strategy, and with the others on two
    replicas.
    """
    alone = list(combinations(FAMILIES, None, ["function"], "families"))
    if strategy is None:
        return [*combinations(FAMILIES, None, ["eager"], "styles"), *alone]
    if strategy == "one_device":
        return []
    taken = {(name, family) for name, family, _, _ in alone}
    replicated = combinations(FAMILIES, strategy, ["function"], "styles")
    return [case for case in replicated if case[:2] not in taken]


def _quick(strategy):
    """What tools/test runs beyond the core: each case with one family, in other modes."""
    modes = {None: ["jit"], "one_device": ["function"], "mirrored2": ["eager"]}
    return list(combinations(FAMILIES, strategy, modes[strategy], "families"))


def _experimental():
    """The same class underneath: each case once shows that nothing is lost.

    The families take turns, and so do no strategy and two replicas.
    """
    chosen = combinations(FAMILIES, "mirrored2", ["function"], "families")
    for number, (name, family, *_) in enumerate(chosen):
        strategy = (None, "mirrored2")[number // len(FAMILIES) % 2]
        yield pytest.param(name, family, strategy, id=f"{name}-{family}-{strategy}")


@pytest.fixture(scope="session")
def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.mark.parametrize("name, family, style, mode, strategy", list(_parameters()))
def test_contract(name, family, style, mode, strategy, request):
    built = strategy == "one_device" or (name, family, mode) not in LAZY
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy, built=built))


@pytest.mark.parametrize("name, family, strategy", list(_experimental()))
def test_the_experimental_class(name, family, strategy, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    api = "experimental"
    CASES[name](Setting(family, "legacy", "function", strategy, api, built=True))
