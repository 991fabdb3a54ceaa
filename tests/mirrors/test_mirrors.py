"""The mirrors have the names that TensorFlow and Keras had.

A mirror is a module of tf_lso with an old name, such as `tf_lso.keras.mixed_precision`.
`record/names.json` lists the names that real versions of TensorFlow and Keras had.
"""

import contextlib
import importlib
import inspect
import json
import operator
import pathlib

import pytest

import tf_lso
from tf_lso import names

RECORD = json.loads((pathlib.Path(__file__).parent / "record/names.json").read_text())
NAMES = [(namespace, name) for namespace in RECORD for name in RECORD[namespace]]


def mirror(namespace):
    """Return the module of tf_lso for an old module such as "tf.train.experimental"."""
    return importlib.import_module(namespace.replace("tf", "tf_lso", 1))


def reached(dotted):
    """Return the object that a dotted name of tf_lso leads to, by attributes only."""
    return operator.attrgetter(dotted.partition(".")[2])(tf_lso)


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_a_name_exists_by_import_and_by_attribute(namespace, name):
    value = getattr(mirror(namespace), name)
    assert reached(f"{namespace}.{name}".replace("tf", "tf_lso", 1)) is value
    assert value.__doc__


@pytest.mark.parametrize("namespace", RECORD)
def test_a_mirror_has_the_real_names_and_no_others(namespace):
    submodules = {"experimental"}
    assert set(mirror(namespace).__all__) - submodules == set(RECORD[namespace])
    assert mirror(namespace).__all__ == sorted(mirror(namespace).__all__)
    # The table from which `check` and `install` know them.
    assert names.NAMESPACES[namespace.removeprefix("tf.")].keys() == set(
        RECORD[namespace]
    )


@pytest.mark.parametrize(
    ("dotted", "words"),
    [
        ("keras.mixed_precision.LossScaleOptimiser", "mean 'LossScaleOptimizer'?"),
        ("keras.mixed_precision.set_policy", "experimental.set_policy"),
        (
            "keras.mixed_precision.DynamicLossScale",
            "tf_lso.mixed_precision.experimental.DynamicLossScale",
        ),
        ("LossScaleOptimzer", "LossScaleOptimizer"),
        ("explain", "Did you mean 'tf_lso.debugging.explain'?"),
        (
            "train.experimental.LossScaleOptimizer",
            "tf_lso.keras.mixed_precision.experimental.LossScaleOptimizer",
        ),
        ("mixed_precision.experimental.Zzz", "FixedLossScale"),
    ],
)
def test_the_error_of_an_unknown_name_suggests_another_name(dotted, words):
    with pytest.raises(AttributeError) as caught:
        reached(f"tf_lso.{dotted}")
    assert dotted.rpartition(".")[2] in str(caught.value)
    assert words in str(caught.value)


def test_hasattr_and_getattr_with_a_default_accept_an_unknown_name():
    assert not hasattr(tf_lso.keras.mixed_precision, "zzz")
    assert getattr(tf_lso.keras, "zzz", 3) == 3


def test_install_does_not_change_the_private_modules_of_tf_keras():
    pytest.importorskip("tf_keras")
    modules = [
        spelled
        for spelled, namespace in names.MODULES.items()
        if spelled.startswith("tf_keras")
        and "LossScaleOptimizer" in names.mirror_names(namespace)
    ]
    assert len(modules) > 3  # the loop below would pass without any module
    with tf_lso.install():
        for spelled in modules:
            wrapper = None
            with contextlib.suppress(ImportError):
                module = importlib.import_module(spelled)
                wrapper = getattr(module, "LossScaleOptimizer", None)
            is_ours = wrapper is not None and wrapper.__module__.startswith("tf_lso")
            assert is_ours == (not spelled.startswith("tf_keras.src."))


PUBLIC = [
    tf_lso,
    tf_lso.checkpoints,
    tf_lso.debugging,
    tf_lso.callbacks,
    tf_lso.summary,
]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_each_public_function_and_method_has_a_docstring(module):
    """ruff does not ask for one in internal rooms, where some public classes stand."""
    lacking = []
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        if not getattr(value, "__module__", "").startswith("tf_lso"):
            continue
        members = {name: value}
        if inspect.isclass(value):
            own = [c for c in value.__mro__ if c.__module__.startswith("tf_lso")]
            members |= {f"{name}.{n}": getattr(value, n) for c in own for n in vars(c)}
        lacking += [
            path
            for path, member in members.items()
            if not path.rpartition(".")[2].startswith("_")
            and (callable(member) or isinstance(member, property))
            and not inspect.getdoc(member)
        ]
    assert lacking == []
