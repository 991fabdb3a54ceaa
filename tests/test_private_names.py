"""Private names of TensorFlow and Keras that tf_lso needs.

A private name is a module that is not public, or an attribute whose name begins with one
underscore. `private_names.json` lists the private names that each file of tf_lso mentions, in
three groups:

- "used": names that the file reads, calls or sets. Only files in `frameworks/` and `install/`
  may use private names.
- "overridden": attributes of tf_lso's own classes that the frameworks call or read.
- "in files": names in checkpoints and model files. Some of them are also names of attributes.

The tests compare the list with the frameworks, and with the attributes that the files of tf_lso
read or set. What the names do is seen by the tests of the step, of the state and of the graphs.
"""

import ast
import functools
import importlib
import json
import re
from pathlib import Path

import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import HAS_KERAS3, OLD_KERAS3, keras, keras2
from tests.processes import run
from tf_lso.frameworks import keras_versions, optimizer_table, tf_private

if HAS_KERAS3:
    from tf_lso.frameworks import keras3_private

ROOT = Path(__file__).parents[1]

# Maps a framework to its groups, a group to its files, and a file to a list of names.
TABLE = json.loads((ROOT / "tests/private_names.json").read_text(encoding="utf-8"))

# The folders whose files may use private names.
MAY_USE = ("tf_lso/frameworks/", "tf_lso/install/")

not_keras_3_0 = pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 has other names")
FRAMEWORKS = ["tensorflow", "keras2", pytest.param("keras3", marks=not_keras_3_0)]

# Private attributes that the table need not list: those of Python and of tf_lso itself, the
# seeds of TensorFlow's eager context, and an attribute of DelegatingTrackableMixin.
NOT_LISTED = {"_replace", "_unbound", "_viewed", "_rng", "_seed", "_trackable"}

# Private names that tf_lso uses only in later versions than these.
OPTIONAL = {"_tfmw_wrapped_module"} if tf.__version__ < "2.13" else set()
HAS_H5_ENTRY = keras_versions.is_at_least(
    keras_versions.package_of(keras2.Model), 2, 22
)
OPTIONAL |= set() if HAS_H5_ENTRY else {"_group"}


# --- The private attributes of the frameworks.


def objects_of_tensorflow():
    """Return classes and objects that have all attributes of TensorFlow that tf_lso needs."""
    return [
        tf_private.trackable(),
        tf_private.delegating_trackable(),
        tf.train.Checkpoint,
        tf.compat.v1.train,
        tf.compat.v1.train.Optimizer(False, "x"),
        tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer,
        tf.distribute.MirroredStrategy,
        tf.distribute.DistributedValues,
        tf.function(lambda: 1).get_concrete_function().graph,
        tf.Variable(1.0),
        tf.Tensor,
        tf.IndexedSlices,
        tf.Operation,
        tf.GradientTape(),
    ]


def objects_of_keras(module):
    """Return a model, its parts, and optimizers with all their slots."""
    model = module.Sequential([module.layers.InputLayer((2,)), module.layers.Dense(1)])
    optimizers = [
        getattr(module.optimizers, name)()
        for name in optimizer_table.OPTIMIZERS
        if hasattr(module.optimizers, name)
    ]
    optimizers += [
        module.optimizers.SGD(momentum=0.9, use_ema=True),
        module.optimizers.RMSprop(momentum=0.9, centered=True),
        module.optimizers.Adam(amsgrad=True),
    ]
    for optimizer in optimizers:
        optimizer.build(model.trainable_variables)
    dropout = module.layers.Dropout(0.5)
    return [*optimizers, model, dropout, *model.layers, *model.variables]


def objects_of_keras2():
    legacy = keras2.optimizers.legacy
    package = keras_versions.package_of(keras2.Model)
    saving = keras_versions.private(package, "saving.saving_lib")
    return [
        *objects_of_keras(keras2),
        legacy.SGD(),
        legacy.Nadam(),
        importlib.import_module(f"{keras2.Model.__module__}_v1").Model,
        saving,
        *([saving.H5Entry({})] if HAS_H5_ENTRY else []),
    ]


OBJECTS = {
    "tensorflow": objects_of_tensorflow,
    "keras2": objects_of_keras2,
    "keras3": lambda: objects_of_keras(keras),
}


def is_private(name):
    """Return whether a name begins with exactly one underscore."""
    return re.match("_[^_]", name) is not None


@functools.cache
def private_names(framework):
    """Return the private names of the attributes that objects of a framework have."""
    names = set()
    for one in OBJECTS[framework]():
        names.update(dir(one))
        names.update(getattr(one, "__dict__", ()))  # `dir` leaves out some of them
    return set(filter(is_private, names))


# --- The names in the source code of tf_lso.


@functools.cache
def sources():
    """Return {path from the root: text} for the files of the package."""
    paths = sorted((ROOT / "tf_lso").rglob("*.py"))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


# Functions that read or set an attribute whose name is an argument.
ACCESSORS = """
    getattr hasattr setattr delattr attrgetter methodcaller forwarded set_untracked
""".split()


def used_names(tree):
    """Yield the names of all attributes that a file reads or sets."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(_, name):
                yield name
            case ast.Call(ast.Name(function) | ast.Attribute(_, function), args) if (
                function in ACCESSORS
            ):
                yield from _strings(args)
            case ast.Call(ast.Attribute(owner), args) if _is_attribute_dict(owner):
                yield from _strings(args)
            case ast.Subscript(owner, index) if _is_attribute_dict(owner):
                yield from _strings([index])


def _strings(nodes):
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_attribute_dict(node):
    """Return whether an expression is `vars(x)` or `x.__dict__`."""
    return re.search(r"(^vars\(.*\)|\.__dict__)$", ast.unparse(node)) is not None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_framework_has_each_listed_name(framework):
    """A name in `moved` has another name in this version of the framework, or is gone."""
    listed = {
        (path, name)
        for files in TABLE[framework].values()
        for path, names in files.items()
        for name in filter(is_private, names)
    }
    known = private_names(framework) | OPTIONAL
    moved = {(path, name) for path, name in listed if name not in known}
    assert moved == set()


def attributes_of_classes(tree):
    """Return the attributes that the classes of a file define, or set on `self`."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=statements):
                for statement in statements:
                    if isinstance(statement, ast.FunctionDef):
                        names.add(statement.name)
                    else:
                        names.update(_assigned_names(statement))
            case ast.Attribute(ast.Name("self"), name, ctx=ast.Store()):
                names.add(name)
    return names


def _assigned_names(statement):
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def private_attributes_of_others():
    """Return all (path, name) of used private attributes that no class of tf_lso defines."""
    trees = {path: ast.parse(source) for path, source in sources().items()}
    defined = set(NOT_LISTED)
    for tree in trees.values():
        defined |= attributes_of_classes(tree)
    return {
        (path, name)
        for path, tree in trees.items()
        for name in used_names(tree)
        if is_private(name) and name not in defined
    }


def test_only_frameworks_and_install_use_private_attributes():
    """Move the code that uses a name in `misplaced` to tf_lso/frameworks."""
    misplaced = {
        (path, name)
        for path, name in private_attributes_of_others()
        if not path.startswith(MAY_USE)
    }
    assert misplaced == set()


def test_the_list_has_each_private_attribute():
    listed = {
        (path, name)
        for groups in TABLE.values()
        for files in groups.values()
        for path, names in files.items()
        for name in names
    }
    assert private_attributes_of_others() - listed == set()


def test_no_module_of_tf_lso_imports_a_private_module_at_its_beginning():
    private = r"^(from|import) (tensorflow\.python|(keras|tf_keras)\.src)\b"
    importing = [
        path for path, text in sources().items() if re.search(private, text, re.M)
    ]
    assert importing == []


# --- What happens if a private name is missing.


# Hides private names of TensorFlow, and then imports tf_lso.
WITHOUT_PRIVATE_NAMES = """
    import sys
    import tensorflow as tf
    for name in ("ops.control_flow_util", "eager.record"):
        sys.modules[f"tensorflow.python.{name}"] = None
    tf.__internal__ = None

    import tf_lso
    from tf_lso import install, uninstall
    from tf_lso.frameworks import tf_private
    try:
        tf_lso.DynamicLossScale
    except ImportError as error:
        print(error)
"""


def test_the_import_of_tf_lso_needs_no_private_name_and_the_first_use_names_it():
    printed = run(WITHOUT_PRIVATE_NAMES, by=preloaded.run)[-1]
    assert "has no tensorflow.__internal__.tracking.Trackable" in printed
    assert "tf_private.py" in printed


# Removes a private name from the class of optimizers before tf_lso is used.
WITHOUT_A_NAME = """
    import keras, tf_lso

    for cls in keras.optimizers.Optimizer.__mro__:
        if {name!r} in vars(cls):
            cls.renamed = vars(cls)[{name!r}]
            delattr(cls, {name!r})
    inner = keras.optimizers.SGD(0.5)
    try:
        tf_lso.LossScaleOptimizer(inner)
    except ImportError as error:
        print(error)
"""


@pytest.mark.keras3
@not_keras_3_0
def test_a_class_without_a_name_is_refused():
    """Two replicas would silently sum twice without `_all_reduce_sum_gradients`."""
    program = WITHOUT_A_NAME.format(name="_all_reduce_sum_gradients")
    (message,) = run(program, by=preloaded.run)
    for part in (
        f"keras {keras.__version__}",
        "_all_reduce_sum_gradients",
        "keras3_private.py",
        "Install",
    ):
        assert part in message


@pytest.mark.keras3
@not_keras_3_0
@pytest.mark.parametrize("name", keras3_private._OF_INSTANCE if HAS_KERAS3 else ())
def test_an_optimizer_without_a_name_is_refused(name):
    inner = keras.optimizers.SGD(0.5)
    inner.__dict__["renamed"] = inner.__dict__.pop(name)
    with pytest.raises(ImportError, match=name):
        keras3_private.check_instance(inner)


@pytest.mark.keras3
@not_keras_3_0
@pytest.mark.parametrize("name", ["_distribution_strategy", "_variables"])
def test_the_wrapper_refuses_an_optimizer_without_a_name(name):
    inner = keras.optimizers.SGD(0.5)
    del inner.__dict__[name]
    with pytest.raises(ImportError, match=name):
        tf_lso.LossScaleOptimizer(inner)


@pytest.mark.keras3
@not_keras_3_0
def test_an_older_keras_needs_no_newer_name(monkeypatch):
    monkeypatch.setattr(keras3_private, "_OF_CLASS", {"_of_later": (3, 2)})
    monkeypatch.setattr(keras, "__version__", "3.1.1")
    keras3_private.check_class()
    monkeypatch.setattr(keras, "__version__", "3.10.0")
    with pytest.raises(ImportError, match=r"3\.10\.0 has no Optimizer\._of_later"):
        keras3_private.check_class()
