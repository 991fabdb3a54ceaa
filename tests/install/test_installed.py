"""`import tf_lso.installed` does what `tf_lso.install()` does."""

from tests.processes import run

# Programs ask for an old module by `importlib.util.find_spec`.
PROGRAM = """
    import importlib.util
    import tf_lso.installed
    from tensorflow.keras.mixed_precision import experimental
    import tensorflow as tf
    print(experimental.Policy("mixed_float16").name)
    for name in (
        "tensorflow.keras.mixed_precision.experimental",
        "tensorflow.mixed_precision.experimental",
        "tensorflow.python.keras.mixed_precision.policy",
        "keras.api._v2",
        "keras.api._v2.keras",
    ):
        print(importlib.util.find_spec(name) is not None)
    tf_lso.uninstall()
    print(hasattr(tf.keras.mixed_precision, "experimental"))
    import tf_lso.installed
    print(hasattr(tf.keras.mixed_precision, "experimental"))
"""


def test_the_import_installs_and_uninstall_undoes_it():
    assert run(PROGRAM) == ["mixed_float16", *["True"] * 5, "False", "True"]
