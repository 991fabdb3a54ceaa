"""`uninstall()` undoes all changes of `install()`, and the documents list these changes."""

import functools
import json
import re

from tests.generation import HAS_KERAS3, KERAS
from tests.processes import ROOT, run
from tf_lso import names

PAGE = ROOT / "compat_docs" / "explanation" / "changes.md"

# The first lines of all programs. They import and use everything that creates objects at its
# first use, so that these objects do not count as changes.
START = """
    import json

    import tensorflow as tf
    from tests.families import KERASES as of_family, PACKAGES
    import tf_lso
    from tests.install import traces
    from tf_lso import policies

    KERASES = {PACKAGES[name]: kind for name, kind in of_family.items()}
    keras2 = of_family["keras2"]
    traces.create_lazy_objects(*KERASES)
    tf_lso.install().uninstall()

    def wrap():
        return tf_lso.LossScaleOptimizer(keras2.optimizers.SGD(0.5))

    def set_policies(name="mixed_float16"):
        for one in KERASES:
            policies.for_package(one).set_global_policy(name)

    def compiled(module):
        model = module.Sequential([module.layers.Dense(1)])
        model.compile("sgd", "mse")
        return isinstance(model.optimizer, tf_lso.LossScaleOptimizer)

    def tell(*values):
        print(json.dumps(values))

    # The first models load more modules, and register classes of optimizers.
    wrap(), set_policies(), list(map(compiled, KERASES.values()))
    set_policies(None), tf_lso.uninstall()
    before = traces.snapshot()

    def assert_unchanged(since=before):
        changed = traces.changes_since(since)
        assert not changed, changed
"""


# Programs that run one after another in one process, after `START`. Each program undoes all
# its changes.
PROGRAMS = {
    "a block": """
    with tf_lso.install():
        from tensorflow.keras.mixed_precision import experimental
        set_policies()
        assert all(map(compiled, KERASES.values()))
        set_policies(None)
    assert_unchanged()
    for one in KERASES.values():
        one.mixed_precision.set_global_policy("mixed_float16")
    assert not any(map(compiled, KERASES.values()))  # Keras wraps, not tf_lso
    set_policies(None)
    """,
    "blocks": """
    installed = lambda: hasattr(tf, "mixed_precision")

    with tf_lso.install():
        with tf_lso.install():
            wrap(), set_policies(None)
            tf_lso.uninstall()  # at once, out of all blocks
            assert_unchanged()
        tf_lso.install()
        assert installed()
    # Installed anew within the block, which had not installed that.
    assert installed()
    tf_lso.uninstall()
    assert_unchanged()
    handle = tf_lso.install()
    handle.uninstall()
    handle.uninstall()  # there is nothing left to undo
    assert_unchanged()
    """,
    "installed": """
    tf_lso.install()
    tell(traces.changes_since(before))
    tf_lso.uninstall()
    """,
    # Prints, for each row of the table and each installed Keras, the names that the row's
    # function changes.
    "rows": """
    import os
    from tf_lso.frameworks import keras_versions
    from tf_lso.install import table
    from tf_lso.install.ledger import Ledger

    def record(method):
        set_it = getattr(Ledger, method)

        def recorded(ledger, owner, name, value):
            changed.append(name)
            set_it(ledger, owner, name, value)

        setattr(Ledger, method, recorded)

    record("set_attribute"), record("set_item")
    os.environ["TF_LSO_LIKE"] = "2.4"  # what `install(like="2.4")` sets
    for package in KERASES:
        for patch in table.PATCHES:
            if patch.when != table.WRAPPED and table.is_in(patch, package):
                changed, ledger = [], Ledger()
                patch.function(keras_versions.public(package), ledger)
                ledger.undo()
                tell(patch.target, changed)
    """,
}


@functools.cache
def told():
    """Run all programs in one process. Return a dict from program names to printed values."""
    parts = [f"\n    print({name!r})\n{text}" for name, text in PROGRAMS.items()]
    found = {}
    for line in run(START + "".join(parts)):
        if line in PROGRAMS:
            lists = found[line] = []
        else:
            lists.append(json.loads(line))
    return found


def bare(names):
    """Return the last parts of dotted names."""
    return {name.split(".")[-1] for name in names}


def test_blocks_undo_what_they_have_installed():
    assert told()["a block"] == told()["blocks"] == []


def _old_names():
    """Return all parts of the old names, which compat_docs/reference/old-names.md lists."""
    spellings = {**names.MODULES, **names.TF_KERAS_MODULES}
    old = {part for spelled in spellings for part in spelled.split(".")}
    for namespace in (*names.NAMESPACES, *names.PRIVATE):
        old |= {namespace.split(".")[-1], *names.mirror_names(namespace)}
    return old


def test_the_page_names_what_is_changed():
    named = set(re.findall(r"[`.](\w+)`", PAGE.read_text(encoding="utf-8")))
    ((installed,),) = told()["installed"]
    # The name of an import hook ends with its index. A new first hook changes all indices.
    paths = [re.sub(r"^(sys\.meta_path)\.\d+$", r"\1", name) for name in installed]
    changed = {name.removesuffix(" itself").split(".")[-1] for name in paths}
    compiling = "compile" if HAS_KERAS3 else "_get_optimizer"
    assert {compiling, "load", "_save_state", "make_train_function"} <= changed
    assert changed - _old_names() <= named


def test_each_row_of_the_table_names_what_its_function_changes():
    """A row must contain each name that its function changes, and no other name."""
    rows = {}
    for target, changed in told()["rows"]:
        rows.setdefault(target, set()).update(bare(changed))
    assert len(rows) > 10
    for target, changed in rows.items():
        named = set(re.findall(r"[`.](\w+)`", target))
        if target == "the old names":
            assert changed and changed <= _old_names()
        elif target.startswith("the classes"):
            assert {"get", "deserialize", "SGD", "Adam"} <= changed
        else:
            assert changed <= named, target
            assert named - changed <= NOT_SET, target


# Names in the rows that the program "rows" does not change: `showtraceback` changes only in
# notebooks, and the classes `Checkpoint` and `CheckpointManager` only contain changed methods.
NOT_SET = {
    *("showtraceback", "Checkpoint", "CheckpointManager"),
    # Keras 3.0 has no function `deserialize` for policies.
    *(["deserialize"] if KERAS == "3.0" else []),
}
