"""The contract in this process: no strategy, one device, two mirrored replicas."""

import pytest
import tensorflow as tf

from tests.contract.cases import CASES, combinations
from tests.contract.setting import Setting
from tests.families import FAMILIES
from tf_lso.scaling import finite


def _parameters():
    for strategy in (None, "one_device", "mirrored2"):
        # On one device nothing is summed, so half of the product does.
        pairs = list(combinations(FAMILIES, strategy, pairwise=True))
        everything = combinations(FAMILIES, strategy)
        for case in pairs if strategy == "one_device" else everything:
            name, family, style, mode = case
            yield pytest.param(
                *case,
                strategy,
                id=f"{name}-{family}-{style}-{mode}-{strategy}",
                marks=_core(strategy, mode) if case in pairs else (),
            )


def _core(strategy, mode):
    """The mark of what tools/test --core runs: no compiling, and no waiting for it."""
    wanted = {None: ("eager", "function"), "mirrored2": ("function",)}
    return pytest.mark.core if mode in wanted.get(strategy, ()) else ()


def _experimental():
    """The same class underneath: each case and family once shows that nothing is lost.

    Every other time on two replicas, and otherwise without a strategy.
    """
    cases = combinations(FAMILIES, "mirrored2", ["function"])
    cases = [(name, family) for name, family, style, _ in cases if style == "legacy"]
    for turn, (name, family) in enumerate(cases):
        # An odd number of families: each case meets both.
        strategy = (None, "mirrored2")[turn % 2]
        yield pytest.param(name, family, strategy, id=f"{name}-{family}-{strategy}")


def _of_many():
    """Steps that must be skipped, and those of slices, as large models take them."""
    for strategy in (None, "mirrored2"):
        for name, family, style, mode in combinations(FAMILIES, strategy):
            judged = "skip" in name or "sparse" in name
            if judged and style == "legacy" and mode != "eager":
                yield pytest.param(
                    name,
                    family,
                    mode,
                    strategy,
                    id=f"{name}-{family}-{mode}-{strategy}",
                )


@pytest.fixture(scope="session")
def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.mark.parametrize("name, family, style, mode, strategy", list(_parameters()))
def test_contract(name, family, style, mode, strategy, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy))


@pytest.mark.parametrize("name, family, strategy", list(_experimental()))
def test_the_experimental_class(name, family, strategy, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, "legacy", "function", strategy, "experimental"))


@pytest.mark.parametrize("name, family, mode, strategy", list(_of_many()))
def test_the_verdict_on_many_numbers(
    name, family, mode, strategy, request, monkeypatch
):
    """The cases have few numbers, of which a graph judges each at once."""
    monkeypatch.setattr(finite, "_FEW", 0)
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, "legacy", mode, strategy))
