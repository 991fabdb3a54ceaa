"""Old names inside a guard, such as `try` with `except ImportError`, or a test of a version."""

import pytest

from tests.migrate.programs import (
    assert_left_alone,
    assert_rewritten,
    migrated,
    reported_problems,
)

INSTALL = "import tf_lso.installed  # noqa: F401\n"

LEFT_ALONE = [
    pytest.param(
        "import tf_lso\n"
        "tf_lso.install()\n"
        "import tensorflow as tf\n"
        'if not hasattr(tf.keras.mixed_precision, "experimental"):\n'
        "    raise SystemExit\n",
        [],
        id="a test for an old name needs nothing more after install",
    ),
    pytest.param(
        "import keras\n"
        'if hasattr(keras.mixed_precision, "experimental"):\n'
        "    raise SystemExit\n"
        'keras.mixed_precision.set_dtype_policy("float32")\n',
        [],
        id="a test for an old name before Keras 3's own names",
    ),
]

# `check` reports these uses as handled, and `migrate` only adds `INSTALL`.
HANDLED = [
    pytest.param(
        "try:\n"
        "    from tensorflow.keras.mixed_precision import experimental as mp\n"
        "except ImportError:\n"
        "    from tensorflow.keras import mixed_precision as mp\n"
        "mp.global_policy()\n",
        ["2:50 LSO101 (breaks)", "5:1 LSO108 unsure"],
        id="except ImportError",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "try:\n"
        "    class Scale(tf.keras.mixed_precision.experimental.DynamicLossScale):\n"
        "        pass\n"
        "except AttributeError:\n"
        "    Scale = None\n",
        ["3:17 LSO101 (breaks)"],
        id="a class whose body runs at once",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "try:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
        "except AttributeError:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
        "else:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("mixed_float16")\n',
        ["3:5 LSO101 (breaks)", "5:5 LSO101 (breaks)", "7:5 LSO101 (breaks)"],
        id="except AttributeError",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "try:\n"
        "    opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
        "except Exception:\n"
        "    pass\n",
        ["3:11 LSO102 (breaks)"],
        id="a changed name raises nothing to be caught",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        'if not hasattr(tf.keras.mixed_precision, "set_global_policy"):\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        'if not hasattr(tf.keras.mixed_precision, "experimental"):\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        'x = hasattr(tf, "mixed_precision") and tf.mixed_precision.experimental.LossScale\n'
        "y = tf.mixed_precision.experimental.LossScale if hasattr(\n"
        '    tf, "mixed_precision") else 1\n',
        [
            "3:5 LSO101 (breaks)",
            "5:5 LSO101 (breaks)",
            "6:40 LSO101 (breaks)",
            "7:5 LSO101 (breaks)",
        ],
        id="not hasattr",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        'if tuple(int(part) for part in tf.__version__.split(".")[:2]) >= (2, 4):\n'
        "    from tensorflow.keras import mixed_precision\n"
        "    set_policy = mixed_precision.set_global_policy\n"
        "else:\n"
        "    from tensorflow.keras.mixed_precision import experimental as mixed_precision\n"
        "    set_policy = mixed_precision.set_policy\n"
        'set_policy("mixed_float16")\n'
        "print(mixed_precision.global_policy().name)\n",
        [
            "4:18 LSO108 unsure",
            "6:50 LSO101 (breaks)",
            "7:18 LSO108 unsure",
            "9:7 LSO108 unsure",
        ],
        id="fallback by version",
    ),
]

REWRITTEN = [
    pytest.param(
        "import tensorflow as tf\n"
        "try:\n"
        "    def f():\n"
        "        return tf.keras.mixed_precision.experimental\n"
        "except AttributeError:\n"
        "    pass\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "try:\n"
        "    def f():\n"
        "        return tf_lso.keras.mixed_precision.experimental\n"
        "except AttributeError:\n"
        "    pass\n",
        id="a function that is only defined under try",
    ),
    pytest.param(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from tensorflow.keras.mixed_precision.experimental import Policy\n",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from tf_lso.keras.mixed_precision.experimental import Policy\n",
        id="type checking",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "def main():\n"
        '    if not hasattr(tf.keras.mixed_precision, "experimental"):\n'
        "        return\n"
        '    tf.keras.mixed_precision.experimental.set_policy("float32")\n'
        'if __name__ == "__main__":\n'
        "    main()\n",
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "def main():\n"
        '    if not hasattr(tf.keras.mixed_precision, "experimental"):\n'
        "        return\n"
        '    tf_lso.keras.mixed_precision.experimental.set_policy("float32")\n'
        'if __name__ == "__main__":\n'
        "    main()\n",
        id="an early return that asks for an old name",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        'if not hasattr(tf.keras.mixed_precision, "set_global_policy"):\n'
        "    raise SystemExit\n"
        'tf.keras.mixed_precision.experimental.set_policy("float32")\n',
        "import tensorflow as tf\n"
        "import tf_lso\n"
        'if not hasattr(tf.keras.mixed_precision, "set_global_policy"):\n'
        "    raise SystemExit\n"
        'tf_lso.keras.mixed_precision.experimental.set_policy("float32")\n',
        id="a test for a name that today's TensorFlow has needs no install",
    ),
]

# The third item has the uses that `migrate` lists.
REWRITTEN_IN_PART = [
    pytest.param(
        "import tensorflow as tf\n"
        "from packaging import version\n"
        'OLD = version.parse(tf.__version__) < version.parse("2.4")\n'
        "if OLD:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        'if int(tf.__version__.split(".")[0]) >= 2:\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        'if tf.__version__.startswith("1."):\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        "if is_old(tf.__version__) and amp:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n',
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "from packaging import version\n"
        'OLD = version.parse(tf.__version__) < version.parse("2.4")\n'
        "if OLD:\n"
        '    tf_lso.keras.mixed_precision.experimental.set_policy("a")\n'
        'if int(tf.__version__.split(".")[0]) >= 2:\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        'if tf.__version__.startswith("1."):\n'
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n'
        "if is_old(tf.__version__) and amp:\n"
        '    tf.keras.mixed_precision.experimental.set_policy("a")\n',
        ["7:5 LSO101", "9:5 LSO101", "11:5 LSO101"],
        id="versions",
    ),
    pytest.param(
        "import contextlib\n"
        "import tensorflow as tf\n"
        "with contextlib.suppress(AttributeError):\n"
        '    tf.keras.mixed_precision.experimental.set_policy("float32")\n'
        "with contextlib.suppress(OSError):\n"
        "    def f():\n"
        '        tf.keras.mixed_precision.experimental.set_policy("float32")\n',
        "import contextlib\n"
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "with contextlib.suppress(AttributeError):\n"
        '    tf.keras.mixed_precision.experimental.set_policy("float32")\n'
        "with contextlib.suppress(OSError):\n"
        "    def f():\n"
        '        tf_lso.keras.mixed_precision.experimental.set_policy("float32")\n',
        ["4:5 LSO101"],
        id="inside contextlib.suppress",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after)


@pytest.mark.parametrize(("before", "after", "listed"), REWRITTEN_IN_PART)
def test_rewritten_in_part(before, after, listed):
    assert_rewritten(before, after, listed)


@pytest.mark.parametrize(("program", "found"), HANDLED)
def test_handled(program, found):
    assert reported_problems(program) == found
    assert migrated(program)[0].split() == (INSTALL + program).split()
