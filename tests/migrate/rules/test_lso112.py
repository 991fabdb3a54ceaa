"""LSO112: the private state of a loss scale."""

import pytest

from tests.migrate.programs import assert_left_alone

LEFT_ALONE = [
    pytest.param(
        "import tensorflow as tf\nopt._loss_scale = 3\n", [], id="a private attribute"
    ),
    pytest.param(
        "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as l\n"
        "State = l._DynamicLossScaleState\n"
        "class Revised(State):\n"
        "    pass\n"
        "opt._loss_scale = Revised()\n",
        ["2:11 LSO112 unsure"],
        id="the private state of a loss scale (as in NeurST)",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)
