"""The contract in this process: no strategy, one device, two mirrored replicas."""

import pytest
import tensorflow as tf

from tests.contract.cases import CASES, combinations
from tests.contract.setting import Setting
from tests.families import FAMILIES


def _parameters():
    for strategy in (None, "one_device", "mirrored2"):
        for name, family, style, mode in combinations(FAMILIES, strategy):
            yield pytest.param(
                name,
                family,
                style,
                mode,
                strategy,
                id=f"{name}-{family}-{style}-{mode}-{strategy}",
            )


@pytest.fixture(scope="session")
def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.mark.parametrize("name, family, style, mode, strategy", list(_parameters()))
def test_contract(name, family, style, mode, strategy, request):
    strategy = request.getfixturevalue(strategy) if strategy else None
    CASES[name](Setting(family, style, mode, strategy))
