"""Replays steps on two replicas, of which one, the other or both have bad gradients.

`use` names the strategy: a process can have only one `MirroredStrategy`.
"""

import functools
import json

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families
from tests.golden import harness, replays
from tests.golden.replay_keras_training import OTHER_FORMULA, wrapped

_strategy = None

# In a pattern: the replicas whose gradient is bad.
_BAD = {".": (), "0": (0,), "1": (1,), "2": (0, 1)}

# The gradient of each element of the variable, replica by replica.
_GRADIENTS = (0.25, 0.5)

# Keywords of `apply_gradients` that leave the sum to the caller, or not.
_AGGREGATE = {
    "legacy": lambda aggregate: {"experimental_aggregate_gradients": aggregate},
    "new": lambda aggregate: {"skip_gradients_aggregation": not aggregate},
    "keras3": lambda aggregate: {"skip_gradients_aggregation": not aggregate},
}


def use(strategy):
    """Replay on this MirroredStrategy of two replicas."""
    global _strategy
    _strategy = strategy


def _optimizer(family, case, inner="SGD", **configuration):
    configuration = {"kind": "dynamic", "scale": 4.0, "growth": 2, **configuration}
    return wrapped(case["api"], harness.inner_optimizer(family, inner), **configuration)


def _plain_sgd(family, case):
    return wrapped(case["api"], families.FAMILIES[family].SGD(0.1), "dynamic", 4.0, 2)


def _taped(optimizer, coefficient, variable, **keywords):
    with tf.GradientTape() as tape:
        loss = coefficient * tf.reduce_sum(variable)
        scaled_loss = optimizer.get_scaled_loss(loss)
    gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, [variable]))
    return optimizer.apply_gradients(zip(gradients, [variable]), **keywords)


def _each(coefficients):
    return _strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(coefficients[context.replica_id_in_sync_group])
    )


def _once(values):
    """The one value where all replicas hold it."""
    values = [np.asarray(value).item() for value in values]
    return values[0] if len(set(values)) == 1 else values


def _row(optimizer, variable):
    dynamic = optimizer.dynamic
    scale = dict(optimizer.loss_scale_state.named_variables()).get("current_loss_scale")
    return {
        "v": [value.tolist() for value in families.copies(variable)],
        "iterations": _once(families.copies(optimizer.iterations)),
        "loss_scale": float(optimizer.loss_scale),
        "counter": _once(families.copies(optimizer.dynamic_counter))
        if dynamic
        else None,
        "scale_per_replica": _once(families.copies(scale)) if dynamic else None,
    }


def _variables(optimizer):
    """Those of the optimizer, each a list of its copies on the replicas."""
    inner = optimizer.inner_optimizer.variables
    inner = inner() if callable(inner) else inner
    scale = dict(optimizer.loss_scale_state.named_variables()).values()
    return [
        _strategy.experimental_local_results(families.raw(variable))
        for variable in (*inner, *scale)
    ]


class _Program:
    """The program that cases share which differ in their pattern alone.

    It is traced in the first of them; before the others it gets its first state again.
    """

    def __init__(self, family, case):
        keywords = {}
        if case["aggregate"] is not None:
            keywords = _AGGREGATE[family](case["aggregate"])

        def make():
            return _optimizer(family, case, case["inner"], kind=case["kind"])

        if case["where"] == "outside":
            optimizer = make()
        with _strategy.scope():
            variable = tf.Variable([1.0, 2.0])
            if case["where"] == "in_scope":
                optimizer = make()
                # A function whose first step makes the slots is traced twice. It does
                # so for the programs that are most common, and for those outside.
                is_common = (case["inner"], case["kind"]) == ("SGD", "dynamic")
                if keywords or not is_common:
                    optimizer.build([variable])

        def step(coefficients):
            _strategy.run(
                lambda c: _taped(optimizer, c, variable, **keywords),
                args=(coefficients,),
            )

        self.optimizer, self.variable = optimizer, variable
        self.step = tf.function(step) if case["mode"] == "function" else step
        self._first = {id(copies[0]): copies[0].numpy() for copies in self._all()}

    def _all(self):
        variable = _strategy.experimental_local_results(self.variable)
        return [variable, *_variables(self.optimizer)]

    def begin(self):
        """Take back all steps; what the first of them has made is a slot, of zeros."""
        for copies in self._all():
            value = self._first.get(id(copies[0]), np.zeros(copies[0].shape))
            for copy in copies:
                copy.assign(tf.cast(value, copy.dtype))


@functools.cache
def _program(family, case):
    return _Program(family, json.loads(case))


def run(family, case):
    """The state after each step of a pattern."""
    name, pattern = case["pattern"]
    others = {key: value for key, value in case.items() if key != "pattern"}
    program = _program(family, json.dumps(others))
    program.begin()
    bad = np.float32("inf" if name.endswith("inf") else "nan")
    rows = []
    for of_step in pattern:
        replicas = _BAD[of_step]
        program.step(
            _each([bad if r in replicas else g for r, g in enumerate(_GRADIENTS)])
        )
        rows.append(_row(program.optimizer, program.variable))
    return {"rows": rows}


# --- Single calls.


def _one_device(family, case):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        optimizer, variable = _plain_sgd(family, case), tf.Variable(1.0)
    rows = []
    for gradient in (1.0, np.nan, 1.0, 1.0):
        strategy.run(
            lambda g: optimizer.apply_gradients([(g, variable)]),
            args=(tf.constant(gradient, tf.float32),),
        )
        iterations = int(families.numpy(optimizer.iterations))
        rows.append(
            [float(families.numpy(variable)), float(optimizer.loss_scale), iterations]
        )
    return rows


def _in_scope(family, case):
    with _strategy.scope():
        return _plain_sgd(family, case), tf.Variable(1.0)


def _apply_cross_replica(family, case):
    optimizer, variable = _in_scope(family, case)
    with _strategy.scope():
        optimizer.apply_gradients([(tf.constant(1.0), variable)])


def _minimize_cross_replica(family, case):
    optimizer, variable = _in_scope(family, case)
    with _strategy.scope():
        optimizer.minimize(lambda: 2.0 * variable, [variable])


def _reads(family, case):
    optimizer, _ = _in_scope(family, case)
    scaled = _strategy.run(lambda: optimizer.get_scaled_loss(tf.constant(1.5)))
    with _strategy.scope():
        cross = tf.convert_to_tensor(optimizer.loss_scale)
    return {
        "counter_type": type(families.raw(optimizer.dynamic_counter)).__name__,
        "cross": replays.encode(cross),
        "per_replica_scaled_loss": replays.encode(
            list(_strategy.experimental_local_results(scaled))
        ),
    }


def _central_storage():
    return tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])


def _central_made(family, case):
    with _central_storage().scope():
        return type(_plain_sgd(family, case)).__name__


def _central_apply(family, case):
    optimizer = _plain_sgd(family, case)
    strategy = _central_storage()
    with strategy.scope():
        variable = tf.Variable(1.0)
    strategy.run(lambda: optimizer.apply_gradients([(tf.constant(1.0), variable)]))


def _update_cross(replica):
    def update(family, case):
        with _strategy.scope():
            scale = tf_lso.DynamicLossScale(8.0, 2)
        bad = [np.nan if r == replica else 1.0 for r in range(2)]
        rows = []
        for _ in range(2):
            with _strategy.scope():
                _, applied = scale.update([_each(np.float32(bad))])
            rows.append([bool(applied), float(scale())])
        return rows

    return update


def _update_in_replica(family, case):
    with _strategy.scope():
        scale = tf_lso.DynamicLossScale(4.0, 1)

    @tf.function
    def update():
        return _strategy.run(lambda: scale.update([tf.constant(1.0)])[1])

    return all(bool(b) for b in _strategy.experimental_local_results(update()))


_CALLS = {
    "run": run,
    "OneDeviceStrategy": _one_device,
    "apply_gradients_cross_replica": _apply_cross_replica,
    "minimize_cross_replica": _minimize_cross_replica,
    "loss_scale_reads": _reads,
    "CentralStorage_ctor": _central_made,
    "CentralStorage_apply": _central_apply,
    "DynamicLossScale.update_in_replica_ctx": _update_in_replica,
    **{
        f"DynamicLossScale.update_cross_ctx:nan_on_replica_{r}": _update_cross(r)
        for r in (-1, 0, 1)
    },
}


def replay(family, case):
    """What the record holds for a case of `distribution`."""
    return replays.attempt(lambda: _CALLS[case["case"]](family, case))


def equal(actual, expected, case, family):
    """SGD to the last bit; the rounding of Adam differs between formulas."""
    exact = harness.SAME_KERNELS and case.get("inner") != "Adam"
    return replays.equal(actual, expected, exact, OTHER_FORMULA)
