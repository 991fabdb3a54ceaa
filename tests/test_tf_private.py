"""The private names of TensorFlow: that they do what we rely on, each in one file."""

import ast
import inspect
import random
import re
from pathlib import Path

import pytest
import tensorflow as tf

import tf_lso
from tests.programs_in_processes import run
from tf_lso import tf_private

_PACKAGE = Path(__file__).parents[1] / "tf_lso"
_OURS = "tf_private.py"
_VARIABLES = "variables.py"
_REWRITE = "policies/graph_rewrite.py"

# Private name -> (the one file that uses it, what shows that it still does what we need).
NAMES = {
    "tensorflow.python.ops.control_flow_util": (_OURS, "in_xla"),
    "GraphOrParentsInXlaContext": (_OURS, "in_xla"),
    "tensorflow.python.eager.record": (_OURS, "is_recording"),
    "could_possibly_record": (_OURS, "is_recording"),
    "tensorflow.python.framework.op_callbacks": (_OURS, "op_callbacks"),
    "tensorflow.python.eager.context": (_OURS, "eager_context"),
    "tensorflow.python.ops.stateful_random_ops": (_OURS, "generators"),
    "outer_graph": (_OURS, "graph_around"),
    "is_control_flow_graph": (_OURS, "is_within"),
    "control_outputs": (_OURS, "has_returned"),
    "structured_outputs": (_OURS, "has_returned"),
    "__internal__.distribute.strategy_supports_no_merge_call": (_OURS, "merging"),
    "__internal__.train.is_mixed_precision_graph_rewrite_enabled": (_OURS, "rewrite"),
    "_tfmw_wrapped_module": (_OURS, "wrapped_module"),
    "__internal__.tracking.Trackable": (_OURS, "tracking"),
    "__internal__.tracking.DelegatingTrackableMixin": (_OURS, "delegating"),
    "_track_trackable": (_OURS, "tracking"),
    "_trackable_children": (_OURS, "tracking"),
    "_lookup_dependency": (_OURS, "dependencies"),
    "_deferred_dependencies": (_OURS, "dependencies"),
    "_serialize_to_tensors": (_VARIABLES, "saved_as"),
    "_restore_from_tensors": (_VARIABLES, "saved_as"),
    "_use_locking": (_REWRITE, "wrapper_of_tensorflow_1"),
    "_doing_dynamic_loss_scaling": (_REWRITE, "wrapper_of_tensorflow_1"),
    "_unscale_grads": (_REWRITE, "wrapper_of_tensorflow_1"),
}

# Names of TensorFlow's classes that are also ours, Keras's or tf_keras's, with another
# meaning where they stand.
OTHERS = {
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
    "_write",
}


class Shown:
    """One method a behavior that we rely on, named in `NAMES`."""

    def in_xla(self):
        seen = []
        for compiled in (True, False):
            tf.function(
                lambda: seen.append(
                    tf_private.in_xla(tf.compat.v1.get_default_graph())
                ),
                jit_compile=compiled,
            )()
        assert seen == [True, False]

    def is_recording(self):
        assert not tf_private.is_recording()
        with tf.GradientTape():
            assert tf_private.is_recording()
        x = tf.Variable(1.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
            assert tf_private.is_recording()

    def op_callbacks(self):
        seen, callbacks = [], tf_private.op_callbacks()

        def callback(op_type, inputs, attrs, outputs, op_name=None, graph=None):
            seen.append((op_type, float(inputs[0]), float(outputs[0])))
            return outputs

        callbacks.add_op_callback(callback)
        try:
            tf.exp(tf.constant(0.0))
        finally:
            callbacks.remove_op_callback(callback)
        tf.exp(tf.constant(0.0))
        assert seen == [("Exp", 0.0, 1.0)]

    def eager_context(self):
        context = tf_private.eager_context()
        before = {name: vars(context).get(name) for name in ("_seed", "_rng")}
        drawn = []
        for _ in range(2):
            context._seed, context._rng = 123456, random.Random(123456)
            drawn.append(context._internal_operation_seed())
        vars(context).update(before)
        assert drawn[0] == drawn[1]

    def generators(self):
        module = tf_private.generators()
        before = module.global_generator
        assert tf.random.get_global_generator() is module.global_generator
        module.global_generator = before

    def graph_around(self):
        graphs = []

        @tf.function
        def outer(x):
            graphs.append(tf.compat.v1.get_default_graph())

            def branch():
                graphs.append(tf.compat.v1.get_default_graph())
                return x

            return tf.cond(x > 0, branch, lambda: x)

        outer.get_concrete_function(tf.constant(1.0))
        assert graphs[0] is not graphs[1]
        assert tf_private.graph_around(graphs[1]) is graphs[0]
        assert tf_private.graph_around(tf.Graph()) is None

    def outermost(self):
        graphs = {}

        @tf.function
        def inner(x):
            graphs["inner"] = tf_private.outermost(tf.compat.v1.get_default_graph())
            return x

        @tf.function
        def outer(x):
            graphs["outer"] = tf.compat.v1.get_default_graph()
            return tf.cond(x > 0, lambda: inner(x), lambda: x)

        outer.get_concrete_function(tf.constant(1.0))
        assert graphs["inner"] is graphs["outer"]
        with tf.Graph().as_default() as graph:
            assert tf_private.outermost(graph) is graph

    def is_within(self):
        seen = {}

        @tf.function
        def inner(x, graph):
            seen["function"] = tf_private.is_within(graph())
            return x

        @tf.function
        def outer(x):
            graph = tf.compat.v1.get_default_graph()

            def branch():
                seen["branch"] = tf_private.is_within(graph)
                return inner(x, lambda: graph)

            seen["itself"] = tf_private.is_within(graph)
            return tf.cond(x > 0, branch, lambda: x)

        outer.get_concrete_function(tf.constant(1.0))
        assert seen == {"itself": True, "branch": True, "function": False}

    def has_returned(self):
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

    def once_for_replicas(self, mirrored2):
        calls = []
        for strategy in (tf.distribute.get_strategy(), mirrored2):
            strategy.run(lambda: tf_private.once_for_replicas(calls.append, 1))
        assert calls == [1, 1]

    def merging(self, mirrored2):
        seen = []

        def ask():
            seen.append(tf_private.needs_no_merge_call())

        ask()
        tf.distribute.OneDeviceStrategy("CPU:0").run(ask)
        mirrored2.run(ask)
        assert seen == [True, False, False, False]

    def rewrite(self):
        assert not tf_private.graph_rewrite_is_on()
        mixed_precision = tf.compat.v1.mixed_precision
        mixed_precision.enable_mixed_precision_graph_rewrite(
            tf.compat.v1.train.GradientDescentOptimizer(0.5)
        )
        try:
            assert tf_private.graph_rewrite_is_on()
        finally:
            mixed_precision.disable_mixed_precision_graph_rewrite()

    def wrapped_module(self):
        wraps = tf.__version__ >= "2.13"  # 2.12 makes no such wrappers
        assert (tf_private.wrapped_module(tf.compat.v1.train) is not None) == wraps
        assert tf_private.wrapped_module(tf.train) is None

    def tracking(self):
        scale, other = tf_lso.DynamicLossScale(8.0), tf.Variable(1.0)
        tf_private.track(scale, other, "other")
        assert tf_private.children(scale)["other"] is other
        assert "current_loss_scale" in tf_private.children(scale)
        assert "skipped_in_a_row" not in tf_private.children(scale)
        assert "skipped_in_a_row" in tf_private.children(scale, "savedmodel")
        assert isinstance(tf.train.Checkpoint(), tf_private.trackable())

    def delegating(self):
        other = tf.train.Checkpoint(x=tf.Variable(1.0))
        delegating = tf_private.delegating_trackable()(other)
        assert tf_private.children(delegating)["x"] is other.x

    def dependencies(self, tmp_path):
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

    def saved_as(self, tmp_path):
        class Doubled(tf_private.trackable()):
            def _serialize_to_tensors(self):
                return {"VARIABLE_VALUE": tf.constant(3.0)}

            def _restore_from_tensors(self, restored_tensors):
                values.append(float(restored_tensors["VARIABLE_VALUE"]))
                return tf.no_op()

        values = []
        path = tf.train.Checkpoint(x=Doubled()).write(str(tmp_path / "saved"))
        tf.train.Checkpoint(x=Doubled()).read(path)
        assert values == [3.0]

    def wrapper_of_tensorflow_1(self):
        inner = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        assert inner._use_locking is False
        wrapper = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
        for name in ("_doing_dynamic_loss_scaling", "_unscale_grads"):
            assert callable(getattr(wrapper, name))


@pytest.mark.parametrize("what", sorted({what for _, what in NAMES.values()}))
def test_does_what_we_rely_on(what, request):
    show = getattr(Shown(), what)
    fixtures = inspect.signature(show).parameters
    try:
        show(*map(request.getfixturevalue, fixtures))
    except (AttributeError, ImportError, AssertionError) as error:
        names = [name for name, (_, shown) in NAMES.items() if shown == what]
        files = {NAMES[name][0] for name in names}
        pytest.fail(f"TensorFlow changed one of {names}; see tf_lso/{files}: {error!r}")


def test_a_name_that_moved_is_told():
    with pytest.raises(ImportError, match=r"has no tensorflow\.no\.such.*tf_private"):
        tf_private._find("tensorflow", "no.such")


# --- Where our sources use them.


def _private_names():
    """The names that begin with an underscore in classes of TensorFlow that we meet."""
    kinds = [
        tf_private.trackable(),
        tf_private.delegating_trackable(),
        tf.train.Checkpoint,
        tf.compat.v1.train.Optimizer,
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
    found = {name for kind in kinds for name in dir(kind)}
    return {name for name in found if re.match("_[^_]", name)}


def uses(path, private):
    """The private names of TensorFlow that a source file uses, defines or spells."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if "tensorflow.python" in a.name)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").startswith("tensorflow.python"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            text = ast.unparse(node.args[0]).strip("'") if node.args else ""
            yield from [text] * text.startswith("tensorflow.python")
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if node.attr in private:
                yield node.attr
            elif text.startswith("tf.__internal__.") and text.count(".") == 3:
                yield text.partition(".")[2]
        elif isinstance(node, ast.FunctionDef) and node.name in private:
            yield node.name
        elif isinstance(node, ast.Constant) and node.value in private:
            yield node.value


def test_each_is_used_in_one_file_and_stands_in_the_table():
    private = (_private_names() | set(NAMES)) - OTHERS
    wrong = []
    found = set()
    for path in sorted(_PACKAGE.rglob("*.py")):
        file = path.relative_to(_PACKAGE).as_posix()
        for name in uses(path, private):
            found.add(name)
            if NAMES.get(name, (None,))[0] != file:
                wrong.append(f"{file}: {name}")
    assert not wrong, f"Put these into tf_lso/{_OURS} and into NAMES: {wrong}"
    assert found == set(NAMES), "These are used no more; take them out of NAMES."


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from tensorflow.python.ops import no", "tensorflow.python.ops.no"),
        ("import tensorflow.python.no", "tensorflow.python.no"),
        (
            "importlib.import_module('tensorflow.python.no')",
            "tensorflow.python.no",
        ),
        ("tf.__internal__.no.such()", "__internal__.no.such"),
        ("x._track_trackable(y)", "_track_trackable"),
        ("getattr(x, '_use_locking')", "_use_locking"),
        ("def _trackable_children(self): pass", "_trackable_children"),
    ],
)
def test_a_use_is_found(source, name, tmp_path):
    path = tmp_path / "source.py"
    path.write_text(source)
    assert name in set(uses(path, _private_names() | set(NAMES)))


WITHOUT_THEM = """
    import sys
    import tensorflow as tf
    for name in ("ops.control_flow_util", "eager.record"):
        sys.modules[f"tensorflow.python.{name}"] = None
    tf.__internal__ = None

    import tf_lso
    from tf_lso import install, tf_private, uninstall
    try:
        tf_lso.DynamicLossScale
    except ImportError as error:
        print(error)
"""


def test_the_import_needs_none():
    said = run(WITHOUT_THEM)[-1]
    assert "has no tensorflow.__internal__.tracking.Trackable" in said
    assert "tf_private.py" in said
