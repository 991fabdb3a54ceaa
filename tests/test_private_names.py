"""Private names of TensorFlow and Keras: which names tf_lso needs, and what they do.

A private name is a module that is not public, or an attribute whose name begins with one
underscore. `private_names.json` lists the private names that each file of tf_lso mentions, in
three groups:

- "used": names that the file reads, calls or sets. Only files in `frameworks/` and `install/`
  may use private names.
- "overridden": attributes of tf_lso's own classes that the frameworks call or read.
- "in files": names in checkpoints and model files. Some of them are also names of attributes.

The first part of this file compares the list with the source code of tf_lso, which is read by
`ast`, and with the attributes that the frameworks have. The second part tests what the names in
`tf_private.py` and `keras3_private.py` do.
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
from tests.families import HAS_KERAS3, OLD_KERAS3, keras, keras2, numpy, raw
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

# The form of dotted names that are private. The names of Keras 2 are those that tf_lso passes
# to `keras_versions.private`.
DOTTED_NAMES = {
    "tensorflow": r"tensorflow\.python\..+|__internal__(\.\w+){2}",
    "keras2": r"saving\.[\w.]+",
    "keras3": r"keras\.src\..+",
}

# Files that contain names of a framework only as words, or that are about another framework.
SKIPPED_FILES = {
    "tensorflow": r"tf_lso/names/",
    "keras2": r"tf_lso/(names|migrate)/|.*keras3|tf_lso/optimizers/graph_rewrite\.py"
    r"|tf_lso/frameworks/moved_homes\.py",
    "keras3": r"tf_lso/names/|.*keras2",
}

# Attributes of TensorFlow's classes whose names tf_lso, Keras or tf_keras uses for something
# else. `_functions`, `_seed` and `_version` are attributes of graphs in TensorFlow 2.12.
HOMONYMS = """
    _functions _seed _version
    _create_slots _create_or_restore_slot_variable _restore_slot_variable
    _resource_apply_dense _resource_apply_sparse _resource_apply_sparse_duplicate_indices
    _apply_gradients _attributes _call _finish _get _init _initialize _lock _loss_scale
    _name _optimizer _prepare _rank _shape _slots _trainable _write
""".split()

# Private names that tf_lso uses only if they exist, and that TensorFlow 2.12 lacks.
OPTIONAL = {"_tfmw_wrapped_module"} if tf.__version__ < "2.13" else set()


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
    return [
        *objects_of_keras(keras2),
        legacy.SGD(),
        legacy.Nadam(),
        importlib.import_module(f"{keras2.Model.__module__}_v1").Model,
        keras_versions.private(package, "saving.saving_lib"),
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
    names = set(filter(is_private, names))
    if framework == "tensorflow":
        return names.difference(HOMONYMS)
    # Keras inherits these names from TensorFlow.
    return names.difference(dir(tf.Module()), dir(tf.Variable(0.0)))


# --- The names in the source code of tf_lso.


@functools.cache
def sources():
    """Return {path from the root: text} for the files of the package."""
    paths = sorted((ROOT / "tf_lso").rglob("*.py"))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


def mentioned_names(tree, own=()):
    """Yield all names and strings in a file that may be private names of a framework.

    `own` contains names of the file's own attributes. `self.name` does not count if `name` is
    in `own`, but `other.name` counts.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls"), name) if name in own:
                pass
            case ast.Attribute(value, name):
                yield name
                if isinstance(value, ast.Attribute):
                    yield ast.unparse(node).removeprefix("tf.")  # a dotted name
            case ast.Constant(str(text)):
                yield text
            case ast.FunctionDef(name) if name not in own:
                yield name
            case ast.Import(aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module, aliases, 0):
                yield from (f"{module}.{alias.name}" for alias in aliases)


# Functions that read or set an attribute whose name is an argument.
ACCESSORS = """
    getattr hasattr setattr delattr attrgetter methodcaller forwarded set_untracked
""".split()


def used_names(tree, own=()):
    """Yield the names of all attributes that a file reads or sets.

    `own` means the same as in `mentioned_names`.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls"), name) if name in own:
                pass
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


def defined_names(tree):
    """Yield the names that a file defines or assigns to, and the attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(name, ctx=ast.Store()):
                yield name
            case ast.Attribute(ast.Name("self"), name, ctx=ast.Store()):
                yield name


def entries(framework):
    """Return all (path, name) that the table lists for a framework."""
    return {
        (path, name)
        for files in TABLE[framework].values()
        for path, names in files.items()
        for name in names
    }


def private_names_in(framework, source, find=mentioned_names):
    """Return the private names of a framework that `find` finds in a source."""
    tree = ast.parse(source)
    # TensorFlow calls methods of tf_lso that override a private name of TensorFlow, so these
    # methods count. Keras calls no private method of tf_lso, so a name that a file defines
    # itself has nothing to do with Keras.
    own = () if framework == "tensorflow" else set(defined_names(tree))
    listed = {name for _, name in entries(framework)}
    known = private_names(framework) | listed
    return {
        name
        for name in find(tree, own)
        if name in known or re.fullmatch(DOTTED_NAMES[framework], name)
    }


# --- The comparison of the table with the frameworks and the source code.


def found_in_sources(framework, find):
    """Return all (path, name) of private names that `find` finds in the package."""
    return {
        (path, name)
        for path, source in sources().items()
        if not re.match(SKIPPED_FILES[framework], path)
        for name in private_names_in(framework, source, find)
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
class TestTheTable:
    def test_lists_only_names_that_the_framework_has(self, framework):
        """A name in `moved` has another name in this version of the framework, or is gone."""
        known = private_names(framework) | OPTIONAL
        moved = {
            (path, name)
            for path, name in entries(framework)
            if is_private(name) and name not in known
        }
        assert moved == set()

    def test_lists_uses_only_in_frameworks_and_install(self, framework):
        paths = TABLE[framework]["used"]
        assert [path for path in paths if not path.startswith(MAY_USE)] == []

    def test_lists_exactly_the_names_that_the_files_mention(self, framework):
        assert found_in_sources(framework, mentioned_names) == entries(framework)

    def test_no_other_folder_uses_a_private_name(self, framework):
        """Move the code that uses a name in `misplaced` to tf_lso/frameworks."""
        used = found_in_sources(framework, used_names)
        misplaced = {entry for entry in used if not entry[0].startswith(MAY_USE)}
        assert misplaced == set()


class TestTheSearch:
    """The functions above find each form in which a file can contain a name."""

    @pytest.mark.parametrize(
        ("source", "is_use"),
        [
            ("x._name", True),
            ("x._name = 1", True),
            ("getattr(x, '_name', None)", True),
            ("vars(x)['_name']", True),
            ("vars(x).pop('_name', None)", True),
            ("x.__dict__['_name'] = 1", True),
            ("operator.attrgetter('_name')", True),
            ("entries['_name']", False),
            ("members = {'_name': True}", False),
        ],
    )
    def test_finds_uses(self, source, is_use):
        tree = ast.parse(source)
        assert ("_name" in used_names(tree)) == is_use
        assert "_name" in mentioned_names(tree)

    @pytest.mark.parametrize(
        ("framework", "name"),
        [
            ("tensorflow", "_use_locking"),
            ("keras2", "_weights"),
            pytest.param("keras3", "_var_key", marks=not_keras_3_0),
        ],
    )
    def test_finds_uses_of_the_names_of_a_framework(self, framework, name):
        assert private_names_in(framework, f"x.{name}", used_names) == {name}

    @pytest.mark.parametrize(
        ("framework", "source", "names"),
        [
            (
                "tensorflow",
                "from tensorflow.python import no",
                {"tensorflow.python.no"},
            ),
            ("tensorflow", "import tensorflow.python.no", {"tensorflow.python.no"}),
            ("tensorflow", "f('tensorflow.python.no')", {"tensorflow.python.no"}),
            ("tensorflow", "tf.__internal__.no.such()", {"__internal__.no.such"}),
            ("tensorflow", "x._track_trackable(y)", {"_track_trackable"}),
            ("tensorflow", "def _trackable_children(x): 1", {"_trackable_children"}),
            ("keras2", "keras_versions.private(k, 'saving.no')", {"saving.no"}),
            ("keras2", "self._set_hyper(y)", {"_set_hyper"}),
            # The file defines this name itself.
            ("keras2", "def _set_hyper(self): self._set_hyper()", set()),
        ],
    )
    def test_finds_mentions(self, framework, source, names):
        assert private_names_in(framework, source) == names


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


def private_attributes_of_others(sources):
    """Return the uses of private attributes that no class of tf_lso defines.

    Files in the folders `MAY_USE` do not count.
    """
    trees = {
        path: ast.parse(source)
        for path, source in sources.items()
        if not path.startswith(MAY_USE)
    }
    # `binding` puts the attribute `_unbound` into the classes that it makes, and each named
    # tuple has the public method `_replace`.
    defined = {"_unbound", "_replace"}
    for tree in trees.values():
        defined |= attributes_of_classes(tree)
    return {
        f"{path} uses {name}"
        for path, tree in trees.items()
        for name in used_names(tree)
        if is_private(name) and name not in defined
    }


def test_other_folders_use_only_private_attributes_of_tf_lso():
    """This also finds `HOMONYMS`, and names that none of the objects above have."""
    assert private_attributes_of_others(sources()) == set()
    planted = {"tf_lso/optimizers/other.py": "def f(x): return x._name"}
    found = {"tf_lso/optimizers/other.py uses _name"}
    assert private_attributes_of_others({**sources(), **planted}) == found


def test_no_module_of_tf_lso_imports_a_private_module_at_its_beginning():
    private = re.compile("|".join([*DOTTED_NAMES.values(), r"tf_keras\.src\..+"]))
    found = {
        path: name
        for path, source in sources().items()
        for statement in ast.parse(source).body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for name in mentioned_names(statement)
        if private.fullmatch(name)
    }
    assert found == {}


# --- What the private names of TensorFlow do.


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


@pytest.fixture(scope="class")
def nested_graphs():
    """Trace a function in a branch in a function.

    Return two dicts whose keys are "outer", "branch" and "inner": the graph, and its outermost
    graph.
    """
    graphs, outermost = {}, {}

    def record(name):
        graph = tf.compat.v1.get_default_graph()
        graphs[name] = graph
        outermost[name] = tf_private.outermost(graph)

    @tf.function
    def inner(x):
        record("inner")
        return x

    @tf.function
    def outer(x):
        def branch():
            record("branch")
            return inner(x)

        record("outer")
        return tf.cond(x > 0, branch, lambda: x)

    outer.get_concrete_function(tf.constant(1.0))
    return graphs, outermost


class TestTensorFlow:
    def test_a_missing_name_is_an_error_with_its_name(self):
        with pytest.raises(ImportError, match=r"no tensorflow\.no\.such.*tf_private"):
            tf_private._find("tensorflow", "no.such")

    def test_the_import_of_tf_lso_needs_no_private_name(self):
        printed = run(WITHOUT_PRIVATE_NAMES, by=preloaded.run)[-1]
        assert "has no tensorflow.__internal__.tracking.Trackable" in printed
        assert "tf_private.py" in printed

    @pytest.mark.parametrize("compiled", [True, False])
    def test_in_xla(self, compiled):
        seen = []

        @tf.function(jit_compile=compiled)
        def function():
            seen.append(tf_private.in_xla(tf.compat.v1.get_default_graph()))

        function()
        assert seen == [compiled]

    def test_is_recording(self):
        assert not tf_private.is_recording()
        with tf.GradientTape():
            assert tf_private.is_recording()
        with tf.autodiff.ForwardAccumulator(tf.Variable(1.0), tf.constant(1.0)):
            assert tf_private.is_recording()

    def test_outermost(self, nested_graphs):
        graphs, outermost = nested_graphs
        assert all(graph is graphs["outer"] for graph in outermost.values())
        with tf.Graph().as_default() as graph:
            assert tf_private.outermost(graph) is graph

    def test_once_for_replicas(self, mirrored2):
        calls = []

        def replica():
            tf_private.once_for_replicas(calls.append, 1)

        tf.distribute.get_strategy().run(replica)
        tf.distribute.OneDeviceStrategy("CPU:0").run(replica)
        mirrored2.run(replica)
        assert calls == [1, 1, 1]

    def test_needs_no_merge_call(self, mirrored2):
        results = []

        def replica():
            results.append(tf_private.needs_no_merge_call())

        replica()
        tf.distribute.get_strategy().run(replica)
        tf.distribute.OneDeviceStrategy("CPU:0").run(replica)
        mirrored2.run(replica)
        assert results == [True, True, False, False, False]

    def test_wrapped_module(self):
        wraps = tf.__version__ >= "2.13"  # TensorFlow 2.12 has no such wrappers
        assert (tf_private.wrapped_module(tf.compat.v1.train) is not None) == wraps
        assert tf_private.wrapped_module(tf.train) is None

    def test_track_and_children(self):
        scale, other = tf_lso.DynamicLossScale(8.0), tf.Variable(1.0)
        tf_private.track(scale, other, "other")
        assert tf_private.children(scale)["other"] is other

    def test_children_of_a_checkpoint_and_of_a_saved_model(self):
        scale = tf_lso.DynamicLossScale(8.0)
        for save_type in ("checkpoint", "savedmodel"):
            children = tf_private.children(scale, save_type)
            assert sorted(children) == ["current_loss_scale", "good_steps"]

    def test_trackable(self):
        assert isinstance(tf.train.Checkpoint(), tf_private.trackable())

    def test_delegating_trackable(self):
        x = tf.Variable(1.0)
        delegating = tf_private.delegating_trackable()(tf.train.Checkpoint(x=x))
        assert tf_private.children(delegating)["x"] is x

    def test_dependencies_that_are_looked_up_during_a_restore(self, tmp_path):
        calls, x = [], tf.Variable(0.0)

        class Restored(tf_private.Dependencies, tf_private.trackable()):
            def _dependency(self, name, known):
                calls.append(name)
                return x if name == "x" else super()._dependency(name, known)

            def _awaited_dependencies(self):
                calls.append("awaited")
                return super()._awaited_dependencies()

        saved = tf.train.Checkpoint(x=tf.Variable(3.0), y=tf.Variable(4.0))
        path = tf.train.Checkpoint(root=saved).write(str(tmp_path / "saved"))
        restored = Restored()
        tf.train.Checkpoint(root=restored).read(path)
        assert float(x) == 3.0
        assert {"x", "y", "awaited"} <= set(calls)
        assert "y" in tf_private.deferred(restored)


# --- What the private names of Keras 3 do.


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


def assert_names_what_is_missing(message, name):
    for part in (f"keras {keras.__version__}", name, "keras3_private.py", "Install"):
        assert part in message


@pytest.mark.keras3
@not_keras_3_0
class TestKeras3:
    @pytest.fixture
    def variable(self):
        return keras.Variable(1.0, name="x")

    @pytest.fixture
    def optimizer(self, variable):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build([variable])
        return optimizer

    def test_learning_rate_is_a_variable_or_a_schedule(self, optimizer):
        learning_rate = keras3_private.learning_rate(optimizer)
        assert any(learning_rate is variable for variable in optimizer.variables)
        schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
        scheduled = keras.optimizers.SGD(schedule)
        assert keras3_private.learning_rate(scheduled) is schedule

    def test_built_variables_are_those_of_the_model(self, optimizer, variable):
        (built,) = keras3_private.built_variables(optimizer)
        assert built is variable
        without = keras.optimizers.SGD()
        without.build([])
        assert without.built and keras3_private.built_variables(without) == []

    def test_known_variables_have_an_index(self, optimizer, variable):
        indices, key = keras3_private.known_variables(optimizer)
        assert indices == {key(variable): 0}
        assert key(keras.Variable(1.0)) not in indices

    def test_own_variables_are_variables_of_keras(self, optimizer):
        wrapper = keras.optimizers.LossScaleOptimizer(optimizer)
        cls = keras_versions.variable_of_keras3()
        assert all(isinstance(v, cls) for v in keras3_private.own_variables(wrapper))

    def test_steps_are_counted_by_a_method_of_the_variable(self, optimizer):
        counter, calls = keras3_private.iteration_variable(optimizer), []
        assert isinstance(raw(counter), tf.Variable)
        optimizer.apply([tf.constant(1.0)])
        assert numpy(counter) == 1
        counter.assign(0)
        counter.__dict__["assign_add"] = counter.__dict__["assign"] = calls.append
        optimizer.apply([tf.constant(1.0)])
        assert [int(value) for value in calls] == [1]

    def test_gradients_are_summed_by_a_method(self, optimizer):
        calls = []

        def record(grads_and_vars):
            calls.append(len(list(grads_and_vars)))
            return grads_and_vars

        optimizer.__dict__["_all_reduce_sum_gradients"] = record
        optimizer.apply([tf.constant(1.0)])
        assert calls == [1]

    def test_each_step_reads_the_strategy(self, optimizer):
        assert optimizer._distribution_strategy is tf.distribute.get_strategy()
        optimizer.__dict__["_distribution_strategy"] = None
        with pytest.raises(AttributeError, match="NoneType"):
            optimizer.apply([tf.constant(1.0)])

    @pytest.mark.parametrize("name", ["_var_key", "_all_reduce_sum_gradients"])
    def test_a_class_without_a_name_is_refused_at_import(self, name):
        """Two replicas would silently sum twice without `_all_reduce_sum_gradients`."""
        assert len(keras3_private._OF_CLASS) == 2  # the names of this test
        (message,) = run(WITHOUT_A_NAME.format(name=name), by=preloaded.run)
        assert_names_what_is_missing(message, name)

    @pytest.mark.parametrize("name", keras3_private._OF_INSTANCE if HAS_KERAS3 else ())
    def test_an_optimizer_without_a_name_is_refused(self, name):
        inner = keras.optimizers.SGD(0.5)
        inner.__dict__["renamed"] = inner.__dict__.pop(name)
        with pytest.raises(ImportError) as caught:
            keras3_private.check_instance(inner)
        assert_names_what_is_missing(str(caught.value), name)

    def test_the_wrapper_refuses_an_optimizer_without_a_name(self):
        inner = keras.optimizers.SGD(0.5)
        del inner.__dict__["_distribution_strategy"]
        with pytest.raises(ImportError, match="_distribution_strategy"):
            tf_lso.LossScaleOptimizer(inner)

    def test_an_older_keras_needs_no_newer_name(self, monkeypatch):
        monkeypatch.setattr(keras3_private, "_OF_CLASS", {"_of_later": (3, 2)})
        monkeypatch.setattr(keras, "__version__", "3.1.1")
        keras3_private.check_class()
        monkeypatch.setattr(keras, "__version__", "3.10.0")
        with pytest.raises(ImportError, match=r"3\.10\.0 has no Optimizer\._of_later"):
            keras3_private.check_class()
