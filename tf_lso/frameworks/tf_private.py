"""The private names of TensorFlow that tf_lso uses: no public name does the same.

A name is looked up when it is needed, so a TensorFlow that has moved it can still import
tf_lso. tests/test_private_names.py fails when a name has moved or does something else.
"""

import contextlib
import functools
import importlib
import importlib.util
from typing import Any

# Module -> the one that has its names in TensorFlow 2.12.
_IN_TENSORFLOW_2_12 = {"tensorflow.python.eager.record": "tensorflow.python.eager.tape"}


def moved(framework: str, version: str, name: str, file: str) -> ImportError:
    """Return the error for a private name, used in a file, that a framework has not."""
    return ImportError(
        f"{framework} {version} has no {name}, which tf_lso uses in {file}. Install a "
        f"version of {framework} that tf_lso supports."
    )


@functools.cache
def _find(module, path):
    """Return what the dotted path of a private name in a module stands for, or raise."""
    older = _IN_TENSORFLOW_2_12.get(module)
    if older is not None and importlib.util.find_spec(module) is None:
        module = older
    try:
        return functools.reduce(
            getattr, path.split("."), importlib.import_module(module)
        )
    except (ImportError, AttributeError) as error:
        name = f"{module}.{path}"
        raise moved("TensorFlow", tf().__version__, name, __file__) from error


def tf():
    """Return TensorFlow, which this module does not import."""
    return importlib.import_module("tensorflow")


# --- What is being traced or recorded.


def in_xla(graph):
    """Return whether XLA, which cannot print, compiles a graph."""
    module = "tensorflow.python.ops.control_flow_util"
    return _find(module, "GraphOrParentsInXlaContext")(graph)


def is_recording():
    """Return whether a tape or a forward accumulator may record."""
    return _find("tensorflow.python.eager.record", "could_possibly_record")()


def graph_around(graph):
    """Return the graph that a branch, a loop's body or a function is traced in, or None."""
    return getattr(graph, "outer_graph", None)


def outermost(graph):
    """Return the function that a graph is traced in, the outermost one, or `graph`."""
    eager = tf().compat.v1.executing_eagerly_outside_functions()
    around = graph_around(graph)
    # Around the functions of eager code there is a graph that eager code never uses.
    while around is not None and (around.building_function or not eager):
        graph, around = around, graph_around(around)
    return graph


def is_within(graph):
    """Return whether tensors of `graph` can be used in the graph being built."""
    # They can in the graph itself and in its branches and loops. A function in it may be
    # called from another graph later.
    here = tf().compat.v1.get_default_graph()
    while here is not graph and getattr(here, "is_control_flow_graph", False):
        here = graph_around(here)
    return here is graph


def has_returned(graph):
    """Return whether the function of a graph was traced to its end, and gave something."""
    if not graph.building_function:
        return True
    # That of a function that failed has neither results nor operations that must run.
    return bool(graph.control_outputs) or graph.structured_outputs is not None


def eager_context():
    """Return what holds the seeds of eager operations: `_seed` and `_rng`."""
    return _find("tensorflow.python.eager.context", "context")()


def generators():
    """Return the module whose `global_generator` is that of `tf.random`, or None."""
    return importlib.import_module("tensorflow.python.ops.stateful_random_ops")


# --- Replicas and mixed precision.


def needs_no_merge_call():
    """Return whether the strategy at hand updates variables without `merge_call`."""
    name = "__internal__.distribute.strategy_supports_no_merge_call"
    return _find("tensorflow", name)()


def strategy_of(variable):
    """Return the strategy that a variable was made under, or None."""
    # The public `distribute_strategy` is missing where the strategy has one device.
    return getattr(variable, "_distribute_strategy", None)


def once_for_replicas(function, *args):
    """Call a function once for all replicas, which share what it makes."""
    if needs_no_merge_call():
        function(*args)
    else:
        replica = tf().distribute.get_replica_context()
        replica.merge_call(lambda _: function(*args))


def graph_rewrite_is_on():
    """Return whether `enable_mixed_precision_graph_rewrite` was called."""
    name = "__internal__.train.is_mixed_precision_graph_rewrite_enabled"
    return _find("tensorflow", name)()


def schedule(name):
    """Return a learning-rate schedule of the Keras that TensorFlow uses itself."""
    return _find("tensorflow.python.keras.optimizer_v2.learning_rate_schedule", name)


def wrapped_module(module: Any) -> Any:
    """Return the module that a module of tf.compat.v1 wraps, whose names it copies."""
    return vars(module).get("_tfmw_wrapped_module")


# --- Checkpoints. The public classes take the names of dependencies from attributes;
# checkpoints of TensorFlow 2.0-2.15 have names of their own.


def trackable():
    """Return the base class of all that a checkpoint may hold."""
    return _find("tensorflow", "__internal__.tracking.Trackable")


def delegating_trackable():
    """Return the base class of an object that a checkpoint holds as another one."""
    return _find("tensorflow", "__internal__.tracking.DelegatingTrackableMixin")


def track(owner, child, name, overwrite=False):
    """Make `child` the dependency of `owner` with this name in checkpoints."""
    owner._track_trackable(child, name, overwrite=overwrite)


def children(owner, save_type="checkpoint", **kwargs):
    """Return the dependencies of an object by their names, a dict."""
    return owner._trackable_children(save_type, **kwargs)


def child(owner, name, known=None):
    """Return the dependency of an object with this name, or None."""
    # TensorFlow 2.12 takes the name alone.
    return owner._lookup_dependency(name, *([] if known is None else [known]))


def replace_lookup(owner, function):
    """Let `function(lookup before, name, ...)` find the children that a restore asks for."""
    lookup = functools.partial(function, owner._lookup_dependency)
    object.__setattr__(owner, "_lookup_dependency", lookup)


def deferred(owner):
    """Return the values that wait for dependencies an object will have, a dict."""
    return owner._deferred_dependencies


@contextlib.contextmanager
def restored_afterwards(owner):
    """Let values that wait for children of `owner` wait until the block has ended.

    In the block the children may be made, and changed: then they are restored. The block
    gets the names of the children.
    """
    waiting = deferred(owner)
    held = dict(waiting)
    waiting.clear()
    try:
        yield list(held)
    finally:
        waiting.update(held)
    for name in held:
        found = child(owner, name)
        if found is not None:
            owner._handle_deferred_dependencies(name, found)


class Dependencies:
    """Lets a class say what checkpoints hold of it, by methods of our own names.

    Such a class stands before that of TensorFlow or Keras in the order of bases, and may
    override the last three methods. They do what the functions above do.
    """

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        return self._dependencies(save_type, **kwargs)

    def _lookup_dependency(self, name, cached_dependencies=None):
        return self._dependency(name, cached_dependencies)

    @property
    def _deferred_dependencies(self):
        return self._awaited_dependencies()

    def _dependencies(self, save_type, **kwargs):
        return children(super(), save_type, **kwargs)

    def _dependency(self, name, known):
        return child(super(), name, known)

    def _awaited_dependencies(self):
        return deferred(super())
