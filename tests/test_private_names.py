"""Which private names of TensorFlow and Keras tf_lso needs, where, and what they do.

`private_names.json` lists the names of each file, in three kinds:

- "used": only `frameworks/`, which knows the frameworks, and `install/`, which changes them,
  may use a private name.
- "overridden": the frameworks call or read these attributes of tf_lso's own objects.
- "in files": names in checkpoints and model files. Some are those of attributes.

A name that is gone, or that a further file mentions, fails here. What a name of tf_private.py
and keras3_private.py does is tested below, that of others by the tests of what it is needed
for.

A private name is a module that is not public, or a name with an underscore that an
object of the framework has. The sources are read by `ast`.
"""

import ast
import collections
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
from tf_lso.frameworks import keras_versions, tf_private
from tf_lso.frameworks import optimizer_table as table

if HAS_KERAS3:
    from tf_lso.frameworks import keras3_private

ROOT = Path(__file__).parents[1]
# Framework -> kind -> file -> names.
TABLE = json.loads((ROOT / "tests/private_names.json").read_text(encoding="utf-8"))

# The rooms that may use private names.
ROOMS = ("tf_lso/frameworks/", "tf_lso/install/")

# Framework -> what modules and objects are called that are not public.
MODULES = {
    "tensorflow": r"tensorflow\.python\..+|__internal__(\.\w+){2}",
    "keras2": r"saving\.[\w.]+",  # as they are given to `keras_versions.private`
    "keras3": r"keras\.src\..+",
}

# Files that are not about a framework, and so have these names by another right.
OTHERS = {
    "tensorflow": r"tf_lso/names/",  # the words of programs, as are the next
    "keras2": r"tf_lso/(names|migrate)/|.*keras3|tf_lso/optimizers/graph_rewrite\.py",
    "keras3": r"tf_lso/names/|.*keras2",
}

# Names of TensorFlow's classes that are also tf_lso's, Keras's or tf_keras's, with another
# meaning where they stand: of the graphs of 2.12, of tf_keras's optimizers, of several.
HOMONYMS = """
    _functions _seed _version
    _create_slots _create_or_restore_slot_variable _restore_slot_variable
    _resource_apply_dense _resource_apply_sparse _resource_apply_sparse_duplicate_indices
    _apply_gradients _attributes _call _finish _get _init _initialize _lock _loss_scale
    _name _optimizer _prepare _rank _shape _slots _trainable _write
""".split()

# Private names that TensorFlow 2.12 lacks. tf_lso needs them only where they exist.
NEWER = {"_tfmw_wrapped_module"} if tf.__version__ < "2.13" else set()

WITH_OTHER_NAMES = pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 has other names")


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
        tf.Variable(1.0),
        *(tf.Tensor, tf.IndexedSlices, tf.Operation, tf.GradientTape()),
    ]


def _of_a_keras(module):
    """A model, its parts, and optimizers with all their slots."""
    model = module.Sequential([module.layers.InputLayer((2,)), module.layers.Dense(1)])
    classes = [getattr(module.optimizers, name, None) for name in table.OPTIMIZERS]
    made = [
        *(cls() for cls in classes if cls),
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
    package = keras_versions.package_of(keras2.Model)
    places = [
        importlib.import_module(f"{keras2.Model.__module__}_v1").Model,
        keras_versions.private(package, "saving.saving_lib"),
    ]
    return [*_of_a_keras(keras2), legacy.SGD(), legacy.Nadam(), *places]


OBJECTS = {
    "tensorflow": _of_tensorflow,
    "keras2": _of_keras2,
    "keras3": lambda: _of_a_keras(keras),
}


@functools.cache
def private_names(framework):
    """The names with an underscore that objects of the framework have."""
    objects = OBJECTS[framework]()
    # Some of the attributes that an object has itself do not show in `dir`.
    own = [getattr(one, "__dict__", ()) for one in objects]
    names = set().union(*map(dir, objects), *own)
    names = {name for name in names if re.match("_[^_]", name)}
    if framework == "tensorflow":
        return names.difference(HOMONYMS)
    return names - {*dir(tf.Module()), *dir(tf.Variable(0.0))}


# --- What tf_lso mentions and uses.


def _own(tree):
    """The names that a file itself defines, or sets on `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(name, ctx=ast.Store()):
                yield name
            case ast.Attribute(ast.Name("self"), name, ctx=ast.Store()):
                yield name


def mentions(tree, own=()):
    """The names and the texts in a file; of its `own` names those of other objects."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls"), name) if name in own:
                pass
            case ast.Attribute(value, name):
                yield name
                if isinstance(value, ast.Attribute):
                    yield ast.unparse(node).removeprefix("tf.")
            case ast.Constant(str(name)):
                yield name
            case ast.FunctionDef(name) if name not in own:
                yield name
            case ast.Import(aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module, aliases, 0):
                yield from (f"{module}.{alias.name}" for alias in aliases)


# Functions whose arguments name an attribute of another object.
BY_NAME = """
    getattr hasattr setattr delattr attrgetter methodcaller forwarded set_untracked
""".split()


def uses(tree, own=()):
    """The attributes in a file that are read or set; of its `own` those of other objects."""
    for node in ast.walk(tree):
        named = []
        match node:
            case ast.Attribute(ast.Name("self" | "cls"), name) if name in own:
                pass
            case ast.Attribute(_, name):
                yield name
            case ast.Call(ast.Name(function) | ast.Attribute(_, function), args):
                is_by_name = function in BY_NAME or _is_dict(node.func)
                named = args if is_by_name else []
            case ast.Subscript(_, index) if _is_dict(node):
                named = [index]
        yield from (arg.value for arg in named if isinstance(arg, ast.Constant))


def _is_dict(node):
    """Whether a node is `vars(x).get`, `vars(x)[...]`, or the same of `x.__dict__`."""
    match node:
        case ast.Attribute(owner) | ast.Subscript(owner):
            return re.search(r"(^vars\(.*\)|\.__dict__)$", ast.unparse(owner))
    return False


def listed_names(framework):
    """The names of a framework that the table lists."""
    kinds = TABLE[framework].values()
    return {name for files in kinds for names in files.values() for name in names}


def private_in(framework, source, find=mentions):
    """The private names of a framework that a source mentions, or those that it uses."""
    tree = ast.parse(source)
    # What overrides a name of TensorFlow is called by TensorFlow. Keras calls nothing of
    # tf_lso's: there an own name is an own name.
    own = () if framework == "tensorflow" else set(_own(tree))
    known = private_names(framework) | listed_names(framework)
    return {
        name
        for name in find(tree, own)
        if name in known or re.fullmatch(MODULES[framework], str(name))
    }


@functools.cache
def sources():
    """{path from the root: text} of the package."""
    paths = sorted((ROOT / "tf_lso").rglob("*.py"))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


def problems(framework, sources, kinds):
    """What of the names in sources is otherwise than the kinds of a framework list them."""
    known = private_names(framework) | NEWER
    listed = collections.defaultdict(set)
    for kind, files in kinds.items():
        for path, names in files.items():
            listed[path].update(names)
            if kind == "used" and not path.startswith(ROOMS):
                yield f"{path} must not use {names}: move this to tf_lso/frameworks"
            if gone := sorted(
                n for n in names if re.match("_[^_]", n) and n not in known
            ):
                yield f"{framework} has moved {gone}, which {path} needs"
    for path, source in sources.items():
        if re.match(OTHERS[framework], path):
            continue
        now = private_in(framework, source)
        in_room = path.startswith(ROOMS)
        used = set() if in_room else private_in(framework, source, uses)
        yield from (f"{path} uses {name}" for name in sorted(used))
        yield from (f"{path} mentions {name}" for name in sorted(now - listed[path]))
        for name in sorted(listed[path] - now):
            yield f"{path} no longer mentions {name}"


KERAS3_HERE = pytest.param("keras3", marks=WITH_OTHER_NAMES)


@pytest.mark.parametrize("framework", ["tensorflow", "keras2", KERAS3_HERE])
class TestTheTable:
    def test_only_frameworks_and_install_use_private_names(self, framework):
        assert list(problems(framework, sources(), TABLE[framework])) == []

    def test_a_gone_name_a_stale_entry_and_a_wrong_room_are_found(self, framework):
        path = "tf_lso/optimizers/other.py"
        kinds = {"used": {path: ["_gone"]}, "overridden": {path: ["_old"]}}
        assert list(problems(framework, {path: ""}, kinds)) == [
            f"{path} must not use ['_gone']: move this to tf_lso/frameworks",
            f"{framework} has moved ['_gone'], which {path} needs",
            f"{framework} has moved ['_old'], which {path} needs",
            f"{path} no longer mentions _gone",
            f"{path} no longer mentions _old",
        ]

    @pytest.mark.parametrize(
        ("planted", "is_use"),
        [
            ("x.{0}", True),
            ("x.{0} = 1", True),
            ("getattr(x, '{0}', None)", True),
            ("vars(x)['{0}']", True),
            ("vars(x).pop('{0}', None)", True),
            ("x.__dict__['{0}'] = 1", True),
            ("operator.attrgetter('{0}')", True),
            ("entries['{0}']", False),
            ("members = {{'{0}': True}}", False),
        ],
    )
    def test_a_planted_use_is_found(self, framework, planted, is_use):
        name = {
            "tensorflow": "_use_locking",
            "keras2": "_weights",
            "keras3": "_var_key",
        }
        name, path = name[framework], "tf_lso/optimizers/other.py"
        files = {path: planted.format(name)}
        listed = {"in files": {path: [name]}}
        found = [f"{path} uses {name}"] if is_use else []
        assert list(problems(framework, files, listed)) == found
        assert f"{path} mentions {name}" in list(problems(framework, files, {}))


@pytest.mark.parametrize(
    ("framework", "source", "names"),
    [
        ("tensorflow", "from tensorflow.python import no", {"tensorflow.python.no"}),
        ("tensorflow", "import tensorflow.python.no", {"tensorflow.python.no"}),
        ("tensorflow", "f('tensorflow.python.no')", {"tensorflow.python.no"}),
        ("tensorflow", "tf.__internal__.no.such()", {"__internal__.no.such"}),
        ("tensorflow", "x._track_trackable(y)", {"_track_trackable"}),
        ("tensorflow", "getattr(x, '_use_locking')", {"_use_locking"}),
        ("tensorflow", "def _trackable_children(x): 1", {"_trackable_children"}),
        ("keras2", "keras_versions.private(k, 'saving.no')", {"saving.no"}),
        ("keras2", "x._set_hyper(y)", {"_set_hyper"}),
        ("keras2", "self._set_hyper(y)", {"_set_hyper"}),
        ("keras2", "def _set_hyper(self): self._set_hyper()", set()),  # its own
    ],
)
def test_a_mention_is_found(framework, source, names):
    assert private_in(framework, source) == names


def _attributes_of_classes(tree):
    """The attributes that the classes of a file define, or set on `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=body):
                functions = [one for one in body if isinstance(one, ast.FunctionDef)]
                others = [one for one in body if one not in functions]
                yield from (function.name for function in functions)
                for name in (n for one in others for n in ast.walk(one)):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        yield name.id
            case ast.Attribute(ast.Name("self"), name, ctx=ast.Store()):
                yield name


def attributes_of_others(sources):
    """The private attributes that rooms use, and that no class of these rooms defines."""
    trees = {p: ast.parse(s) for p, s in sources.items() if not p.startswith(ROOMS)}
    # `binding` puts the attribute `_unbound` into the classes that it makes, and each
    # named tuple has the public method `_replace`.
    own = {"_unbound", "_replace"}.union(*map(_attributes_of_classes, trees.values()))
    return {
        f"{path} uses {name}"
        for path, tree in trees.items()
        for name in map(str, uses(tree))
        if re.match("_[^_]", name) and name not in own
    }


def test_other_rooms_use_only_private_attributes_of_tf_lso():
    """This also finds names that no object above has, and those in `HOMONYMS`."""
    assert attributes_of_others(sources()) == set()
    planted = {"tf_lso/optimizers/other.py": "def f(x): return x._name"}
    found = {"tf_lso/optimizers/other.py uses _name"}
    assert attributes_of_others({**sources(), **planted}) == found


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


# --- What TensorFlow's do.


WITHOUT_THEM = """
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


class TestTensorFlow:
    def test_a_name_that_moved_is_told(self):
        with pytest.raises(ImportError, match=r"no tensorflow\.no\.such.*tf_private"):
            tf_private._find("tensorflow", "no.such")

    def test_the_import_needs_none(self):
        said = run(WITHOUT_THEM, by=preloaded.run)[-1]
        assert "has no tensorflow.__internal__.tracking.Trackable" in said
        assert "tf_private.py" in said

    @pytest.mark.parametrize("compiled", [True, False])
    def test_in_xla(self, compiled):
        def ask():
            seen.append(tf_private.in_xla(tf.compat.v1.get_default_graph()))

        seen = []
        tf.function(ask, jit_compile=compiled)()
        assert seen == [compiled]

    def test_is_recording(self):
        assert not tf_private.is_recording()
        with tf.GradientTape():
            assert tf_private.is_recording()
        with tf.autodiff.ForwardAccumulator(tf.Variable(1.0), tf.constant(1.0)):
            assert tf_private.is_recording()

    def test_graphs_in_graphs(self):
        graphs, outermost, seen_in = {}, {}, {}

        def ask(where):
            graphs[where] = graph = tf.compat.v1.get_default_graph()
            outermost[where] = tf_private.outermost(graph)
            seen_in[where] = [n for n, g in graphs.items() if tf_private.is_within(g)]

        @tf.function
        def inner(x):
            ask("inner")
            return x

        @tf.function
        def outer(x):
            def branch():
                ask("branch")
                return inner(x)

            ask("outer")
            return tf.cond(x > 0, branch, lambda: x)

        outer.get_concrete_function(tf.constant(1.0))
        assert len(set(map(id, graphs.values()))) == 3
        assert tf_private.graph_around(graphs["branch"]) is graphs["outer"]
        assert tf_private.graph_around(tf.Graph()) is None
        assert all(graph is graphs["outer"] for graph in outermost.values())
        assert seen_in["outer"] == ["outer"]
        assert seen_in["branch"] == ["outer", "branch"]
        assert seen_in["inner"] == ["inner"]
        with tf.Graph().as_default() as graph:
            assert tf_private.outermost(graph) is graph

    def test_has_returned(self):
        graphs, x = [], tf.Variable(1.0)

        @tf.function
        def step(returns, updates, fails):
            graphs.append(tf.compat.v1.get_default_graph())
            y = x.read_value()
            if updates:
                x.assign_add(1.0)
            if fails:
                raise KeyError
            return y if returns else None

        step(True, False, False)
        step(False, True, False)
        with pytest.raises(KeyError):
            step(True, True, True)
        returned = [tf_private.has_returned(graph) for graph in graphs]
        assert returned == [True, True, False]
        assert tf_private.has_returned(tf.Graph())

    def test_replicas(self, mirrored2):
        calls, merging = [], [tf_private.needs_no_merge_call()]

        def ask():
            tf_private.once_for_replicas(calls.append, 1)
            merging.append(tf_private.needs_no_merge_call())

        tf.distribute.get_strategy().run(ask)
        tf.distribute.OneDeviceStrategy("CPU:0").run(ask)
        mirrored2.run(ask)
        assert calls == [1, 1, 1]
        assert merging == [True, True, False, False, False]

    def test_wrapped_module(self):
        wraps = tf.__version__ >= "2.13"  # 2.12 makes no such wrappers
        assert (tf_private.wrapped_module(tf.compat.v1.train) is not None) == wraps
        assert tf_private.wrapped_module(tf.train) is None

    def test_tracking(self):
        scale, other = tf_lso.DynamicLossScale(8.0), tf.Variable(1.0)
        tf_private.track(scale, other, "other")
        assert tf_private.children(scale)["other"] is other
        assert "current_loss_scale" in tf_private.children(scale)
        assert "skipped_in_a_row" not in tf_private.children(scale)
        assert "skipped_in_a_row" in tf_private.children(scale, "savedmodel")
        assert isinstance(tf.train.Checkpoint(), tf_private.trackable())
        delegating = tf_private.delegating_trackable()(tf.train.Checkpoint(x=other))
        assert tf_private.children(delegating)["x"] is other

    def test_dependencies(self, tmp_path):
        class Late(tf_private.Dependencies, tf_private.trackable()):
            def _dependency(self, name, known):
                asked.append(name)
                return found if name == "x" else super()._dependency(name, known)

            def _awaited_dependencies(self):
                asked.append("awaited")
                return super()._awaited_dependencies()

        asked, found, late = [], tf.Variable(0.0), Late()
        saved = tf.train.Checkpoint(x=tf.Variable(3.0), y=tf.Variable(4.0))
        path = tf.train.Checkpoint(late=saved).write(str(tmp_path / "saved"))
        tf.train.Checkpoint(late=late).read(path)
        assert float(found) == 3.0
        assert {"x", "y", "awaited"} <= set(asked)
        assert "y" in tf_private.deferred(late)


# --- What Keras 3's do.


# Takes a name away from the class of optimizers, before tf_lso is used.
RENAMED = """
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


def _says(message, name):
    parts = (f"keras {keras.__version__}", name, "keras3_private.py", "Install")
    return all(part in message for part in parts)


@pytest.mark.keras3
@WITH_OTHER_NAMES
class TestKeras3:
    @pytest.fixture
    def variable(self):
        return keras.Variable(1.0, name="x")

    @pytest.fixture
    def optimizer(self, variable):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build([variable])
        return optimizer

    def test_variables(self, optimizer, variable):
        assert any(optimizer._learning_rate is own for own in optimizer.variables)
        schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
        assert keras.optimizers.SGD(schedule)._learning_rate is schedule
        assert [v is variable for v in optimizer._trainable_variables] == [True]
        nothing = keras.optimizers.SGD()
        nothing.build([])
        assert nothing.built and nothing._trainable_variables == []
        known, key = keras3_private.known_variables(optimizer)
        assert known == {key(variable): 0}
        assert key(keras.Variable(1.0)) not in known
        own = keras.optimizers.LossScaleOptimizer(optimizer)._variables
        assert all(isinstance(one, keras_versions.variable_of_keras3()) for one in own)

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

    def test_the_strategy_is_asked_at_each_step(self, optimizer):
        assert optimizer._distribution_strategy is tf.distribute.get_strategy()
        optimizer.__dict__["_distribution_strategy"] = None
        with pytest.raises(AttributeError, match="NoneType"):
            optimizer.apply([tf.constant(1.0)])

    @pytest.mark.parametrize("name", keras3_private._OF_CLASS if HAS_KERAS3 else ())
    def test_a_class_without_a_name_is_refused_at_import(self, name):
        """Without `_all_reduce_sum_gradients` two replicas would sum twice, in silence."""
        (message,) = run(RENAMED.format(name=name), by=preloaded.run)
        assert _says(message, name)

    @pytest.mark.parametrize("name", keras3_private._OF_INSTANCE if HAS_KERAS3 else ())
    def test_an_optimizer_without_a_name_is_refused(self, name):
        inner = keras.optimizers.SGD(0.5)
        inner.__dict__["renamed"] = inner.__dict__.pop(name)
        with pytest.raises(ImportError) as caught:
            keras3_private.check_instance(inner)
        assert _says(str(caught.value), name)

    def test_a_wrapped_optimizer_is_checked(self):
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
