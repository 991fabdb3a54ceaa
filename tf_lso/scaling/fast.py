"""Tricks that make steps faster. Each docstring says what its trick saves."""

import functools
from typing import NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, tf_private

# The most tensors in one call of a `packed` function. All models share the graph for this
# number of tensors. Each smaller number of tensors needs a graph of its own. A graph takes
# about 50 kB of memory for each tensor.
MOST = 64
# `joined` copies only tensors that have at most this many numbers.
_SMALL = 4096


def either(condition, true_fn, false_fn, of=()):
    """Return `tf.cond(condition, true_fn, false_fn)`, in the form that is fastest.

    XLA runs both branches of a `tf.cond` and selects from their results, which copies all
    variables of an optimizer. Of a `tf.switch_case` XLA runs only one branch. But a
    `tf.switch_case` does not accept tensors of unknown shape, such as the summed rows of
    slices, so `of` lists the tensors or slices that the branches use. A step of ResNet-50
    around a Keras 3 optimizer adds 0.86 of what the framework's own wrapper adds. Without
    this trick it adds 0.95.
    """
    if not graphs.in_xla():
        return tf.cond(condition, true_fn, false_fn)
    condition = _not_known_before_it_runs(condition)
    if all(isinstance(v, tf.Tensor) and v.shape.is_fully_defined() for v in of):
        index = tf.cast(condition, tf.int32)
        return _not_known_before_it_runs(tf.switch_case(index, [false_fn, true_fn]))
    return tf.cond(condition, true_fn, false_fn)


def _not_known_before_it_runs(tensor):
    """Return `tensor` in a form that XLA does not try to compute while it compiles.

    XLA checks whether a condition, or a value that a branch reads, is a constant. For that
    it interprets everything that the value depends on, number by number, with invented
    gradients. It stops at a loop, so this function puts the value through a loop of one
    iteration, which XLA later removes. With this trick the first call of a step of ResNet-50
    takes 15 seconds of one processor around a legacy Adam, and 21 seconds around an Adam of
    Keras 3. Without this trick it takes 78 and 83 seconds.
    """

    def is_first(iteration, _):
        return iteration < 1

    def go_on(iteration, same):
        return iteration + 1, same

    return tf.while_loop(is_first, go_on, (tf.constant(0), tensor))[1]


def seldom(branch):
    """Wrap a rarely taken branch in one call operation, so that skipping it is cheap.

    TensorFlow visits each operation of the branch that it does not run. With this trick a
    step of 400 small variables adds 0.85 of what the framework's own wrapper adds. Without
    this trick it adds 1.25.
    """
    if not graphs.in_plain_function():
        return branch
    try:
        return tf.function(
            branch, autograph=False, experimental_attributes={"_noinline": True}
        )
    except ValueError:  # TensorFlow 2.12 does not accept this attribute
        return branch


class Quotient(NamedTuple):
    """The division by a scalar whose result is a tensor of a traced function."""

    dividend: tf.Tensor  # of the same dtype as the tensor
    divisor: tf.Tensor  # of the dtype in which the division is done, which may be wider

    def again(self):
        """Repeat the division with new operations in the graph that is being built."""
        wide = tf.cast(self.dividend, self.divisor.dtype)
        return tf.cast(wide / self.divisor, self.dividend.dtype)


def quotient(tensor):
    """Return the `Quotient` that made `tensor`, or None if it was not made by a division."""
    is_tensor = isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating
    if not is_tensor or hasattr(tensor, "numpy"):
        return None  # slices, integers, and tensors of eager code
    division = tensor.op
    was_narrowed = division.type == "Cast"  # numbers of 16 bits are divided in float32
    if was_narrowed:
        division = division.inputs[0].op
    if division.type != "RealDiv" or division.inputs[1].shape.rank != 0:
        return None
    dividend, divisor = division.inputs
    if was_narrowed:
        # Float32 holds every number of 16 bits, so the cast to it loses nothing.
        is_ours = tensor.dtype.size == 2 and division.outputs[0].dtype == tf.float32
        if not is_ours or dividend.op.type != "Cast":
            return None
        dividend = dividend.op.inputs[0]
    return Quotient(dividend, divisor) if dividend.dtype == tensor.dtype else None


def divided_here(gradients):
    """Return a list of the gradients, with the divisions that made them repeated here.

    A branch of a traced step calls this function first. Tensors that a branch reads from
    outside are written to memory before the branch begins. A quotient that the branch
    computes itself is still in the processor's cache when the variable is updated, and XLA
    divides and updates in one loop. The quotients from outside are then unused, so
    TensorFlow does not compute them. Under XLA a step of ResNet-50 adds 0.19 to 0.26 of what
    the framework's own wrapper adds. Without this trick it adds 0.45 to 0.58.
    """
    here, results = tf.compat.v1.get_default_graph(), []
    for gradient in gradients:
        found = quotient(gradient)
        if found is not None and gradient.graph is not here:
            gradient = found.again()
        results.append(gradient)
    return results


def joined(tensors):
    """Return tensors with the same numbers. Small tensors of one dtype become one vector.

    Each operation of a traced step costs some microseconds, however little it computes.
    Joining a tensor to others is one copy, whereas reducing it takes several operations.
    With this trick a step of 400 small variables adds 0.87 of what the framework's own
    wrapper adds around a legacy optimizer, and 0.62 around an optimizer of Keras 3. Without
    this trick it adds 0.97 and 0.84.
    """
    small, others = {}, []
    for tensor in tensors:
        size = tensor.shape.num_elements()  # None if it is not known
        if size is not None and size <= _SMALL:
            small.setdefault(tensor.dtype, []).append(tf.reshape(tensor, [-1]))
        else:
            others.append(tensor)
    return [*others, *(tf.concat(vectors, axis=0) for vectors in small.values())]


@functools.lru_cache(maxsize=1024)
def _graph(function, count, dtypes):
    """Return the graph of `function` for `count` tensors, and the dtypes of its results."""
    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]
    with tf.init_scope():
        graph = tf.function(
            lambda *tensors: function(list(tensors[:count]), *tensors[count:]),
            autograph=False,
        ).get_concrete_function(*specs)
    return graph, [output.dtype for output in graph.outputs]


def packed(function=None, *, in_graphs=False):
    """Decorate `function` so that one eager operation runs it on up to `MOST` tensors.

    Each eager operation costs about ten microseconds, however little it computes. The
    function must be defined at the top of a module, without side effects or variables. Its
    arguments are a list of tensors and any number of further tensors, and it returns a list.
    Lists of more than `MOST` tensors are cut into parts of `MOST` tensors. `MOST` is an even
    number, so pairs stay together.

    If `in_graphs` is True, a `tf.function` contains calls of such operations as well. Inside
    a call the shapes of the tensors are not known, so the shapes of the results must not
    depend on them. With this trick and 400 small variables on two replicas, around a legacy
    optimizer, a process uses 1,288 MB of memory. Without this trick it uses 1,342 MB.
    """
    if function is None:
        return functools.partial(packed, in_graphs=in_graphs)

    @functools.wraps(function)
    def run(tensors, *others):
        is_called = tf.executing_eagerly() or (in_graphs and graphs.in_plain_function())
        # Gradient tapes and forward accumulators must see each operation.
        if not tensors or not is_called or tf_private.is_recording():
            return function(tensors, *others)
        results = []
        for part in [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]:
            arguments = [*part, *others]
            dtypes = tuple([tensor.dtype for tensor in arguments])
            graph, returned = _graph(function, len(part), dtypes)
            # Calling the graph itself would take ten microseconds for each argument.
            results += tf.raw_ops.PartitionedCall(
                args=arguments, Tout=returned, f=graph
            )
        return results

    return run
