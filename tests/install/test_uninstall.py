"""`uninstall()` undoes all changes of `install()`, and the documents list these changes."""

import functools
import json
import re

from tests import preloaded
from tests.generation import HAS_KERAS3, KERAS
from tests.processes import ROOT, run
from tf_lso import names

PAGE = ROOT / "compat_docs" / "explanation" / "changes.md"

# The first lines of the program. They import and use everything that creates objects at its
# first use, so that these objects do not count as changes.
START = """
    import json
    import os

    import tensorflow as tf
    from tests import families
    import tf_lso
    from tests.install import traces
    from tf_lso import policies
    from tf_lso.frameworks import keras_versions
    from tf_lso.install import table
    from tf_lso.install.ledger import Ledger

    # The installed Keras packages, such as "tf_keras", and their modules with public names.
    KERASES = {families.PACKAGES[name]: families.KERASES[name] for name in families.GENERATIONS}
    traces.create_lazy_objects(*KERASES)
    tf_lso.install().uninstall()

    def set_policies(name):
        for package in KERASES:
            policies.for_package(package).set_global_policy(name)

    def tf_lso_wraps_in_compile(keras):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return isinstance(model.optimizer, tf_lso.LossScaleOptimizer)

    # The first models load more modules, and register classes of optimizers.
    tf_lso.LossScaleOptimizer(families.keras2.optimizers.SGD(0.5))
    set_policies("mixed_float16")
    for keras in KERASES.values():
        tf_lso_wraps_in_compile(keras)
    set_policies(None)
    tf_lso.uninstall()
    before = traces.snapshot()

    def assert_nothing_changed():
        changes = traces.changes_since(before)
        assert not changes, changes
"""

# A block wraps and trains by tf_lso, and undoes this at its end.
ONE_BLOCK = """
    with tf_lso.install():
        from tensorflow.keras.mixed_precision import experimental
        set_policies("mixed_float16")
        assert all(map(tf_lso_wraps_in_compile, KERASES.values()))
        set_policies(None)
    assert_nothing_changed()
    for keras in KERASES.values():
        keras.mixed_precision.set_global_policy("mixed_float16")
    # Keras wraps by its own class now.
    assert not any(map(tf_lso_wraps_in_compile, KERASES.values()))
    set_policies(None)
"""

NESTED_BLOCKS = """
    def is_installed():
        return hasattr(tf, "mixed_precision")

    with tf_lso.install():
        with tf_lso.install():
            tf_lso.LossScaleOptimizer(families.keras2.optimizers.SGD(0.5))
            tf_lso.uninstall()  # undoes the changes although two blocks are open
            assert_nothing_changed()
        tf_lso.install()
        assert is_installed()
    # The block does not undo the second `install()`, because it made only the first one.
    assert is_installed()
    tf_lso.uninstall()
    assert_nothing_changed()
    handle = tf_lso.install()
    handle.uninstall()
    handle.uninstall()  # there is nothing more to undo
    assert_nothing_changed()
"""

# Print the attributes that `install()` changes. Then print, for each row of the table and each
# Keras, the names that the row's function changes.
CHANGES = """
    tf_lso.install()
    installed = traces.changes_since(before)
    tf_lso.uninstall()

    def record_calls(method):
        '''Add the name in each call of a method of Ledger to `changed_names`.'''
        original = getattr(Ledger, method)

        def recorded(ledger, owner, name, value):
            changed_names.append(name)
            original(ledger, owner, name, value)

        setattr(Ledger, method, recorded)

    record_calls("set_attribute")
    record_calls("set_item")
    os.environ["TF_LSO_LIKE"] = "2.4"  # as `install(like="2.4")` does
    rows = []
    for package in KERASES:
        for row in table.PATCHES:
            if row.when != table.WRAPPED and table.is_in(row, package):
                changed_names, ledger = [], Ledger()
                row.function(keras_versions.public(package), ledger)
                ledger.undo()
                rows.append([row.target, changed_names])
    print(json.dumps({"installed": installed, "rows": rows}))
"""


@functools.cache
def changes():
    """Return what `CHANGES` prints, as a dict."""
    (line,) = run(START + CHANGES, preloaded.run, TF_USE_LEGACY_KERAS="0")
    return json.loads(line)


def old_names():
    """Return all parts of the old names, which compat_docs/reference/old-names.md lists."""
    parts = set()
    for spelled in [*names.MODULES, *names.TF_KERAS_MODULES]:
        parts.update(spelled.split("."))
    for namespace in (*names.NAMESPACES, *names.PRIVATE):
        parts.add(namespace.split(".")[-1])
        parts.update(names.mirror_names(namespace))
    return parts


def test_blocks_undo_what_they_have_installed():
    program = START + ONE_BLOCK + NESTED_BLOCKS
    run(program, preloaded.run, TF_USE_LEGACY_KERAS="0")


def test_the_page_names_what_is_changed():
    named = set(re.findall(r"[`.](\w+)`", PAGE.read_text(encoding="utf-8")))
    changed = set()
    for path in changes()["installed"]:
        # The path of an import hook ends with its index. A new first hook changes all indices.
        path = re.sub(r"^sys\.meta_path\.\d+$", "sys.meta_path", path)
        changed.add(path.removesuffix(" itself").split(".")[-1])
    compiling = "compile" if HAS_KERAS3 else "_get_optimizer"
    assert {compiling, "load", "_save_state", "make_train_function"} <= changed
    assert changed - old_names() <= named


# Names in the rows that `CHANGES` does not change: `showtraceback` changes only in notebooks,
# and the classes `Checkpoint` and `CheckpointManager` only contain changed methods.
NOT_CHANGED = {"showtraceback", "Checkpoint", "CheckpointManager"}
if KERAS == "3.0":
    NOT_CHANGED.add(
        "deserialize"
    )  # Keras 3.0 has no function `deserialize` for policies


def test_each_row_of_the_table_names_what_its_function_changes():
    """A row must contain each name that its function changes, and no other name."""
    changed_by_row = {}
    for target, changed_names in changes()["rows"]:
        attributes = {name.split(".")[-1] for name in changed_names}
        changed_by_row.setdefault(target, set()).update(attributes)
    assert len(changed_by_row) > 10  # the loop below would pass without any row
    for target, changed in changed_by_row.items():
        named = set(re.findall(r"[`.](\w+)`", target))
        if target == "the old names":
            assert changed and changed <= old_names()
        elif target.startswith("the classes"):
            assert {"get", "deserialize", "SGD", "Adam"} <= changed
        else:
            assert changed <= named, target
            assert named - changed <= NOT_CHANGED, target
