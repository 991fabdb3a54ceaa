"""Replay steps on two replicas. Gradients of one replica or of both are NaN or infinity."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import families
from tests.golden import encoding, harness
from tests.golden.comparing import STEPS_FAMILIES, Section, check_all, grouped, where
from tests.golden.encoding import NAN
from tests.golden.harness import apply, wrap

pytestmark = pytest.mark.slow

_strategy = None  # the two replicas of `tests/conftest.py`


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    global _strategy
    _strategy = mirrored2


# Each letter in the pattern of a case is one step. Maps the letter to the replicas whose
# gradient is not finite.
_NONFINITE_REPLICAS = {".": (), "0": (0,), "1": (1,), "2": (0, 1)}

# The gradient of each element of the variable on replica 0 and on replica 1.
_GRADIENTS = (0.25, 0.5)


def _aggregation_keywords(family, aggregate):
    """Return keywords that tell `apply_gradients` whether to sum over the replicas."""
    if aggregate is None:
        return {}
    if family == "legacy":
        return {"experimental_aggregate_gradients": aggregate}
    return {"skip_gradients_aggregation": not aggregate}


def _copies(variable):
    return _strategy.experimental_local_results(families.raw(variable))


def _common_value(variable):
    """Return the value of a variable, or a list of values if the replicas differ."""
    values = [np.asarray(value).item() for value in families.copies(variable)]
    return values[0] if len(set(values)) == 1 else values


class _Program:
    """A program for all cases that differ only in their pattern.

    The first case traces the program. Before each case, `reset` restores the first state.
    """

    def __init__(self, api, family, inner, kind, mode, where, aggregate):
        keywords = _aggregation_keywords(family, aggregate)

        def make():
            return harness.wrapped(api, family, inner, kind=kind)

        if where == "outside":
            optimizer = make()
        with _strategy.scope():
            variable = tf.Variable([1.0, 2.0])
            if where == "in_scope":
                optimizer = make()
                # Without `build`, the first step makes the slots, so a `tf.function` is
                # traced twice. To save time, this is tested only for the most common
                # programs and for optimizers that are made outside the scope.
                is_common = (inner, kind) == ("SGD", "dynamic")
                if keywords or not is_common:
                    optimizer.build([variable])

        def replica_step(coefficient):
            def loss_fn():
                return coefficient * tf.reduce_sum(variable)

            families.legacy_step(optimizer, loss_fn, [variable], **keywords)

        def step(coefficients):
            _strategy.run(replica_step, args=(coefficients,))

        self.optimizer, self.variable = optimizer, variable
        self.scales = dict(optimizer.loss_scale_state.named_variables())
        self.step = tf.function(step) if mode == "function" else step
        self._initial_values = {
            id(copies[0]): copies[0].numpy() for copies in self._copies_of_all()
        }

    def _copies_of_all(self):
        """Return the list of copies for each variable of model, optimizer and loss scale."""
        inner = harness.variables_of(self.optimizer.inner_optimizer)
        variables = [self.variable, *inner, *self.scales.values()]
        return [_copies(variable) for variable in variables]

    def reset(self):
        """Undo all steps. Variables that the first step made are slots, which become zero."""
        for copies in self._copies_of_all():
            value = self._initial_values.get(id(copies[0]), np.zeros(copies[0].shape))
            for copy in copies:
                copy.assign(tf.cast(value, copy.dtype))

    def row(self):
        optimizer, counter, scale = self.optimizer, None, None
        if optimizer.dynamic:
            counter = _common_value(optimizer.dynamic_counter)
            scale = _common_value(self.scales["current_loss_scale"])
        return {
            "v": [value.tolist() for value in families.copies(self.variable)],
            "iterations": _common_value(optimizer.iterations),
            "loss_scale": float(optimizer.loss_scale),
            "counter": counter,
            "scale_per_replica": scale,
        }


_cached_program = functools.cache(_Program)


def run(api, family, case):
    # The pattern is a pair such as ["mix_inf", "0.12..."].
    name, pattern = case["pattern"]
    names = ("inner", "kind", "mode", "where", "aggregate")
    program = _cached_program(api, family, *(case[each] for each in names))
    program.reset()
    nonfinite = np.float32("inf" if name.endswith("inf") else "nan")
    rows = []
    for letter in pattern:
        gradients = list(_GRADIENTS)
        for replica in _NONFINITE_REPLICAS[letter]:
            gradients[replica] = nonfinite
        program.step(families.per_replica(_strategy, gradients))
        rows.append(program.row())
    return {"rows": rows}


# --- The other cases: functions of `make`, which returns a new wrapped optimizer.


def _one_device(make):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        optimizer, variable = make(), tf.Variable(1.0)
    rows = []
    for gradient in (1.0, NAN, 1.0, 1.0):
        strategy.run(lambda g: apply(optimizer, g, variable), args=(gradient,))
        iterations = int(families.numpy(optimizer.iterations))
        rows.append([float(variable), float(optimizer.loss_scale), iterations])
    return rows


def _apply_cross_replica(make):
    with _strategy.scope():
        apply(make(), 1.0, tf.Variable(1.0))


def _minimize_cross_replica(make):
    with _strategy.scope():
        optimizer, variable = make(), tf.Variable(1.0)
        optimizer.minimize(lambda: 2.0 * variable, [variable])


def _loss_scale_reads(make):
    with _strategy.scope():
        optimizer = make()
    scaled = _strategy.run(lambda: optimizer.get_scaled_loss(tf.constant(1.5)))
    with _strategy.scope():
        cross = tf.convert_to_tensor(optimizer.loss_scale)
    return {
        "counter_type": type(families.raw(optimizer.dynamic_counter)).__name__,
        "cross": encoding.encode(cross),
        "per_replica_scaled_loss": encoding.encode(list(_copies(scaled))),
    }


def _central_storage():
    return tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])


def _central_made(make):
    with _central_storage().scope():
        return type(make()).__name__


def _central_apply(make):
    optimizer, strategy = make(), _central_storage()
    with strategy.scope():
        variable = tf.Variable(1.0)
    strategy.run(lambda: apply(optimizer, 1.0, variable))


def _update_cross_replica(*gradients):
    """Return a case that calls `DynamicLossScale.update` twice in cross-replica context.

    `gradients` are the gradient on replica 0 and the gradient on replica 1.
    """

    def update(make):
        with _strategy.scope():
            scale = tf_lso.DynamicLossScale(8.0, 2)
        values = [np.float32(gradient) for gradient in gradients]
        rows = []
        for _ in range(2):
            with _strategy.scope():
                _, applied = scale.update([families.per_replica(_strategy, values)])
            rows.append([bool(applied), float(scale())])
        return rows

    return update


def _update_in_replica(make):
    with _strategy.scope():
        scale = tf_lso.DynamicLossScale(4.0, 1)

    @tf.function
    def update():
        return _strategy.run(lambda: scale.update([tf.constant(1.0)])[1])

    return all(bool(should_apply) for should_apply in _copies(update()))


_CALLS = {
    "OneDeviceStrategy": _one_device,
    "apply_gradients_cross_replica": _apply_cross_replica,
    "minimize_cross_replica": _minimize_cross_replica,
    "loss_scale_reads": _loss_scale_reads,
    "CentralStorage_ctor": _central_made,
    "CentralStorage_apply": _central_apply,
    "DynamicLossScale.update_in_replica_ctx": _update_in_replica,
    # In the name of this case, -1 means that no replica has a NaN.
    "DynamicLossScale.update_cross_ctx:nan_on_replica_-1": _update_cross_replica(
        1.0, 1.0
    ),
    "DynamicLossScale.update_cross_ctx:nan_on_replica_0": _update_cross_replica(
        NAN, 1.0
    ),
    "DynamicLossScale.update_cross_ctx:nan_on_replica_1": _update_cross_replica(
        1.0, NAN
    ),
}


def replay(api, family, case):
    if case["case"] == "run":
        return run(api, family, case)
    return _CALLS[case["case"]](lambda: wrap(api, families.FAMILIES[family].SGD(0.1)))


# The old Adam, whose results the newer one must have where the caller aggregates, rounded
# differently.
_ADAM_TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def _same(actual, expected, case, family):
    is_exact = harness.SAME_KERNELS and case.get("inner") != "Adam"
    tolerance = encoding.EXACT if is_exact else _ADAM_TOLERANCE
    return encoding.equal(actual, expected, tolerance)


SECTION = Section(
    "training",
    "distribution",
    replay,
    _same,
    families=STEPS_FAMILIES | {None: families.here("legacy", "keras3")},
    differs=[
        # The caller aggregates, and the replicas hold different gradients.
        *[
            where(
                aggregate=False,
                kind="dynamic",
                pattern=[["mix", "0.12..."], ["rep1", ".1.."]],
                api=api,
                family=family,
                like=like,
            )
            for api, family, like in (
                ("experimental", "v2", "2.3.4"),
                ("stable", "v2", "2.4.4"),
                ("stable", "new", {"version": "2.4.4", "family": "v2"}),
            )
        ],
        # `LossScale.update` in replica context.
        where(case="DynamicLossScale.update_in_replica_ctx", gives=True),
    ],
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
