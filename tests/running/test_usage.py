"""Which old names a program used, and where."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras
from tf_lso import names
from tf_lso.running import usage as usage_lib


@pytest.fixture
def usage():
    """What a program in force with `install` uses."""
    seen = usage_lib.Usage()
    handle = tf_lso.install(usage=seen)
    yield seen
    handle.uninstall()


def used_by(usage, program):
    """The (name, line) pairs that running `program` adds."""
    before = set(usage.used())
    exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
    return [(u.name, u.line) for u in usage.used() if u not in before]


@pytest.mark.parametrize(
    ("program", "used"),
    [
        ("import tensorflow as tf\ntf.keras", []),
        (
            "from tensorflow.keras.mixed_precision import experimental as mp\n"
            "mp.Policy('float32')\n"
            "mp.Policy('float32'); mp.set_policy(None)\n",
            [
                ("tf.keras.mixed_precision.experimental", 1),
                ("tf.keras.mixed_precision.experimental.Policy", 2),
                ("tf.keras.mixed_precision.experimental.Policy", 3),
                ("tf.keras.mixed_precision.experimental.set_policy", 3),
            ],
        ),
        (
            "from tensorflow.keras.mixed_precision import LossScaleOptimizer\n",
            [("tf.keras.mixed_precision.LossScaleOptimizer", 1)],
        ),
        (
            "import tensorflow.keras.mixed_precision.experimental as mp\n"
            "from tensorflow.mixed_precision import experimental\n"
            "from keras.mixed_precision.experimental import loss_scale_optimizer\n"
            "from tensorflow.compat.v1.mixed_precision import experimental\n",
            [
                ("tf.keras.mixed_precision.experimental", 1),
                ("tf.mixed_precision.experimental", 2),
                ("tf.keras.mixed_precision.experimental.loss_scale_optimizer", 3),
                ("tf.compat.v1.mixed_precision.experimental", 4),
            ],
        ),
        (
            "import tensorflow as tf\n"
            "tf.train.experimental.FixedLossScale(8)\n"
            "tf.mixed_precision.experimental.DynamicLossScale()\n"
            "tf.compat.v1.mixed_precision.LossScale\n",
            [
                ("tf.train.experimental.FixedLossScale", 2),
                ("tf.mixed_precision.experimental.DynamicLossScale", 3),
                ("tf.compat.v1.mixed_precision.LossScale", 4),
            ],
        ),
        ("import keras\nkeras.mixed_precision.DTypePolicy('float32')\n", []),
    ],
)
def test_notes_the_names_of_a_program_with_their_lines(usage, program, used):
    assert used_by(usage, program) == used


def test_notes_nothing_of_the_frameworks_themselves(usage):
    before = usage.used()
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tf.ones((2, 2)), tf.ones((2, 1)), verbose=0)
    assert usage.used() == before


def test_the_report_names_each_old_name_its_places_and_todays_name():
    used = [
        usage_lib.Used("a.py", 3, "tf.keras.mixed_precision.experimental.set_policy"),
        usage_lib.Used("b.py", 7, "tf.keras.mixed_precision.experimental.set_policy"),
        usage_lib.Used("b.py", 9, "tf.train.experimental.LossScale"),
    ]
    text = usage_lib.report(used)
    assert "used 2 old names" in text
    for word in ("a.py:3", "b.py:7", "b.py:9", *(one.name for one in used)):
        assert word in text
    assert "tf.keras.config.set_dtype_policy" in text


def test_the_report_names_an_imported_module_and_what_has_it_today():
    one = usage_lib.Used("a.py", 1, "tf.keras.mixed_precision.experimental")
    text = usage_lib.report([one])
    assert "used 1 old name:" in text and "a.py:1" in text
    assert "today: no such module" in text


def test_the_report_says_so_when_there_is_nothing():
    assert "none of the old names" in usage_lib.report([])


@pytest.mark.parametrize("namespace", [*names.NAMESPACES, *names.PRIVATE])
def test_every_name_of_the_table_can_be_reported(namespace):
    for name in names.mirror_names(namespace):
        assert name in usage_lib.report(
            [usage_lib.Used("a.py", 1, f"tf.{namespace}.{name}")]
        )
