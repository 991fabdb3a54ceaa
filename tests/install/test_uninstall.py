"""`uninstall()` undoes all changes of `install()`, and the page of changes lists them."""

import json
import re

import pytest

from tests import preloaded
from tests.generation import HAS_KERAS3, needs_tf_keras
from tests.processes import ROOT, run
from tf_lso import names

PAGE = ROOT / "compat_docs" / "explanation" / "changes.md"

# Prints what has changed after the first and after the second `uninstall()`.
TRACES = """
    import sys
    import tensorflow as tf
    import keras
    {imports_before_install}
    import tf_lso
    from tests.install import traces

    def public_names():
        # This module has no `__all__` in TensorFlow 2.12.
        return list(getattr(tf.compat.v1.mixed_precision, "__all__", ()))

    def use(keras):
        keras.mixed_precision.set_global_policy("mixed_float16")
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        keras.mixed_precision.set_global_policy("float32")
        return isinstance(model.optimizer, tf_lso.LossScaleOptimizer)

    traces.create_lazy_objects(*{packages})
    use(tf.keras)  # the first model loads more modules
    before, public_names_before = traces.snapshot(), public_names()
    handle = tf_lso.install()
    assert len(traces.changes_since(before)) > 50  # the snapshot shows the changes
    assert use(tf.keras)
    handle.uninstall()
    print(traces.changes_since(before))
    assert public_names() == public_names_before
    tf_lso.install().uninstall()
    print(traces.changes_since(before))
"""


@pytest.mark.parametrize(
    "legacy_keras", ["0", pytest.param("1", marks=[pytest.mark.slow, needs_tf_keras])]
)
@pytest.mark.parametrize(
    "imports_before_install",
    [
        "import tensorflow.keras.mixed_precision",
        pytest.param("import tf_keras", marks=needs_tf_keras),
    ],
)
def test_uninstall_undoes_all_changes(imports_before_install, legacy_keras):
    has_tf_keras = legacy_keras == "1" or "tf_keras" in imports_before_install
    packages = ["keras", "tf_keras"] if has_tf_keras else ["keras"]
    program = TRACES.format(
        imports_before_install=imports_before_install, packages=packages
    )
    lines = run(program, by=preloaded.run, TF_USE_LEGACY_KERAS=legacy_keras)
    assert lines == ["[]", "[]"]


# Prints the attributes that `install()` changes. Before that, the program creates everything
# that the first use creates, so that it does not count as a change.
CHANGES = """
    import json
    import tensorflow as tf
    from tests import families
    import tf_lso
    from tests.install import traces

    traces.create_lazy_objects(*map(families.PACKAGES.get, families.GENERATIONS))
    tf_lso.install().uninstall()
    before = traces.snapshot()
    tf_lso.install()
    print(json.dumps(traces.changes_since(before)))
"""


def old_names():
    """Return all parts of the old names, which compat_docs/reference/old-names.md lists."""
    parts = set()
    for spelled in names.MODULES:
        parts.update(spelled.split("."))
    for namespace in (*names.NAMESPACES, *names.PRIVATE):
        parts.add(namespace.split(".")[-1])
        parts.update(names.mirror_names(namespace))
    return parts


def test_the_page_names_what_is_changed():
    named = set(re.findall(r"[`.](\w+)`", PAGE.read_text(encoding="utf-8")))
    (line,) = run(CHANGES, preloaded.run, TF_USE_LEGACY_KERAS="0")
    changed = set()
    for path in json.loads(line):
        # The path of an import hook ends with its index. A new first hook changes all indices.
        path = re.sub(r"^sys\.meta_path\.\d+$", "sys.meta_path", path)
        changed.add(path.removesuffix(" itself").split(".")[-1])
    compiling = "compile" if HAS_KERAS3 else "_get_optimizer"
    assert {compiling, "load", "_save_state", "make_train_function"} <= changed
    assert changed - old_names() <= named
