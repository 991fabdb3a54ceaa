"""The contract: what must hold for each family, protocol, strategy and mode.

Each case is a function of a `Setting` that contains assertions. `test_contract.py` runs the
cases in the test process. `__main__.py` runs them in processes with four replicas or with
several workers.
"""

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families
from tests.contract.setting import check_equal, check_state
from tf_lso.frameworks import keras3_private

NAN = float("nan")
INF = float("inf")

CASES = {}
MODES = ("eager", "function", "jit")


def case(styles=("legacy", "keras3"), modes=MODES, only=None):
    """Register a contract case for some protocols, modes and families."""

    def register(function):
        function.styles, function.modes, function.only = styles, modes, only
        CASES[function.__name__] = function
        return function

    return register


# TensorFlow 2.12 has limits of its own, see `_runs` and `equals_the_bare_optimizer`.
_IS_2_12 = tf.__version__.startswith("2.12.")


def _runs(name, mode, strategy):
    """Return whether TensorFlow itself supports what a case does."""
    if mode == "jit":
        return not strategy  # TensorFlow cannot compile collectives on CPUs
    workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    # In TensorFlow 2.12, workers cannot sum IndexedSlices in eager code, not even with the bare
    # optimizer: "all_reduce_indexed_slices is not supported in eager mode".
    return not (_IS_2_12 and workers and mode == "eager" and "sparse" in name)


def combinations(families_, strategy, modes=MODES, choice="all"):
    """Yield (case name, family, style, mode) for all cases that can run under `strategy`.

    Args:
      families_: names of optimizer families.
      strategy: a strategy or its name, or None for no strategy.
      modes: the wanted modes, a subset of `MODES`.
      choice: "all" yields all combinations. "styles" yields one protocol for each case, family
        and mode. The protocols take turns, and a strategy swaps them. "families" yields one
        family with one protocol for each case and mode. The families take turns, too. "others"
        yields what "styles" yields and "families" does not.
    """
    for number, (name, function) in enumerate(CASES.items()):
        allowed = [f for f in families_ if function.only is None or f in function.only]
        for mode in function.modes:
            if mode not in modes or not _runs(name, mode, strategy):
                continue
            turn = number + MODES.index(mode)
            for place, family in enumerate(allowed):
                is_its_turn = place == turn % len(allowed)
                if choice == ("others" if is_its_turn else "families"):
                    continue
                styles = function.styles
                if choice != "all":
                    other = turn + bool(strategy) + place
                    styles = [styles[other % len(styles)]]
                for style in styles:
                    yield name, family, style, mode


@case()
def finite_steps_apply_and_count(s):
    optimizer, x, step = s.linear([1.0, 2.0], momentum=0.9, growth=2)
    for _ in range(3):
        step(1.0)
    check_state(optimizer, scale=16.0, count=1, iterations=3)
    # The steps add 1 + 1.9 + 2.71, times the learning rate of 0.1 and the number of replicas.
    check_equal(x, np.array([1.0, 2.0]) - 0.561 * s.replicas, exact=False)


@case()
def nonfinite_on_one_replica_skips_on_all(s):
    optimizer, x, y, step = s.linear([1.0, 2.0], 3.0, momentum=0.9)
    step(1.0, 1.0)
    before = [families.numpy(v).copy() for v in (x, y)]
    for done, bad in enumerate((NAN, INF, -INF)):
        by_replica = s.only_last(bad, 1.0)
        step(1.0, by_replica[::-1] if done == 1 else by_replica)
        check_equal(x, before[0])
        check_equal(y, before[1])
        check_state(optimizer, scale=4.0 / 2**done, count=0, iterations=2 + done)
        kinds = [overflow.kind for overflow in optimizer.last_overflow]
        assert kinds == ["nan" if np.isnan(bad) else "inf"], kinds
        assert int(optimizer.skipped_steps) == done + 1
        assert int(optimizer.consecutive_skipped_steps) == done + 1
    step(1.0, 1.0)
    check_state(optimizer, scale=1.0, count=1, iterations=5)
    assert int(optimizer.skipped_steps) == 3
    assert not bool(optimizer.last_step_skipped)
    assert np.isfinite(families.numpy(x)).all()
    assert not np.array_equal(families.numpy(x), before[0])


def _overflow_of_a_sum_skips(s, gradient, dtype):
    if s.replicas == 1:
        return  # nothing is summed
    optimizer, x = s.optimizer(scale=1.0), s.variable(1.0, dtype)
    step = s.linear_step(optimizer, [x])
    step(gradient)
    check_equal(x, 1.0)
    check_state(optimizer, scale=1.0, count=0, iterations=1)


@case(modes=("eager", "function"))
def overflow_of_the_sum_skips(s):
    _overflow_of_a_sum_skips(s, 3e38, tf.float32)


@case()
def large_gradients_may_overflow_as_scaled_sums(s):
    """The scaled gradients are finite, but their sum is not. No step computes this sum."""
    optimizer, x, y, step = s.linear([0.0, 0.0], 0.0)
    step(3.9e37, 1.0)
    check_equal(x, np.full(2, -3.9e36 * s.replicas), exact=False)
    check_equal(y, -0.1 * s.replicas, exact=False)
    check_state(optimizer, scale=8.0, count=1, iterations=1)


@case(modes=("function",), styles=("legacy",))
def overflow_of_a_float16_sum_skips(s):
    _overflow_of_a_sum_skips(s, 60000.0, tf.float16)


def _equals_one_of_the_scope(s, build, gradients):
    """Check that an Adam made outside the scope trains like an Adam made in the scope."""
    s.built = False
    # On several GPUs, XLA refuses the step counter of a newer Adam of tf_keras that was made
    # outside the scope. That is so without a loss scale, too.
    arguments = {"jit_compile": False} if s.family == "new" else {}
    optimizer = families.wrapped(s.family, "Adam", growth=2, **arguments)
    x = s.variable([1.0, 2.0])
    other, y = s.optimizer("Adam", growth=2), s.variable([1.0, 2.0])
    if build and s.family == "keras3":
        optimizer.build([x])
    for opt, v in ((optimizer, x), (other, y)):
        step = s.linear_step(opt, [v])
        for g in gradients:
            step(g)
    check_equal(x, families.numpy(y))
    return optimizer, other


@case(modes=("eager", "function"))
def optimizer_made_outside_the_scope(s):
    gradients = (1.0, 1.0, s.only_last(NAN, 1.0), 2.0)
    for opt in _equals_one_of_the_scope(s, False, gradients):
        check_state(opt, scale=8.0, count=1, iterations=4)


@case(modes=("eager", "function"), only=("keras3", "new"))
def built_outside_the_scope(s):
    for opt in _equals_one_of_the_scope(s, True, (1.0, 2.0)):
        check_state(opt, scale=16.0, count=0, iterations=2)


def _sparse_step(s, optimizer, x, dense_shape=True):
    """Return a step function of the values and the indices of rows."""

    def replica_step(values, indices):
        def grads_of(scaled_by):
            shape = tf.constant([4, 2], tf.int64) if dense_shape else None
            return tf.IndexedSlices(values * scaled_by, indices, dense_shape=shape)

        if s.style == "legacy":
            scale = optimizer.get_scaled_loss(tf.constant(1.0))
            grads = optimizer.get_unscaled_gradients([grads_of(scale)])
        else:
            grads = [grads_of(optimizer.scale_loss(tf.constant(1.0)))]
        optimizer.apply_gradients(zip(grads, [x]))

    s.prepare(optimizer, [x])
    return s.fed(replica_step, tf.float32, tf.int64)


def _rows(*values):
    return tuple((value, value) for value in values)


@case()
def sparse_gradients_apply(s):
    # The legacy SGD updates the momentum of single rows by an operation that XLA lacks.
    momentum = 0.0 if (s.family, s.mode) == ("legacy", "jit") else 0.9
    for dense_shape in (True, False):
        optimizer, x = s.optimizer(momentum=momentum), s.variable(np.ones((4, 2)))
        step = _sparse_step(s, optimizer, x, dense_shape)
        step(_rows(1.0, 2.0, 1.0), (0, 2, 0))
        check_equal(x, 1 - 0.2 * s.replicas * np.array(_rows(1, 0, 1, 0)), exact=False)
        check_state(optimizer, scale=8.0, count=1, iterations=1)


@case(modes=("function",), styles=("legacy",))
def repeated_rows_have_one_gradient(s):
    """Adam squares the sum of repeated rows, as in TensorFlow 2.1-2.15, not each row."""

    def made():
        optimizer, x = s.optimizer("Adam"), s.variable(np.ones((4, 2)))
        s.build(optimizer, [x])
        return x, _sparse_step(s, optimizer, x)

    (x, repeated), (y, summed) = made(), made()
    for _ in range(2):
        repeated(_rows(1.0, 2.0, 3.0), (1, 1, 3))
        summed(_rows(3.0, 3.0), (1, 3))
    check_equal(x, families.numpy(y))


@case(modes=("function",))
def clipping_takes_repeated_rows_as_they_are(s):
    """Repeated rows are clipped before they are summed, as in TensorFlow 2.0-2.15.

    The bare optimizers of Keras 3 do the same.
    """
    if s.family == "keras3" and not keras3_private.aggregates():
        return  # this version of Keras 3 clips the sum of repeated rows
    values = np.array([1.0, 2.0, 3.0] * s.replicas)
    for argument, clipped in (
        ("clipvalue", np.clip(values, -2, 2)),
        ("clipnorm", values / np.linalg.norm([values] * 2)),
        ("global_clipnorm", values / np.linalg.norm([values] * 2)),
    ):
        limit = 2.0 if argument == "clipvalue" else 1.0
        optimizer, x = s.optimizer(**{argument: limit}), s.variable(np.ones((4, 2)))
        _sparse_step(s, optimizer, x)(_rows(1.0, 2.0, 3.0), (1, 1, 3))
        first, second, third = np.sum(np.split(clipped, s.replicas), axis=0)
        expected = 1 - 0.1 * np.array(_rows(0.0, first + second, 0.0, third))
        check_equal(x, expected, exact=False)


def _sparse_skips(s, values, indices, scale):
    optimizer, x = s.optimizer(scale=scale), s.variable(np.ones((4, 2)))
    _sparse_step(s, optimizer, x)(values, indices)
    check_equal(x, np.ones((4, 2)))
    check_state(optimizer, scale=max(scale / 2, 1.0), count=0, iterations=1)


@case()
def sparse_duplicate_with_nan_skips(s):
    bad, good = _rows(NAN, 1.0, 1.0), _rows(1.0, 1.0, 1.0)
    _sparse_skips(s, s.only_last(bad, good), (1, 1, 3), scale=8.0)


@case()
def sparse_duplicates_that_overflow_when_summed_skip(s):
    _sparse_skips(s, _rows(3e38, 3e38), (1, 1), scale=1.0)


def _bare_sums(s):
    return s.replicas == 1 or families.bare_sums(s.family)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {},
    "Adadelta": {},
    "Adamax": {},
    "Nadam": {},
    "Ftrl": {},
    "AdamW": {"weight_decay": 0.01},
    "Lion": {},
    "Adafactor": {},
    "Lamb": {},
}


@case(modes=("function",), styles=("legacy",))
def equals_the_bare_optimizer(s):
    """Each optimizer trains bit for bit like the bare optimizer on unscaled gradients."""
    if not _bare_sums(s):
        return
    if _IS_2_12 and s.replicas > 2:
        # TensorFlow 2.12 rewrites sums of more than two terms. The new order of the terms
        # depends on the rest of the graph, but is the same in each run.
        options = {"arithmetic_optimization": False}
        tf.config.optimizer.set_experimental_options(options)
    shape = (4, s.replicas, 3, 2)
    gradients = np.random.default_rng(0).normal(size=shape).tolist()
    kit = families.FAMILIES[s.family]
    names = [name for name in OPTIMIZERS if hasattr(kit, name)]
    if s.family == "new" and s.replicas > 1:
        names.remove("Nadam")  # Keras 2's own Nadam leaves the replicas different
    assert len(names) >= 8
    if s.api == "experimental":
        names = names[:2]  # the stable class covers all optimizers
    for name in names:
        arguments = OPTIMIZERS[name]
        optimizer, x = s.optimizer(name, **arguments), s.variable(np.ones((3, 2)))
        bare, y = s.bare(name, **arguments), s.variable(np.ones((3, 2)))
        s.build(optimizer, [x])
        s.build(bare, [y])  # Keras 3's optimizer cannot build in a traced replica
        step = s.linear_step(optimizer, [x])
        bare_step = s.bare_step(bare, y)
        for by_replica in gradients:
            step(by_replica)
            bare_step(by_replica)
        check_equal(x, families.numpy(y))
        check_state(optimizer, scale=8.0, count=4, iterations=4)


@case(modes=("function",))
def inner_clipping_follows_aggregation(s):
    for argument, clip in (
        ("clipvalue", lambda g: np.clip(g, -1, 1)),
        ("clipnorm", lambda g: g / max(np.linalg.norm(g), 1)),
        ("global_clipnorm", lambda g: g / max(np.linalg.norm(g), 1)),
    ):
        _, x, step = s.linear([0.0, 0.0], **{argument: 1.0})
        # The sum is small although its terms are large.
        by_replica = [[3.0, 4.0], [-2.5, -4.0], *[[0.0, 0.0]] * s.replicas]
        by_replica = by_replica[: s.replicas]
        step(by_replica)
        check_equal(x, -0.1 * clip(np.sum(by_replica, axis=0)), exact=False)


@case(modes=("function",), styles=("legacy",))
def replicas_agree_where_the_caller_aggregates(s):
    for keyword in (
        {"experimental_aggregate_gradients": False},
        {"skip_gradients_aggregation": True},
    ):
        optimizer, x = s.optimizer(), s.variable(1.0)
        s.prepare(optimizer, [x])
        optimizer.get_scaled_loss(tf.constant(0.0))

        def replica_step(g, optimizer=optimizer, x=x, keyword=keyword):
            grads = optimizer.get_unscaled_gradients([g * 8.0])
            optimizer.apply_gradients(zip(grads, [x]), **keyword)

        step = s.fed(replica_step)
        step(s.only_last(NAN, 1.0))
        check_equal(x, 1.0)
        check_state(optimizer, scale=4.0, count=0, iterations=1)
        step(1.0)
        # The gradients are not summed, and are divided by the new scale 4.
        check_equal(x, 1.0 - 0.2, exact=False)
        check_state(optimizer, scale=4.0, count=1, iterations=2)


@case()
def fixed_scale_never_skips(s):
    with s.scope():
        inner = s.bare()
        optimizer = tf_lso.LossScaleOptimizer(inner, dynamic=False, initial_scale=3.0)
    x = s.variable(1.0)
    step = s.linear_step(optimizer, [x])
    step(1.0)
    check_equal(x, 1 - 0.1 * s.replicas, exact=False)
    assert float(optimizer.loss_scale) == 3.0
    assert optimizer.dynamic_counter is None
    step(NAN)
    assert np.isnan(families.numpy(x))
    assert set(families.copies(optimizer.iterations)) == {2}


@case(modes=("function",))
def one_trace_a_step_function(s):
    optimizer, x = s.optimizer(growth=2), s.variable(1.0)
    s.build(optimizer, [x])
    traces = []

    def replica_step(g):
        traces.append(g)
        families.STYLES[s.style](optimizer, lambda: x * g, [x])

    step = s.fed(replica_step)
    for g in (1.0, 1.0, NAN, 1.0, INF, 1.0, 1.0, 1.0):
        step(g)
        optimizer.learning_rate = 0.01
    assert len(traces) == len(families.copies(x))


@case(modes=("function",))
def learning_rate_reaches_a_traced_step(s):
    optimizer, x, step = s.linear(1.0)
    step(1.0)
    optimizer.learning_rate = 0.5
    step(1.0)
    check_equal(x, 1 - 0.6 * s.replicas, exact=False)
    optimizer.lr = 0.25
    step(1.0)
    check_equal(x, 1 - 0.85 * s.replicas, exact=False)


@case(modes=("function",), only=("keras3", "new"))
def ema_and_weight_decay(s):
    if not _bare_sums(s):
        return
    arguments = {"use_ema": True, "ema_momentum": 0.5, "weight_decay": 0.1}
    optimizer, x, step = s.linear([1.0, 2.0], **arguments)
    bare, y = s.bare(**arguments), s.variable([1.0, 2.0])
    s.build(bare, [y])
    bare_step = s.bare_step(bare, y)
    for _ in range(3):
        step((1.0, 1.0))
        bare_step((1.0, 1.0))
    check_equal(x, families.numpy(y))
    averages = optimizer.inner_optimizer._model_variables_moving_average
    expected = bare._model_variables_moving_average
    check_equal(averages[0], families.numpy(expected[0]))
    before = families.numpy(averages[0]).copy()
    step((NAN, 1.0))
    check_equal(averages[0], before)
    check_equal(x, families.numpy(y))


@case(modes=("function",), styles=("legacy",))
def constraints_hold(s):
    optimizer = s.optimizer()
    with s.scope():
        x = tf.Variable(
            [1.0, 2.0],
            constraint=lambda v: tf.clip_by_value(v, 0.95, 1.5),
            aggregation=tf.VariableAggregation.MEAN,
        )
    step = s.linear_step(optimizer, [x])
    step((1.0, 1.0))
    check_equal(x, [max(0.95, 1 - 0.1 * s.replicas), 1.5], exact=False)
    step((NAN, 1.0))
    check_state(optimizer, scale=4.0, count=0, iterations=2)


@case(modes=("eager", "function"), styles=("legacy",))
def loss_scale_update_agrees(s):
    with s.scope():
        scale = tf_lso.DynamicLossScale(8.0, 2)

    step = s.fed(lambda g: scale.update([g, None])[1])
    for value, expected, now in (
        (1.0, True, 8.0),
        (s.only_last(NAN, 1.0), False, 4.0),
        (1.0, True, 4.0),
        (1.0, True, 8.0),
    ):
        assert {bool(verdict) for verdict in s.local(step(value))} == {expected}
        assert {float(v) for v in families.copies(scale._current_loss_scale)} == {now}


@case(modes=("function",), styles=("legacy",))
def keras_model_trains(s):
    """A model of the family's own Keras trains in a custom loop."""
    kit = families.KERASES[s.family]
    dense = kit.layers.Dense
    with s.scope():
        model = kit.Sequential([dense(3, activation="relu"), dense(1)])
        model.build((None, 2))
    optimizer = s.optimizer("Adam", 0.01)
    s.prepare(optimizer, model.trainable_variables)

    def replica_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - 1.0) ** 2) / s.replicas
            scaled = optimizer.get_scaled_loss(loss)
        variables = model.trainable_variables
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, variables))
        return loss

    step = s.fed(replica_step)
    batch = ((1.0, 2.0), (3.0, 4.0))
    losses = [float(s.local(step(batch))[0]) for _ in range(20)]
    assert losses[-1] < losses[0]
    check_state(optimizer, scale=8.0, count=20, iterations=20)


def _reductions(function, *args):
    """Return the number of reductions over replicas in a function, and in its branches."""
    definition = function.get_concrete_function(*args).graph.as_graph_def()

    def count(nodes):
        kinds = [node.op for node in nodes]
        return sum(kind.startswith("Collective") or kind == "AddN" for kind in kinds)

    branches = sum(count(f.node_def) for f in definition.library.function)
    return count(definition.node), branches


@case(modes=("function",), styles=("legacy",))
def no_reduction_more_than_the_bare_optimizer(s):
    """A step adds no reduction by default, and one of a scalar if the caller aggregates.

    No branch contains a reduction, since a replica in another branch would wait forever.
    """
    if s.replicas == 1 or not _bare_sums(s):
        return
    optimizer, bare = s.optimizer("Adam"), s.bare("Adam")
    x, y = s.variable(np.ones(3)), s.variable(1.0)
    s.prepare(optimizer, [x, y])
    if s.family != "legacy":
        s.build(bare, [x, y])

    def reductions(optimizer, unscaled=list, **keywords):
        def replica_step(g, h):
            gradients = unscaled([g * 1.0, h * 1.0])
            optimizer.apply_gradients(zip(gradients, [x, y]), **keywords)

        return _reductions(s.compiled(replica_step), s.feed(np.ones(3)), s.feed(1.0))

    of_bare, _ = reductions(bare)
    assert of_bare > 0
    for unscaled in (list, optimizer.get_unscaled_gradients):
        assert reductions(optimizer, unscaled) == (of_bare, 0)
    assert reductions(optimizer, experimental_aggregate_gradients=False) == (1, 0)


@case(modes=("function",), styles=("legacy",))
def fit_skips_what_one_replica_overflows(s):
    """Run `fit` of the family's own Keras, if `fit` works with the bare optimizer."""
    multiworker = isinstance(s.strategy, tf.distribute.MultiWorkerMirroredStrategy)
    if s.family == "keras3" and multiworker:
        return  # Keras 3's own `fit` fails with workers: keras#20585
    kit = families.KERASES[s.family]
    with s.scope():
        model = kit.Sequential([kit.layers.Dense(1)])
        model.build((None, 3))
        optimizer = s.optimizer(momentum=0.9)
        no_xla = {"jit_compile": False} if s.family == "keras3" else {}
        model.compile(optimizer, loss="mse", **no_xla)
    x = np.random.default_rng(0).random((8 * s.replicas, 3)).astype("float32")
    y = x.sum(1, keepdims=True)
    x[2 * 2 * s.replicas - 1] = NAN  # the last row of the second of four batches
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.DATA
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2 * s.replicas)
    callbacks = [
        tf_lso.callbacks.LossScaleMonitor(),
        tf_lso.callbacks.TerminateOnStuckScale(patience=1),
    ]
    seen = model.fit(data.with_options(options), verbose=0, callbacks=callbacks).history
    assert (seen["loss_scale"], seen["skipped_steps"]) == ([4.0], [1])
    check_state(optimizer, scale=4.0, count=2, iterations=4)
    for variable in model.trainable_variables:
        assert np.isfinite(families.numpy(variable)).all()
        check_equal(variable, families.numpy(variable))
