"""Access to private names of TensorFlow.

Each private name is looked up when it is used, so tf_lso can be imported even if TensorFlow
has moved a name.
"""

import contextlib
import functools
import importlib
import importlib.util
import random
from typing import Any

# Maps a module to the module that contains the same names in TensorFlow 2.12.
_IN_TENSORFLOW_2_12 = {"tensorflow.python.eager.record": "tensorflow.python.eager.tape"}


def moved(framework: str, version: str, name: str, file: str) -> ImportError:
    """Return the error to raise if `framework` lacks a private name that `file` uses."""
    return ImportError(
        f"{framework} {version} has no {name}, which tf_lso uses in {file}. Install a "
        f"version of {framework} that tf_lso supports."
    )


@functools.cache
def _find(module, path):
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


@functools.cache
def tf():
    return importlib.import_module("tensorflow")


# --- Tracing and recording.


def in_xla(graph):
    """Return whether `graph`, or a graph around it, belongs to a function that XLA compiles."""
    module = "tensorflow.python.ops.control_flow_util"
    return _find(module, "GraphOrParentsInXlaContext")(graph)


def is_recording():
    return _find("tensorflow.python.eager.record", "could_possibly_record")()


def outermost(graph):
    """Return the graph of the outermost function around `graph`, or `graph` itself."""
    eager = tf().compat.v1.executing_eagerly_outside_functions()
    around = getattr(graph, "outer_graph", None)
    # Unless eager mode is off, even the graph of the outermost `tf.function` has an outer
    # graph, which does not belong to a function.
    while around is not None and (around.building_function or not eager):
        graph, around = around, getattr(around, "outer_graph", None)
    return graph


def eager_context():
    """Return the context whose `_seed` and `_rng` are the seeds of eager operations."""
    return _find("tensorflow.python.eager.context", "context")()


def use_seed(seed):
    """Make eager operations use `seed`. Return a function that restores the old seed."""
    context = eager_context()
    context.ensure_initialized()
    before = {name: vars(context).get(name) for name in ("_seed", "_rng")}
    context._seed, context._rng = seed, random.Random(seed)
    return functools.partial(vars(context).update, before)


def generators():
    """Return the module that holds the `global_generator` of `tf.random`."""
    return importlib.import_module("tensorflow.python.ops.stateful_random_ops")


# --- Replicas and mixed precision.


def needs_no_merge_call():
    name = "__internal__.distribute.strategy_supports_no_merge_call"
    return _find("tensorflow", name)()


def strategy_of(variable):
    # Variables of a strategy with one device lack the public `distribute_strategy`.
    return getattr(variable, "_distribute_strategy", None)


def once_for_replicas(function, *args):
    """Call `function` once for all replicas if they can merge, and otherwise once for each."""
    if needs_no_merge_call():
        function(*args)
    else:
        replica = tf().distribute.get_replica_context()
        replica.merge_call(lambda _: function(*args))


def graph_rewrite_is_on():
    name = "__internal__.train.is_mixed_precision_graph_rewrite_enabled"
    return _find("tensorflow", name)()


def uses_locking(optimizer):
    return getattr(optimizer, "_use_locking", False)


def schedule(name):
    """Return a class of learning rate schedules from TensorFlow's own copy of Keras."""
    return _find("tensorflow.python.keras.optimizer_v2.learning_rate_schedule", name)


def wrapped_module(module: Any) -> Any:
    """Return the module whose names a module of `tf.compat.v1` copies, or None."""
    return vars(module).get("_tfmw_wrapped_module")


# --- Checkpoints. TensorFlow's public classes store each dependency under the name of its
# attribute. But the state of a loss scale needs the names of TensorFlow 2.0-2.15.


def trackable():
    return _find("tensorflow", "__internal__.tracking.Trackable")


def delegating_trackable():
    """Return the base class of objects that checkpoints replace by another object."""
    return _find("tensorflow", "__internal__.tracking.DelegatingTrackableMixin")


def store_instead(owner, other):
    """Make checkpoints store `other` in place of the delegating trackable `owner`."""
    owner._trackable = other


def restore_slot(owner, *args, **kwargs):
    """Make the optimizer `owner` create or restore a slot variable of a checkpoint."""
    return owner._create_or_restore_slot_variable(*args, **kwargs)


def is_of_tracking(name):
    """Return whether TensorFlow uses the attribute `name` to track dependencies."""
    return name.startswith("_self_")


def track(owner, child, name, overwrite=False):
    owner._track_trackable(child, name, overwrite=overwrite)


def children(owner, save_type="checkpoint", **kwargs):
    return owner._trackable_children(save_type, **kwargs)


def child(owner, name, known=None):
    # In TensorFlow 2.12 the method `_lookup_dependency` has only the parameter `name`.
    return owner._lookup_dependency(name, *([] if known is None else [known]))


def without_values():
    """Return a dependency without values. No restore reports it as missing in a file."""
    # TensorFlow wraps a list that becomes an attribute. `assert_existing_objects_matched` and
    # `assert_consumed` ignore such a list if it is empty.
    holder = tf().Module()
    holder.empty = []
    return holder.empty


def restore_nothing(owner):
    """Make a restore find no dependencies of `owner`."""
    object.__setattr__(owner, "_lookup_dependency", lambda *_: None)


def replace_lookup(owner, function):
    """Make `function(original_lookup, *args)` find `owner`'s dependencies in a restore."""
    lookup = functools.partial(function, owner._lookup_dependency)
    object.__setattr__(owner, "_lookup_dependency", lookup)


def deferred(owner):
    """Return {name: pending restores} for dependencies that `owner` does not have yet."""
    return owner._deferred_dependencies


@contextlib.contextmanager
def restored_afterwards(owner):
    """Delay the pending restores of `owner` to the end of the block, and yield their names."""
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
    """A base class for classes that decide what checkpoints store for their instances.

    In a list of base classes, `Dependencies` must come before classes of TensorFlow or Keras.
    `_dependencies` returns the objects that a checkpoint saves for the instance. During a
    restore, `_dependency` returns the object that has a given name. `_awaited_dependencies`
    returns the pending restores of objects that do not exist yet.
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
