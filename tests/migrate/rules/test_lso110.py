"""LSO110: an optimizer class by the protocol of TensorFlow 2.0-2.10."""

import pytest

from tests.migrate.programs import assert_left_alone

LEFT_ALONE = [
    pytest.param(
        "import tensorflow as tf\n"
        "class A(tf.keras.optimizers.Optimizer):\n"
        "    def __init__(self, lr):\n"
        '        self._set_hyper("learning_rate", lr)\n'
        "    def step(self):\n"
        '        return self._get_hyper("learning_rate")\n'
        "class B(A):\n"
        "    def _create_slots(self, v):\n"
        "        super()._create_slots(v)\n"
        "class C:\n"
        "    def step(self):\n"
        '        return self._get_hyper("learning_rate")\n',
        [
            "4:14 LSO110 unsure",
            "6:21 LSO110 unsure",
            "8:9 LSO110 unsure",
            "12:21 LSO110 unsure",
        ],
        id="what the old protocol called",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)
