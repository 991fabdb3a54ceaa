"""What a program takes care of itself is reported, and is no failure."""

import pytest

from tests.check.programs import outcome_of, rows

pytestmark = pytest.mark.core

EXPERIMENTAL = "tf.keras.mixed_precision.experimental"
STABLE = "tf.keras.mixed_precision"

PROGRAMS = {
    "except ImportError": (
        """
        try:
            from tensorflow.keras.mixed_precision import experimental as mp
        except ImportError:
            from tensorflow.keras import mixed_precision as mp
        mp.global_policy()
        """,
        [
            f"3 {EXPERIMENTAL} (breaks)",
            f"5 {STABLE} works",
            f"6 {STABLE}.global_policy works",
        ],
    ),
    "what a guarded import brings is guarded": (
        """
        try:
            from tensorflow.keras.mixed_precision import experimental as mp
        except (ImportError, KeyError):
            mp = None
        if mp is not None:
            mp.set_policy("mixed_float16")
        """,
        [f"3 {EXPERIMENTAL} (breaks)", f"7 {EXPERIMENTAL}.set_policy (breaks)"],
    ),
    "an import that works guards nothing": (
        """
        try:
            import tensorflow as tf
        except ImportError:
            tf = None
        tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        """,
        [f"6 {EXPERIMENTAL}.set_policy breaks"],
    ),
    "nor does one of an old module that is still there": (
        """
        try:
            from tensorflow.keras import mixed_precision as mp
        except ImportError:
            from tensorflow.keras.mixed_precision import experimental as mp
        opt = mp.LossScaleOptimizer(opt)
        """,
        [
            f"3 {STABLE} works",
            f"5 {EXPERIMENTAL} (breaks)",
            f"6 {STABLE}.LossScaleOptimizer breaks",
        ],
    ),
    "a fallback that is not needed": (
        """
        import tensorflow as tf
        try:
            tf.keras.mixed_precision.set_global_policy("float32")
        except AttributeError:
            tf.keras.mixed_precision.experimental.set_policy("float32")
        try:
            from tensorflow import keras
        except ImportError:
            from keras.mixed_precision import experimental
        """,
        [
            f"4 {STABLE}.set_global_policy works",
            f"6 {EXPERIMENTAL}.set_policy (breaks)",
            f"10 {EXPERIMENTAL} (breaks)",
        ],
    ),
    "a fallback that may be needed": (
        """
        import tensorflow as tf
        try:
            import horovod.tensorflow
            from tensorflow.keras import mixed_precision
        except ImportError:
            from keras.mixed_precision import experimental
        try:
            from tensorflow.contrib import mixed_precision
        except ImportError:
            from keras.mixed_precision import experimental
        try:
            x()
        except Exception:
            from keras.mixed_precision import experimental
        try:
            from tensorflow.keras import mixed_precision
        except KeyError:
            from keras.mixed_precision import experimental
        """,
        [
            f"5 {STABLE} works",
            f"7 {EXPERIMENTAL} breaks",
            "9 tf.contrib.mixed_precision (breaks)",
            f"11 {EXPERIMENTAL} breaks",
            f"15 {EXPERIMENTAL} breaks",
            f"17 {STABLE} works",
            f"19 {EXPERIMENTAL} breaks",
        ],
    ),
    "except AttributeError": (
        """
        import tensorflow as tf
        try:
            tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        except AttributeError:
            tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        else:
            tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        """,
        [
            f"4 {EXPERIMENTAL}.set_policy (breaks)",
            f"6 {EXPERIMENTAL}.set_policy breaks",
            f"8 {EXPERIMENTAL}.set_policy breaks",
        ],
    ),
    "another exception": (
        """
        import tensorflow as tf
        try:
            from tensorflow.keras.mixed_precision import experimental
        except AttributeError:
            pass
        try:
            tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        except ImportError:
            pass
        """,
        [f"4 {EXPERIMENTAL} breaks", f"8 {EXPERIMENTAL}.set_policy breaks"],
    ),
    "bare, Exception, suppress": (
        """
        import contextlib
        import tensorflow as tf
        try:
            tf.keras.mixed_precision.experimental
        except:
            pass
        try:
            tf.keras.mixed_precision.experimental
        except Exception as error:
            pass
        with contextlib.suppress(AttributeError):
            tf.keras.mixed_precision.experimental
        """,
        [f"{line} {EXPERIMENTAL} (breaks)" for line in (5, 9, 13)],
    ),
    "a function that is only defined under try": (
        """
        import tensorflow as tf
        try:
            def f():
                return tf.keras.mixed_precision.experimental
        except AttributeError:
            pass
        """,
        [f"5 {EXPERIMENTAL} breaks"],
    ),
    # Creating it succeeds: what fails comes later.
    "a changed name raises nothing to be caught": (
        """
        import tensorflow as tf
        try:
            opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)
        except Exception:
            pass
        """,
        [f"4 {STABLE}.LossScaleOptimizer breaks"],
    ),
    "hasattr of a module": (
        """
        import tensorflow as tf
        if hasattr(tf.keras.mixed_precision, "experimental"):
            tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
        elif hasattr(tf, "contrib"):
            tf.contrib.mixed_precision.LossScaleOptimizer(o, m)
        else:
            tf.keras.mixed_precision.LossScaleOptimizer(opt)
        """,
        [
            f"3 {EXPERIMENTAL} works",
            f"4 {EXPERIMENTAL}.set_policy (breaks)",
            "6 tf.contrib.mixed_precision.LossScaleOptimizer (breaks)",
            f"8 {STABLE}.LossScaleOptimizer breaks",
        ],
    ),
    "not hasattr": (
        """
        import tensorflow as tf
        if not hasattr(tf.keras.mixed_precision, "set_global_policy"):
            tf.keras.mixed_precision.experimental.set_policy("a")
        if not hasattr(tf.keras.mixed_precision, "experimental"):
            tf.keras.mixed_precision.experimental.set_policy("a")
        x = hasattr(tf, "mixed_precision") and tf.mixed_precision.experimental.LossScale
        y = tf.mixed_precision.experimental.LossScale if hasattr(
            tf, "mixed_precision") else 1
        """,
        [
            f"3 {STABLE}.set_global_policy works",
            f"4 {EXPERIMENTAL}.set_policy (breaks)",
            f"5 {EXPERIMENTAL} works",
            f"6 {EXPERIMENTAL}.set_policy breaks",
            "7 tf.mixed_precision works",
            "7 tf.mixed_precision.experimental.LossScale (breaks)",
            "8 tf.mixed_precision.experimental.LossScale (breaks)",
            "8 tf.mixed_precision works",
        ],
    ),
    "versions": (
        """
        import tensorflow as tf
        from packaging import version
        OLD = version.parse(tf.__version__) < version.parse("2.4")
        if OLD:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if not OLD:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if int(tf.__version__.split(".")[0]) >= 2:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 9) or 0:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if tf.__version__.startswith("1."):
            tf.keras.mixed_precision.experimental.set_policy("a")
        if version.parse(tf.__version__) < version.parse("2.18") and amp:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if tf.__version__ >= "2.0" and amp:
            tf.keras.mixed_precision.experimental.set_policy("a")
        if is_old(tf.__version__):
            tf.keras.mixed_precision.experimental.set_policy("a")
        if is_old(tf.__version__) and amp:
            tf.keras.mixed_precision.experimental.set_policy("a")
        """,
        [
            f"6 {EXPERIMENTAL}.set_policy (breaks)",
            f"8 {EXPERIMENTAL}.set_policy breaks",
            f"10 {EXPERIMENTAL}.set_policy breaks",
            f"12 {EXPERIMENTAL}.set_policy (breaks)",
            f"14 {EXPERIMENTAL}.set_policy (breaks)",
            f"16 {EXPERIMENTAL}.set_policy unsure",
            f"18 {EXPERIMENTAL}.set_policy breaks",
            f"20 {EXPERIMENTAL}.set_policy unsure",
            f"22 {EXPERIMENTAL}.set_policy unsure",
        ],
    ),
    # As strings "2.16" < "2.4": a slip of many programs, and what they do today.
    "versions compared as strings": (
        """
        import tensorflow as tf
        if tf.__version__ < "2.4":
            tf.keras.mixed_precision.experimental.set_policy("a")
        """,
        [f"4 {EXPERIMENTAL}.set_policy breaks"],
    ),
    "a setting is no version": (
        """
        import tensorflow as tf
        AMP = False
        if AMP:
            tf.keras.mixed_precision.experimental.set_policy("a")
        """,
        [f"5 {EXPERIMENTAL}.set_policy breaks"],
    ),
    "an alias of a branch not taken": (
        """
        import tensorflow as tf
        if tf.__version__.split(".")[0] == "1":
            mp = tf.keras.mixed_precision.experimental
        else:
            mp = tf.keras.mixed_precision
        mp.Policy("mixed_float16")
        """,
        [
            f"4 {EXPERIMENTAL} (breaks)",
            f"6 {STABLE} works",
            f"7 {STABLE}.Policy works",
        ],
    ),
    "type checking": (
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from tensorflow.keras.mixed_precision.experimental import Policy
        """,
        [f"4 {EXPERIMENTAL}.Policy (breaks)"],
    ),
    "install": (
        """
        import tf_lso
        def f():
            tf.keras.mixed_precision.experimental.set_policy("a")
        import tensorflow.keras.mixed_precision.experimental
        tf_lso.install()
        from tensorflow.keras.mixed_precision import experimental
        import tensorflow as tf
        opt.get_scaled_loss(loss)
        """,
        [
            f"4 {EXPERIMENTAL}.set_policy (breaks)",
            f"5 {EXPERIMENTAL} breaks",
            f"7 {EXPERIMENTAL} (breaks)",
            "9 LossScaleOptimizer.get_scaled_loss unsure",
        ],
    ),
}


@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)
def test_only_what_is_not_guarded_makes_the_exit_code_1(case):
    program, expected = case
    assert rows(program) == expected
    fails = any(row.endswith(" breaks") for row in expected)
    assert outcome_of(program).exit_code == fails


def test_the_text_says_why():
    program = PROGRAMS["except ImportError"][0]
    (finding, *_) = outcome_of(program).findings
    assert finding.guarded
    assert finding.verdict.today.endswith(
        "Not here: an except clause takes care of it."
    )
