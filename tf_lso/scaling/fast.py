"""What only speed needs. Each trick says what a step would take without it."""

import functools
from typing import NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, tf_private

# The most tensors in one call of `packed`. Models of all sizes share the graph of a full
# call; there are at most this many graphs of shorter ones, about 50 kB for each tensor.
MOST = 64
# The most numbers of a tensor that `joined` copies.
_SMALL = 4096


def either(condition, true_fn, false_fn, of=()):
    """Return what `tf.cond` of two branches that work on the tensors or slices `of` does.

    XLA would run both branches of a `tf.cond` and select from their results, which copies
    all variables of an optimizer. XLA keeps a `tf.switch_case` as it is. But that cannot
    take a tensor of unknown shape, such as the summed rows of slices. A step of ResNet-50
    around a Keras 3 optimizer added 0.95 of what the framework's own wrapper adds without
    this, and 0.86 with it.
    """
    if not graphs.in_xla():
        return tf.cond(condition, true_fn, false_fn)
    condition = _not_known_before_it_runs(condition)
    if all(isinstance(v, tf.Tensor) and v.shape.is_fully_defined() for v in of):
        index = tf.cast(condition, tf.int32)
        return _not_known_before_it_runs(tf.switch_case(index, [false_fn, true_fn]))
    return tf.cond(condition, true_fn, false_fn)


def _not_known_before_it_runs(tensor):
    """Return `tensor`, such that XLA does not try to compute it while it compiles.

    XLA looks whether a condition, or what a branch reads, is a constant: it computes all
    that it depends on, one number after the other, with gradients that it makes up. It
    does not look behind a loop, and removes a loop of one iteration afterwards. The first
    call of a step of ResNet-50 around a legacy Adam took 78 seconds of one processor
    without this, and 15 with it; around one of Keras 3 it was 83 and 21.
    """

    def is_first(iteration, _):
        return iteration < 1

    def go_on(iteration, same):
        return iteration + 1, same

    return tf.while_loop(is_first, go_on, (tf.constant(0), tensor))[1]


def seldom(branch):
    """Return `branch`, which seldom runs, as a function that is one operation.

    TensorFlow passes over the operations of the branch that does not run one by one. A
    step of 400 small variables added 1.25 of what the framework's own wrapper adds
    without this, and 0.85 with it.
    """
    if not graphs.in_plain_function():
        return branch
    try:
        return tf.function(
            branch, autograph=False, experimental_attributes={"_noinline": True}
        )
    except ValueError:  # TensorFlow 2.12 takes no such attribute
        return branch


class Quotient(NamedTuple):
    """What a traced function has divided by a scalar to make a tensor."""

    dividend: tf.Tensor  # of the dtype of the tensor
    divisor: tf.Tensor  # of the dtype in which the division was, which may be wider

    def again(self):
        """Return the quotient, made by operations of the running code."""
        wide = tf.cast(self.dividend, self.divisor.dtype)
        return tf.cast(wide / self.divisor, self.dividend.dtype)


def quotient(tensor):
    """Return the `Quotient` that a tensor is, or None."""
    is_tensor = isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating
    if not is_tensor or hasattr(tensor, "numpy"):
        return None  # slices, other numbers, and tensors of eager code
    division = tensor.op
    was_narrowed = division.type == "Cast"  # 16 bits are divided as 32
    if was_narrowed:
        division = division.inputs[0].op
    if division.type != "RealDiv" or division.inputs[1].shape.rank != 0:
        return None
    dividend, divisor = division.inputs
    if was_narrowed:
        # Only float32 holds all numbers of 16 bits: no number is lost on the way.
        is_ours = tensor.dtype.size == 2 and division.outputs[0].dtype == tf.float32
        if not is_ours or dividend.op.type != "Cast":
            return None
        dividend = dividend.op.inputs[0]
    return Quotient(dividend, divisor) if dividend.dtype == tensor.dtype else None


def divided_here(gradients):
    """Return a list of gradients, with those that were just divided divided again, here.

    A branch of a traced step calls this first. What a branch reads from outside must be
    stored before the branch begins. What it divides itself is still in the processor's
    cache when the variable is updated, and XLA divides and updates in one loop. Nobody
    uses the first quotients then, so TensorFlow does not compute them. Under XLA a step of
    ResNet-50 added 0.45 to 0.58 of what the framework's own wrapper adds without this, and
    0.19 to 0.26 with it.
    """
    here, results = tf.compat.v1.get_default_graph(), []
    for gradient in gradients:
        found = quotient(gradient)
        if found is not None and gradient.graph is not here:
            gradient = found.again()
        results.append(gradient)
    return results


def joined(tensors):
    """Return tensors that hold the same numbers; the small ones of a dtype are one vector.

    An operation of a traced step costs some microseconds, however little it computes. To
    join a tensor is one copy, to reduce it would be several operations. A step of 400 small
    variables around a legacy optimizer added 0.97 of what the framework's own wrapper adds
    without this, and 0.87 with it; around one of Keras 3 it was 0.84 and 0.62.
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
    """Return the graph of a call of `function`, and the dtypes of what it returns."""
    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]
    with tf.init_scope():
        graph = tf.function(
            lambda *tensors: function(list(tensors[:count]), *tensors[count:]),
            autograph=False,
        ).get_concrete_function(*specs)
    return graph, [output.dtype for output in graph.outputs]


def packed(function=None, *, in_graphs=False):
    """Return `function` such that one call of the runtime runs it on `MOST` tensors.

    An eager operation costs about ten microseconds, however little it computes. The
    function is one of a module, without effects or variables. It takes a list of tensors,
    then tensors, and returns a list. Long lists are cut into parts of `MOST` tensors, an
    even number, so that pairs stay together.

    With `in_graphs` a `tf.function` holds the calls too. A call knows no shapes, so the
    results must have some of their own. With 400 small variables on two replicas, around
    a legacy optimizer, a process held 1,342 MB without this, 1,288 MB with it.
    """
    if function is None:
        return functools.partial(packed, in_graphs=in_graphs)

    @functools.wraps(function)
    def run(tensors, *others):
        is_called = tf.executing_eagerly() or (in_graphs and graphs.in_plain_function())
        # Tapes and accumulators must see each operation.
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
