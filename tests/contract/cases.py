"""The contract: what must hold for each family, protocol, strategy and mode.

Each case is a function with assertions. Its argument is a `Setting`, which makes optimizers,
variables and steps for one family, protocol, strategy and mode. `test_contract.py` runs the
cases in the test process. `__main__.py` runs them in processes with four replicas or with
several workers.

If not stated otherwise, an optimizer of a case is SGD with a learning rate of 0.1 and an
initial loss scale of 8. The argument `growth` is the number of consecutive finite steps after
which the scale doubles. See `tests.families.wrapped`.
"""

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families
from tests.contract.setting import check_close, check_equal, check_state
from tf_lso.frameworks import keras3_private

NAN = float("nan")
INF = float("inf")

CASES = {}  # maps the name of each case to its function, in the order of this file
MODES = ("eager", "function", "jit")


def case(styles=("legacy", "keras3"), modes=MODES, only=None, has_slices=False):
    """Register a function as a contract case.

    Args:
      styles: the protocols for which the case runs.
      modes: the modes in which the case runs.
      only: the families for which the case runs, or None for all families.
      has_slices: whether the case sums `tf.IndexedSlices` over replicas.
    """

    def register(function):
        function.styles, function.modes = styles, modes
        function.only, function.has_slices = only, has_slices
        CASES[function.__name__] = function
        return function

    return register


# TensorFlow 2.12 has limits of its own: see `_tensorflow_can_run` and
# `equals_the_bare_optimizer`.
_IS_2_12 = tf.__version__.startswith("2.12.")


def _tensorflow_can_run(name, mode, strategy):
    """Return whether TensorFlow itself supports what a case does."""
    if mode == "jit":
        return not strategy  # TensorFlow cannot compile collectives on CPUs
    workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    # In TensorFlow 2.12, workers cannot sum IndexedSlices in eager code, not even with the bare
    # optimizer: "all_reduce_indexed_slices is not supported in eager mode".
    is_too_old = _IS_2_12 and workers and mode == "eager"
    return not (is_too_old and CASES[name].has_slices)


def cases_for(strategy, mode, family, style):
    """Return a list of the names of all cases that can run in a setting.

    Args:
      strategy: a strategy or its name, or None for no strategy.
      mode: one of `MODES`.
      family: the name of an optimizer family.
      style: the protocol, "legacy" or "keras3".
    """
    return [
        name
        for name, function in CASES.items()
        if mode in function.modes
        and style in function.styles
        and (function.only is None or family in function.only)
        and _tensorflow_can_run(name, mode, strategy)
    ]


@case()
def finite_steps_apply_and_count(setting):
    optimizer, x, step = setting.linear_training([1.0, 2.0], momentum=0.9, growth=2)
    for _ in range(3):
        step(1.0)
    check_state(optimizer, scale=16.0, count=1, iterations=3)
    # The three steps of SGD with momentum subtract 0.1 * (1 + 1.9 + 2.71) for each replica.
    check_close(x, np.array([1.0, 2.0]) - 0.561 * setting.replicas)


@case()
def nonfinite_on_one_replica_skips_on_all(setting):
    optimizer, x, y, step = setting.linear_training([1.0, 2.0], 3.0, momentum=0.9)
    step(1.0, 1.0)
    x_before, y_before = families.numpy(x).copy(), families.numpy(y).copy()
    nan_on_last = setting.on_last_replica(NAN, others=1.0)
    inf_on_first = setting.on_last_replica(INF, others=1.0)[::-1]
    negative_inf_on_last = setting.on_last_replica(-INF, others=1.0)
    for skipped, gradient_of_y, kind, scale in (
        (1, nan_on_last, "nan", 4.0),
        (2, inf_on_first, "inf", 2.0),
        (3, negative_inf_on_last, "inf", 1.0),
    ):
        step(1.0, gradient_of_y)
        check_equal(x, x_before)
        check_equal(y, y_before)
        check_state(optimizer, scale=scale, count=0, iterations=1 + skipped)
        kinds = [overflow.kind for overflow in optimizer.last_overflow]
        assert kinds == [kind], kinds
        assert int(optimizer.skipped_steps) == skipped
        assert int(optimizer.consecutive_skipped_steps) == skipped
    step(1.0, 1.0)
    check_state(optimizer, scale=1.0, count=1, iterations=5)
    assert int(optimizer.skipped_steps) == 3
    assert not bool(optimizer.last_step_skipped)
    assert np.isfinite(families.numpy(x)).all()
    assert not np.array_equal(families.numpy(x), x_before)


def _overflow_of_a_sum_skips(setting, gradient, dtype):
    if setting.replicas == 1:
        return  # without replicas there is no sum
    optimizer, x = setting.optimizer(scale=1.0), setting.variable(1.0, dtype)
    step = setting.linear_step(optimizer, [x])
    step(gradient)
    check_equal(x, 1.0)
    check_state(optimizer, scale=1.0, count=0, iterations=1)


@case(modes=("eager", "function"))
def overflow_of_the_sum_skips(setting):
    _overflow_of_a_sum_skips(setting, 3e38, tf.float32)


@case()
def gradients_apply_even_if_their_scaled_sum_would_overflow(setting):
    """A step sums unscaled gradients, so an infinite sum of scaled gradients does no harm."""
    optimizer, x, y, step = setting.linear_training([0.0, 0.0], 0.0)
    # Times the scale of 8, the gradient of one replica is finite in float32, but the sum over
    # two replicas is infinite.
    step(3.9e37, 1.0)
    check_close(x, np.full(2, -3.9e36 * setting.replicas))
    check_close(y, -0.1 * setting.replicas)
    check_state(optimizer, scale=8.0, count=1, iterations=1)


@case(modes=("function",), styles=("legacy",))
def overflow_of_a_float16_sum_skips(setting):
    _overflow_of_a_sum_skips(setting, 60000.0, tf.float16)


def _outside_trains_like_inside(setting, gradients, build=False):
    """Check that an Adam made outside the scope trains like an Adam made in the scope.

    If `build` is True, the Adam from outside is also built outside the scope. Otherwise its
    first step builds it. Return both optimizers.
    """
    setting.built = False
    # On several GPUs, XLA refuses the step counter of a newer Adam of tf_keras that was made
    # outside the scope. That is so without a loss scale, too.
    arguments = {"jit_compile": False} if setting.family == "new" else {}
    outside = families.wrapped(setting.family, "Adam", growth=2, **arguments)
    inside = setting.optimizer("Adam", growth=2)
    x, y = setting.variable([1.0, 2.0]), setting.variable([1.0, 2.0])
    if build:
        outside.build([x])
    for optimizer, variable in ((outside, x), (inside, y)):
        step = setting.linear_step(optimizer, [variable])
        for gradient in gradients:
            step(gradient)
    check_equal(x, families.numpy(y))
    return outside, inside


@case(modes=("eager", "function"))
def optimizer_made_outside_the_scope(setting):
    gradients = (1.0, 1.0, setting.on_last_replica(NAN, others=1.0), 2.0)
    for optimizer in _outside_trains_like_inside(setting, gradients):
        check_state(optimizer, scale=8.0, count=1, iterations=4)


@case(modes=("eager", "function"), only=("keras3", "new"))
def optimizer_built_outside_the_scope(setting):
    for optimizer in _outside_trains_like_inside(setting, (1.0, 2.0), build=True):
        check_state(optimizer, scale=16.0, count=0, iterations=2)


def _sparse_step(setting, optimizer, x, dense_shape=True):
    """Return a step whose gradient is a `tf.IndexedSlices`.

    The arguments of the step are the rows of the slices and the indices of the rows in `x`,
    which has the shape [4, 2].
    """

    def slices(rows, indices):
        shape = tf.constant([4, 2], tf.int64) if dense_shape else None
        return tf.IndexedSlices(rows, indices, dense_shape=shape)

    def replica_step(rows, indices):
        # A scaled loss of 1 is the loss scale.
        if setting.style == "legacy":
            scale = optimizer.get_scaled_loss(tf.constant(1.0))
            gradients = optimizer.get_unscaled_gradients(
                [slices(rows * scale, indices)]
            )
        else:
            scale = optimizer.scale_loss(tf.constant(1.0))
            gradients = [slices(rows * scale, indices)]
        optimizer.apply_gradients(zip(gradients, [x]))

    setting.prepare(optimizer, [x])
    return setting.step_function(replica_step, tf.float32, tf.int64)


def _rows(*values):
    """Return rows of two equal numbers, one row for each value."""
    return tuple((value, value) for value in values)


@case(has_slices=True)
def sparse_gradients_apply(setting):
    # The legacy SGD updates the momentum of single rows by an operation that XLA lacks.
    momentum = 0.0 if (setting.family, setting.mode) == ("legacy", "jit") else 0.9
    for dense_shape in (True, False):
        optimizer = setting.optimizer(momentum=momentum)
        x = setting.variable(np.ones((4, 2)))
        step = _sparse_step(setting, optimizer, x, dense_shape)
        step(_rows(1.0, 2.0, 1.0), (0, 2, 0))
        check_close(x, 1 - 0.2 * setting.replicas * np.array(_rows(1, 0, 1, 0)))
        check_state(optimizer, scale=8.0, count=1, iterations=1)


@case(modes=("function",), styles=("legacy",))
def repeated_rows_are_summed_before_the_update(setting):
    """Adam squares the sum of repeated rows, as in TensorFlow 2.1-2.15, not each row."""

    def variable_and_step():
        optimizer, x = setting.optimizer("Adam"), setting.variable(np.ones((4, 2)))
        setting.build(optimizer, [x])
        return x, _sparse_step(setting, optimizer, x)

    x, x_step = variable_and_step()
    y, y_step = variable_and_step()
    for _ in range(2):
        x_step(_rows(1.0, 2.0, 3.0), (1, 1, 3))
        y_step(_rows(3.0, 3.0), (1, 3))
    check_equal(x, families.numpy(y))


@case(modes=("function",))
def repeated_rows_are_clipped_before_they_are_summed(setting):
    """An inner optimizer clips repeated rows one by one, as in TensorFlow 2.0-2.15.

    The bare optimizers of Keras 3 do the same.
    """
    if setting.family == "keras3" and not keras3_private.aggregates():
        return  # this version of Keras 3 clips the sum of repeated rows
    # Each replica has these rows of two equal numbers, so each number counts twice in the norm.
    values = np.array([1.0, 2.0, 3.0] * setting.replicas)
    norm = np.linalg.norm([values, values])
    for arguments, clipped in (
        ({"clipvalue": 2.0}, np.clip(values, -2, 2)),
        ({"clipnorm": 1.0}, values / norm),
        ({"global_clipnorm": 1.0}, values / norm),
    ):
        optimizer, x = setting.optimizer(**arguments), setting.variable(np.ones((4, 2)))
        step = _sparse_step(setting, optimizer, x)
        step(_rows(1.0, 2.0, 3.0), (1, 1, 3))
        first, second, third = np.sum(np.split(clipped, setting.replicas), axis=0)
        expected = 1 - 0.1 * np.array(_rows(0.0, first + second, 0.0, third))
        check_close(x, expected)


def _sparse_skips(setting, rows, indices, scale):
    optimizer, x = setting.optimizer(scale=scale), setting.variable(np.ones((4, 2)))
    step = _sparse_step(setting, optimizer, x)
    step(rows, indices)
    check_equal(x, np.ones((4, 2)))
    check_state(optimizer, scale=max(scale / 2, 1.0), count=0, iterations=1)


@case(has_slices=True)
def sparse_duplicate_with_nan_skips(setting):
    with_nan, finite = _rows(NAN, 1.0, 1.0), _rows(1.0, 1.0, 1.0)
    rows = setting.on_last_replica(with_nan, others=finite)
    _sparse_skips(setting, rows, (1, 1, 3), scale=8.0)


@case(has_slices=True)
def sparse_duplicates_that_overflow_when_summed_skip(setting):
    _sparse_skips(setting, _rows(3e38, 3e38), (1, 1), scale=1.0)


def _bare_optimizer_sums(setting):
    """Return whether the bare optimizer sums gradients over the replicas, if there are any."""
    return setting.replicas == 1 or families.bare_sums(setting.family)


# The optimizer classes, with arguments that give a class more slots or another update.
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
def equals_the_bare_optimizer(setting):
    """Each optimizer trains bit for bit like the bare optimizer on unscaled gradients."""
    if not _bare_optimizer_sums(setting):
        return
    if _IS_2_12 and setting.replicas > 2:
        # TensorFlow 2.12 rewrites sums of more than two terms. The new order of the terms
        # depends on the rest of the graph, but is the same in each run.
        options = {"arithmetic_optimization": False}
        tf.config.optimizer.set_experimental_options(options)
    # Four steps, each with a gradient of the shape [3, 2] on each replica.
    shape = (4, setting.replicas, 3, 2)
    gradients = np.random.default_rng(0).normal(size=shape).tolist()
    optimizers = families.FAMILIES[setting.family]
    names = [name for name in OPTIMIZERS if hasattr(optimizers, name)]
    if setting.family == "new" and setting.replicas > 1:
        names.remove("Nadam")  # Keras 2's own Nadam leaves the replicas different
    assert len(names) >= 8
    if setting.api == "experimental":
        names = names[:2]  # the stable class covers all optimizers
    elif setting.replicas > 1:
        names = names[:4]  # tests without replicas cover all optimizers
    for name in names:
        arguments = OPTIMIZERS[name]
        optimizer = setting.optimizer(name, **arguments)
        bare = setting.bare_optimizer(name, **arguments)
        x, y = setting.variable(np.ones((3, 2))), setting.variable(np.ones((3, 2)))
        setting.build(optimizer, [x])
        setting.build(bare, [y])  # Keras 3's optimizer cannot build in a traced replica
        step = setting.linear_step(optimizer, [x])
        bare_step = setting.bare_step(bare, y)
        for gradients_of_replicas in gradients:
            step(gradients_of_replicas)
            bare_step(gradients_of_replicas)
        check_equal(x, families.numpy(y))
        check_state(optimizer, scale=8.0, count=4, iterations=4)


@case(modes=("function",))
def inner_clipping_follows_aggregation(setting):
    # On several replicas, clipping does not change the sum, but would change each term.
    gradients = [[3.0, 4.0]]
    if setting.replicas > 1:
        gradients += [[-2.5, -4.0], *[[0.0, 0.0]] * (setting.replicas - 2)]
    total = np.sum(gradients, axis=0)
    scaled_down = total / max(np.linalg.norm(total), 1)
    for argument, clipped in (
        ("clipvalue", np.clip(total, -1, 1)),
        ("clipnorm", scaled_down),
        ("global_clipnorm", scaled_down),
    ):
        _, x, step = setting.linear_training([0.0, 0.0], **{argument: 1.0})
        step(gradients)
        check_close(x, -0.1 * clipped)


@case(modes=("function",), styles=("legacy",))
def replicas_agree_if_the_caller_aggregates(setting):
    for keyword in (
        {"experimental_aggregate_gradients": False},
        {"skip_gradients_aggregation": True},
    ):
        optimizer, x = setting.optimizer(), setting.variable(1.0)
        setting.prepare(optimizer, [x])
        # `replica_step` multiplies by the scale of 8 itself. Without this call, the optimizer
        # would warn that nobody has scaled a loss.
        optimizer.get_scaled_loss(tf.constant(0.0))

        def replica_step(g, optimizer=optimizer, x=x, keyword=keyword):
            grads = optimizer.get_unscaled_gradients([g * 8.0])
            optimizer.apply_gradients(zip(grads, [x]), **keyword)

        step = setting.step_function(replica_step)
        step(setting.on_last_replica(NAN, others=1.0))
        check_equal(x, 1.0)
        check_state(optimizer, scale=4.0, count=0, iterations=1)
        step(1.0)
        # The replicas do not sum the gradients. `replica_step` still multiplies by 8, but the
        # optimizer divides by the new scale of 4, so the gradient is 2.
        check_close(x, 1.0 - 0.2)
        check_state(optimizer, scale=4.0, count=1, iterations=2)


@case()
def fixed_scale_never_skips(setting):
    with setting.scope():
        inner = setting.bare_optimizer()
        optimizer = tf_lso.LossScaleOptimizer(inner, dynamic=False, initial_scale=3.0)
    x = setting.variable(1.0)
    step = setting.linear_step(optimizer, [x])
    step(1.0)
    check_close(x, 1 - 0.1 * setting.replicas)
    assert float(optimizer.loss_scale) == 3.0
    assert optimizer.dynamic_counter is None
    step(NAN)
    assert np.isnan(families.numpy(x))
    assert set(families.copies(optimizer.iterations)) == {2}


@case(modes=("function",))
def a_step_is_traced_only_once(setting):
    optimizer, x = setting.optimizer(growth=2), setting.variable(1.0)
    setting.build(optimizer, [x])
    traces = []

    def replica_step(g):
        traces.append(g)
        take_step = families.STYLES[setting.style]
        take_step(optimizer, lambda: x * g, [x])

    step = setting.step_function(replica_step)
    for g in (1.0, 1.0, NAN, 1.0, INF, 1.0, 1.0, 1.0):
        step(g)
        optimizer.learning_rate = 0.01
    # One trace of `step` calls `replica_step` once for each replica of this process.
    assert len(traces) == len(families.copies(x))


@case(modes=("function",))
def learning_rate_reaches_a_traced_step(setting):
    optimizer, x, step = setting.linear_training(1.0)
    step(1.0)
    optimizer.learning_rate = 0.5
    step(1.0)
    check_close(x, 1 - 0.6 * setting.replicas)
    optimizer.lr = 0.25
    step(1.0)
    check_close(x, 1 - 0.85 * setting.replicas)


@case(modes=("function",), only=("keras3", "new"))
def ema_and_weight_decay_equal_the_bare_optimizer(setting):
    if not _bare_optimizer_sums(setting):
        return
    arguments = {"use_ema": True, "ema_momentum": 0.5, "weight_decay": 0.1}
    optimizer, x, step = setting.linear_training([1.0, 2.0], **arguments)
    bare, y = setting.bare_optimizer(**arguments), setting.variable([1.0, 2.0])
    setting.build(bare, [y])
    bare_step = setting.bare_step(bare, y)
    for _ in range(3):
        step((1.0, 1.0))
        bare_step((1.0, 1.0))
    check_equal(x, families.numpy(y))
    (average,) = optimizer.inner_optimizer._model_variables_moving_average
    (expected,) = bare._model_variables_moving_average
    check_equal(average, families.numpy(expected))
    # A skipped step changes neither the average nor the variable.
    average_before = families.numpy(average).copy()
    step((NAN, 1.0))
    check_equal(average, average_before)
    check_equal(x, families.numpy(y))


@case(modes=("function",), styles=("legacy",))
def a_step_respects_the_constraint_of_its_variable(setting):
    optimizer = setting.optimizer()
    with setting.scope():
        x = tf.Variable(
            [1.0, 2.0],
            constraint=lambda v: tf.clip_by_value(v, 0.95, 1.5),
            aggregation=tf.VariableAggregation.MEAN,
        )
    step = setting.linear_step(optimizer, [x])
    step((1.0, 1.0))
    check_close(x, [max(0.95, 1 - 0.1 * setting.replicas), 1.5])
    step((NAN, 1.0))
    check_state(optimizer, scale=4.0, count=0, iterations=2)


@case(modes=("eager", "function"), styles=("legacy",))
def loss_scale_update_agrees_on_all_replicas(setting):
    with setting.scope():
        loss_scale = tf_lso.DynamicLossScale(8.0, increment_period=2)

    def update(gradient):
        _, should_apply = loss_scale.update([gradient, None])
        return should_apply

    step = setting.step_function(update)
    for gradient, is_finite, next_scale in (
        (1.0, True, 8.0),
        (setting.on_last_replica(NAN, others=1.0), False, 4.0),
        (1.0, True, 4.0),
        (1.0, True, 8.0),
    ):
        verdicts = setting.local_results(step(gradient))
        assert {bool(verdict) for verdict in verdicts} == {is_finite}
        scales = families.copies(loss_scale._current_loss_scale)
        assert {float(scale) for scale in scales} == {next_scale}


@case(modes=("function",), styles=("legacy",))
def keras_model_trains(setting):
    """A model of the family's own Keras trains in a custom loop."""
    keras = families.KERASES[setting.family]
    dense = keras.layers.Dense
    with setting.scope():
        model = keras.Sequential([dense(3, activation="relu"), dense(1)])
        model.build((None, 2))
    optimizer = setting.optimizer("Adam", 0.01)
    setting.prepare(optimizer, model.trainable_variables)

    def replica_step(x):
        with tf.GradientTape() as tape:
            error = model(x, training=True) - 1.0
            loss = tf.reduce_mean(error**2) / setting.replicas
            scaled = optimizer.get_scaled_loss(loss)
        variables = model.trainable_variables
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, variables))
        return loss

    step = setting.step_function(replica_step)
    batch = ((1.0, 2.0), (3.0, 4.0))
    losses = [float(setting.local_results(step(batch))[0]) for _ in range(20)]
    assert losses[-1] < losses[0]
    check_state(optimizer, scale=8.0, count=20, iterations=20)


def _reductions(function, *args):
    """Count the reductions over replicas in the graph of a function.

    Return the number outside of the graph's conditional branches, and the number inside of
    them.
    """
    definition = function.get_concrete_function(*args).graph.as_graph_def()

    def count(nodes):
        kinds = [node.op for node in nodes]
        return sum(kind.startswith("Collective") or kind == "AddN" for kind in kinds)

    branches = sum(count(f.node_def) for f in definition.library.function)
    return count(definition.node), branches


@case(modes=("function",), styles=("legacy",))
def a_step_has_no_more_reductions_than_the_bare_optimizer(setting):
    """Loss scaling adds no reduction over replicas.

    If the caller aggregates, a step has only the reduction of a scalar, the verdict. No branch
    contains a reduction, since a replica in another branch would wait forever.
    """
    if setting.replicas == 1 or not _bare_optimizer_sums(setting):
        return
    optimizer, bare = setting.optimizer("Adam"), setting.bare_optimizer("Adam")
    x, y = setting.variable(np.ones(3)), setting.variable(1.0)
    setting.prepare(optimizer, [x, y])
    if setting.family != "legacy":
        setting.build(bare, [x, y])

    def reductions(optimizer, unscale=list, **keywords):
        def replica_step(x_gradient, y_gradient):
            gradients = unscale([x_gradient * 1.0, y_gradient * 1.0])
            optimizer.apply_gradients(zip(gradients, [x, y]), **keywords)

        gradients = setting.per_replica(np.ones(3)), setting.per_replica(1.0)
        return _reductions(setting.distributed(replica_step), *gradients)

    bare_reductions, _ = reductions(bare)
    assert bare_reductions > 0
    for unscale in (list, optimizer.get_unscaled_gradients):  # `list` unscales nothing
        assert reductions(optimizer, unscale) == (bare_reductions, 0)
    assert reductions(optimizer, experimental_aggregate_gradients=False) == (1, 0)


@case(modes=("function",), styles=("legacy",))
def fit_skips_a_step_that_overflows_on_one_replica(setting):
    """`fit` of the family's own Keras skips a step of which one replica has NaN."""
    multiworker = isinstance(
        setting.strategy, tf.distribute.MultiWorkerMirroredStrategy
    )
    if setting.family == "keras3" and multiworker:
        return  # Keras 3's own `fit` fails with workers: keras#20585
    keras = families.KERASES[setting.family]
    with setting.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.build((None, 3))
        optimizer = setting.optimizer(momentum=0.9)
        no_xla = {"jit_compile": False} if setting.family == "keras3" else {}
        model.compile(optimizer, loss="mse", **no_xla)
    batch_size = 2 * setting.replicas
    x = np.random.default_rng(0).random((4 * batch_size, 3)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    x[2 * batch_size - 1] = NAN  # the last row of the second of four batches
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.DATA
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)
    data = data.with_options(options)
    callbacks = [
        tf_lso.callbacks.LossScaleMonitor(),
        tf_lso.callbacks.TerminateOnStuckScale(patience=1),
    ]
    history = model.fit(data, verbose=0, callbacks=callbacks).history
    assert history["loss_scale"] == [4.0]
    assert history["skipped_steps"] == [1]
    check_state(optimizer, scale=4.0, count=2, iterations=4)
    for variable in model.trainable_variables:
        assert np.isfinite(families.numpy(variable)).all()
        check_equal(variable, families.numpy(variable))


@case(modes=("function",), styles=("keras3",))
def apply_sums_the_gradients_of_all_replicas(setting):
    """`apply` is the form of `apply_gradients` in Keras 3. It has two lists as arguments."""
    optimizer, x = setting.optimizer(), setting.variable(1.0)
    setting.prepare(optimizer, [x])

    def replica_step(factor):
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(x * factor)
        optimizer.apply(tape.gradient(scaled, [x]), [x])

    step = setting.step_function(replica_step)
    step(setting.on_last_replica(2.0, others=1.0))
    after_one_step = 1.0 - 0.1 * (setting.replicas + 1)
    check_close(x, after_one_step)
    step(setting.on_last_replica(NAN, others=1.0))
    check_close(x, after_one_step)
    check_state(optimizer, scale=4.0, count=0, iterations=2)
