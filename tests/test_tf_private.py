"""What tf_lso has of TensorFlow's private parts does what it needs.

`test_private_names.py` has their names, and the files that may touch them.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.programs_in_processes import run
from tf_lso import tf_private


def test_in_xla():
    seen = []
    for compiled in (True, False):
        tf.function(
            lambda: seen.append(tf_private.in_xla(tf.compat.v1.get_default_graph())),
            jit_compile=compiled,
        )()
    assert seen == [True, False]


def test_is_recording():
    assert not tf_private.is_recording()
    with tf.GradientTape():
        assert tf_private.is_recording()
    x = tf.Variable(1.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        assert tf_private.is_recording()


def test_graph_around():
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


def test_outermost():
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


def test_is_within():
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


def test_has_returned():
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


def test_once_for_replicas(mirrored2):
    calls = []
    for strategy in (tf.distribute.get_strategy(), mirrored2):
        strategy.run(lambda: tf_private.once_for_replicas(calls.append, 1))
    assert calls == [1, 1]


def test_merging(mirrored2):
    seen = []

    def ask():
        seen.append(tf_private.needs_no_merge_call())

    ask()
    tf.distribute.OneDeviceStrategy("CPU:0").run(ask)
    mirrored2.run(ask)
    assert seen == [True, False, False, False]


def test_wrapped_module():
    wraps = tf.__version__ >= "2.13"  # 2.12 makes no such wrappers
    assert (tf_private.wrapped_module(tf.compat.v1.train) is not None) == wraps
    assert tf_private.wrapped_module(tf.train) is None


def test_tracking():
    scale, other = tf_lso.DynamicLossScale(8.0), tf.Variable(1.0)
    tf_private.track(scale, other, "other")
    assert tf_private.children(scale)["other"] is other
    assert "current_loss_scale" in tf_private.children(scale)
    assert "skipped_in_a_row" not in tf_private.children(scale)
    assert "skipped_in_a_row" in tf_private.children(scale, "savedmodel")
    assert isinstance(tf.train.Checkpoint(), tf_private.trackable())


def test_delegating():
    other = tf.train.Checkpoint(x=tf.Variable(1.0))
    delegating = tf_private.delegating_trackable()(other)
    assert tf_private.children(delegating)["x"] is other.x


def test_dependencies(tmp_path):
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


def test_a_name_that_moved_is_told():
    with pytest.raises(ImportError, match=r"has no tensorflow\.no\.such.*tf_private"):
        tf_private._find("tensorflow", "no.such")


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
