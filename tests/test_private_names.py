"""Which private names of TensorFlow and Keras tf_lso touches, and in which files.

`private_names.json` has the one file that may touch a name, and with a reason each file
that does so too. A name that is gone, or that a further file touches, fails here. That
it still does what tf_lso needs shows in the tests of what it is needed for.

A private name is a module that is not public, or a name with an underscore that an
object of the framework has. The sources are read by `ast`.
"""

import ast
import functools
import importlib
import json
import re
from pathlib import Path

import pytest
import tensorflow as tf

from tests.families import HAS_KERAS3, OLD_KERAS3, keras, keras2
from tf_lso import optimizer_table as table
from tf_lso import tf_private

ROOT = Path(__file__).parents[1]
TABLE = json.loads((ROOT / "tests/private_names.json").read_text(encoding="utf-8"))

# Framework -> what modules and objects are called that are not public.
MODULES = {
    "tensorflow": r"tensorflow\.python\..+|__internal__(\.\w+){2}",
    "keras2": r"saving\.[\w.]+",  # as they are given to `keras_versions.private`
    "keras3": r"keras\.src\..+",
}

# Files that are not about a framework, and so have these names by another right.
OTHERS = {
    "tensorflow": r"tf_lso/names/",  # the words of programs, as are the next
    "keras2": r"tf_lso/(names|source)/|.*keras3|tf_lso/policies/graph_rewrite\.py",
    "keras3": r"tf_lso/names/|.*keras2",
}

# Names of TensorFlow's classes that are also tf_lso's, Keras's or tf_keras's, with another
# meaning where they stand.
HOMONYMS = {
    "_functions",  # of graphs of TensorFlow 2.12, as are the next two
    "_seed",
    "_version",
    "_apply_gradients",
    "_call",
    "_finish",
    "_create_slots",  # of tf_keras's optimizers, as are the next five
    "_create_or_restore_slot_variable",
    "_restore_slot_variable",
    "_resource_apply_dense",
    "_resource_apply_sparse",
    "_resource_apply_sparse_duplicate_indices",
    "_name",
    "_attributes",
    "_get",
    "_init",
    "_initialize",
    "_lock",
    "_optimizer",
    "_loss_scale",
    "_prepare",
    "_rank",
    "_shape",
    "_slots",
    "_write",
}


# --- What the frameworks have.


def _of_tensorflow():
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
        type(tf.Variable(1.0)),
        tf.Tensor,
        tf.IndexedSlices,
        tf.Operation,
        tf.GradientTape(),
    ]


def _of_a_keras(module):
    """A model, its parts, and optimizers with all their slots."""
    model = module.Sequential([module.layers.InputLayer((2,)), module.layers.Dense(1)])
    made = [
        getattr(module.optimizers, name)()
        for name in table.OPTIMIZERS
        if hasattr(module.optimizers, name)
    ]
    made += [
        module.optimizers.SGD(momentum=0.9, use_ema=True),
        module.optimizers.RMSprop(momentum=0.9, centered=True),
        module.optimizers.Adam(amsgrad=True),
    ]
    for optimizer in made:
        optimizer.build(model.trainable_variables)
    dropout = module.layers.Dropout(0.5)
    return [*made, model, dropout, *model.layers, *model.variables]


def _of_keras2():
    legacy = keras2.optimizers.legacy
    model = keras2.Model.__module__
    places = [
        importlib.import_module(f"{model}_v1").Model,
        importlib.import_module(f"{model.partition('.src.')[0]}.src.saving.saving_lib"),
    ]
    return [*_of_a_keras(keras2), legacy.SGD(), legacy.Nadam(), *places]


OBJECTS = {
    "tensorflow": _of_tensorflow,
    "keras2": _of_keras2,
    "keras3": lambda: _of_a_keras(keras),
}


def vars_of(one):
    """The attributes that an object has itself, of which some do not show in `dir`."""
    return getattr(one, "__dict__", ())


@functools.cache
def private_names(framework):
    """The names with an underscore that objects of the framework have."""
    objects = OBJECTS[framework]()
    names = {name for one in objects for name in (*dir(one), *vars_of(one))}
    names = {name for name in names if re.match("_[^_]", name)}
    if framework == "tensorflow":
        return names - HOMONYMS
    return names - {*dir(tf.Module()), *dir(tf.Variable(0.0))}


# --- What tf_lso touches.


def _own(tree):
    """The names that a file itself defines, or sets on `self`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr


def mentions(tree, own=()):
    """The names and the texts in a file; of its `own` names those of other objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_self = isinstance(node.value, ast.Name) and node.value.id in (
                "self",
                "cls",
            )
            if not (of_self and node.attr in own):
                yield node.attr
            if isinstance(node.value, ast.Attribute):
                yield ast.unparse(node).removeprefix("tf.")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.FunctionDef) and node.name not in own:
            yield node.name
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def touched(framework, source):
    """The private names of a framework that a source touches."""
    tree = ast.parse(source)
    # What overrides a name of TensorFlow is called by TensorFlow. Keras calls nothing of
    # tf_lso's: there an own name is an own name.
    own = () if framework == "tensorflow" else set(_own(tree))
    known = private_names(framework) | TABLE[framework].keys()
    return {
        name
        for name in mentions(tree, own)
        if name in known or re.fullmatch(MODULES[framework], name)
    }


@functools.cache
def sources():
    """{path from the root: text} of the package."""
    paths = sorted((ROOT / "tf_lso").rglob("*.py"))
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths
    }


@functools.cache
def found(framework):
    """{private name: the files that touch it}."""
    files = {}
    for path, source in sources().items():
        if not re.match(OTHERS[framework], path):
            for name in touched(framework, source):
                files.setdefault(name, set()).add(path)
    return files


def problems(framework, listed):
    """What of the names in the sources is otherwise than a table lists them."""
    allowed = {
        name: {entry["file"], *entry.get("also", ())} for name, entry in listed.items()
    }
    names, known = found(framework), private_names(framework)
    for name in sorted(names.keys() | allowed.keys()):
        now, told = names.get(name, set()), allowed.get(name, set())
        yield from (f"{path} touches {name}" for path in sorted(now - told))
        yield from (f"{path} no longer touches {name}" for path in sorted(told - now))
        if name.startswith("_") and not name.startswith("__") and name not in known:
            yield f"{framework} has moved {name}, which {sorted(told)} need"


# --- The tests.

HERE = [
    "tensorflow",
    "keras2",
    pytest.param(
        "keras3",
        marks=pytest.mark.skipif(
            OLD_KERAS3 or not HAS_KERAS3, reason="other names, or none"
        ),
    ),
]


@pytest.mark.parametrize("framework", HERE)
def test_each_name_is_there_and_touched_in_its_file_alone(framework):
    assert list(problems(framework, TABLE[framework])) == []


@pytest.mark.parametrize("framework", HERE)
def test_a_second_file_a_name_that_is_gone_and_a_stale_entry_are_found(framework):
    listed = dict(TABLE[framework])
    name = next(name for name in listed if name in private_names(framework))
    listed[name] = {"file": "tf_lso/other.py"}
    listed["_gone"] = {"file": "tf_lso/stale.py"}
    told = "\n".join(problems(framework, listed))
    assert f"{TABLE[framework][name]['file']} touches {name}" in told
    assert f"tf_lso/other.py no longer touches {name}" in told
    assert f"{framework} has moved _gone" in told


@pytest.mark.parametrize(
    ("framework", "source", "name"),
    [
        ("tensorflow", "from tensorflow.python import no", "tensorflow.python.no"),
        ("tensorflow", "import tensorflow.python.no", "tensorflow.python.no"),
        ("tensorflow", "f('tensorflow.python.no')", "tensorflow.python.no"),
        ("tensorflow", "tf.__internal__.no.such()", "__internal__.no.such"),
        ("tensorflow", "x._track_trackable(y)", "_track_trackable"),
        ("tensorflow", "getattr(x, '_use_locking')", "_use_locking"),
        ("tensorflow", "def _trackable_children(self): 1", "_trackable_children"),
        ("keras2", "keras_versions.private(k, 'saving.no')", "saving.no"),
        ("keras2", "x._set_hyper(y)", "_set_hyper"),
        ("keras2", "self._set_hyper(y)", "_set_hyper"),
    ],
)
def test_a_use_is_found(framework, source, name):
    assert name in touched(framework, source)


def test_what_a_class_has_of_its_own_is_no_use_of_keras():
    source = "class A:\n  def _set_hyper(self): self._set_hyper()"
    assert touched("keras2", source) == set()


def test_no_import_of_tf_lso_needs_a_private_module():
    private = re.compile("|".join((*MODULES.values(), r"tf_keras\.src\..+")))
    needing = {
        name: path
        for path, source in sources().items()
        for node in ast.parse(source).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in mentions(node)
        if private.fullmatch(name)
    }
    assert needing == {}
