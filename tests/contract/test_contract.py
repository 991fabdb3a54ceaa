"""The contract in this process: no strategy, one device, two mirrored replicas."""

import pytest
import tensorflow as tf

from tests.contract.cases import CASES, combinations
from tests.contract.setting import Setting
from tests.families import FAMILIES
from tf_lso.scaling import finite

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
        alone = strategy == "one_device"
        core = () if alone else _core(strategy)
        choice = "families" if alone else "styles"
        for case in combinations(FAMILIES, strategy, choice=choice):
            name, family, style, mode = case
            yield pytest.param(
                *case,
                strategy,
                id=f"{name}-{family}-{style}-{mode}-{strategy}",
                marks=[pytest.mark.core] if case in core else [],
            )


def _core(strategy):
    """What tools/test --core runs: each case eagerly and in a tf.function.

    The latter with one family a case without a strategy, and with the others on two
    replicas.
    """
    alone = list(combinations(FAMILIES, None, ["function"], "families"))
    if strategy is None:
        return [*combinations(FAMILIES, None, ["eager"], "styles"), *alone]
    taken = {(name, family) for name, family, _, _ in alone}
    replicated = combinations(FAMILIES, strategy, ["function"], "styles")
    return [case for case in replicated if case[:2] not in taken]


def _experimental():
    """The same class underneath: each case once shows that nothing is lost.

    The families take turns, and so do no strategy and two replicas.
    """
    chosen = {
        name: family
        for name, family, style, _ in combinations(
            FAMILIES, "mirrored2", ["function"], "families"
        )
    }
    for number, (name, family) in enumerate(chosen.items()):
        strategy = (None, "mirrored2")[number // len(FAMILIES) % 2]
        yield pytest.param(name, family, strategy, id=f"{name}-{family}-{strategy}")


def _of_many():
    """Steps that must be skipped, and those of slices, as large models take them.

    Each case in each mode and strategy, with another family in each.
    """
    settings = [("function", None), ("function", "mirrored2"), ("jit", None)]
    names = [name for name in CASES if "skip" in name or "sparse" in name]
    for number, name in enumerate(names):
        for turn, (mode, strategy) in enumerate(settings, number):
            if mode in CASES[name].modes:
                family = list(FAMILIES)[turn % len(FAMILIES)]
                label = f"{name}-{family}-{mode}-{strategy}"
                yield pytest.param(name, family, mode, strategy, id=label)


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


@pytest.mark.parametrize("name, family, mode, strategy", list(_of_many()))
def test_the_verdict_on_many_numbers(
    name, family, mode, strategy, request, monkeypatch
):
    """The cases have few numbers, of which a graph judges each at once."""
    monkeypatch.setattr(finite, "_FEW", 0)
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, "legacy", mode, strategy, built=True))
