"""Subclasses: of LossScaleOptimizer, and of the optimizers that it wraps."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    KERAS2_SPELLED,
    copies,
    legacy_step,
    number,
    per_replica,
    wrapped,
)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


def step(optimizer, x, gradient=2.0):
    optimizer.minimize(lambda: gradient * x, [x])


class Named(tf_lso.LossScaleOptimizer):
    """A subclass with a constructor, for optimizers of every family."""

    beta_1 = property(lambda self: "mine")  # before the hyperparameter

    def __init__(self, optimizer, label, **kwargs):
        super().__init__(optimizer, **kwargs)
        self.label = label

    def get_config(self):
        return {**super().get_config(), "label": self.label}

    def tripled(self):
        return float(self.loss_scale) * 3


def test_a_subclass_with_arguments_and_properties_of_its_own(family, x):
    optimizer = Named(FAMILIES[family].Adam(), "first", initial_scale=4)
    assert (optimizer.label, optimizer.initial_scale) == ("first", 4.0)
    assert (optimizer.beta_1, optimizer.tripled()) == ("mine", 12.0)
    assert type(optimizer).__doc__ == Named.__doc__
    config = optimizer.get_config()
    for cls in (Named, type(optimizer)):
        config["inner_optimizer"] = FAMILIES[family].SGD(0.5)
        again = cls.from_config(config)
        assert isinstance(again, Named)
        assert again.label == "first"
    step(again, x)
    assert float(x) == 0.0


# --- Of the class of an instance: wrappers that build a class at run time.


def distributed_as_by_horovod(optimizer):
    """Horovod's DistributedOptimizer, without the communication."""

    def apply_gradients(self, *args, **kwargs):
        self.__dict__.setdefault("calls", []).append("distributed")
        return super(cls, self).apply_gradients(*args, **kwargs)

    members = {"_HAS_AGGREGATE_GRAD": True, "apply_gradients": apply_gradients}
    cls = type(type(optimizer).__name__, (type(optimizer),), members)
    return cls.from_config(optimizer.get_config())


def test_horovods_class_of_a_wrapped_optimizer(family, x):
    optimizer = wrapped(family, "SGD", 0.5, scale=4.0)
    distributed = distributed_as_by_horovod(optimizer)
    assert isinstance(distributed, type(optimizer))
    assert type(distributed).__name__ == "LossScaleOptimizer"
    assert distributed.initial_scale == 4.0
    step(distributed, x)
    assert float(x) == 0.0
    assert distributed.calls == ["distributed"]
    assert float(distributed.loss_scale) == 4.0


def test_horovods_class_of_the_inner_optimizer(family, x):
    inner = distributed_as_by_horovod(FAMILIES[family].SGD(0.5))
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=4)
    step(optimizer, x)
    step(optimizer, x, float("nan"))
    assert float(x) == 0.0
    assert inner.calls == ["distributed"]
    assert int(copies(optimizer.iterations)[0]) == 2
    assert float(optimizer.loss_scale) == 2.0
    optimizer.learning_rate = 0.25
    assert number(inner.learning_rate) == 0.25


def test_the_class_of_an_instance_wraps_another_optimizer_of_its_family_alone(
    family, x
):
    cls = type(wrapped(family))
    optimizer = cls(FAMILIES[family].SGD(0.5), initial_scale=2)
    assert type(optimizer) is cls
    step(optimizer, x)
    assert float(x) == 0.0
    for other in FAMILIES.keys() - {family}:
        inner = FAMILIES[other].SGD()
        with pytest.raises(TypeError, match=r"'optimizer'.*family"):
            cls(inner)
        tf_lso.LossScaleOptimizer(inner)


# --- Of the inner optimizer; what overrides `apply_gradients`: `test_apply_arguments.py`.


def test_overriding_aggregation_differently_on_each_replica(mirrored2):
    """Replicas agree although the caller's sum is NaN on one of them alone."""

    class Local(FAMILIES["legacy"].SGD):
        def _aggregate_gradients(self, grads_and_vars):
            return grads_and_vars

    with mirrored2.scope():
        optimizer = tf_lso.LossScaleOptimizer(Local(0.25), initial_scale=8)
        x = tf.Variable(1.0)
    gradients = per_replica(mirrored2, [1.0, float("nan")])
    run = tf.function(lambda g: optimizer.apply_gradients([(g, x)]))
    mirrored2.run(run, args=(gradients,))
    assert copies(x) == [1.0, 1.0]
    assert float(optimizer.loss_scale) == 4.0


@pytest.mark.core
@pytest.mark.parametrize(
    "family, name",
    [
        *[(f, n) for f in ("new", "keras3") for n in ("aggregate", "_aggregate")],
        ("legacy", "_aggregate"),  # OptimizerV2 never called the other
    ],
)
@pytest.mark.parametrize("factor", [2.0, float("nan")])
def test_summing_in_its_own_way_is_left_to_it(family, x, name, factor):
    """As Horovod's optimizers do, by the method that OptimizerV2 called."""
    calls = []

    def aggregate(self, grads_and_vars):
        pairs = list(grads_and_vars)
        calls.append(len(pairs))
        return [(factor * g, v) for g, v in pairs]

    members = {f"{name}_gradients": aggregate}
    Own = type("Own", (FAMILIES[family].SGD,), members)
    optimizer = tf_lso.LossScaleOptimizer(Own(0.125), initial_scale=8)
    step(optimizer, x)
    assert calls == [1]  # once: the inner optimizer does not sum again
    # What the aggregation made of the gradients is what is judged and applied.
    assert float(x) == (0.5 if factor == 2.0 else 1.0)
    assert float(optimizer.loss_scale) == (8.0 if factor == 2.0 else 4.0)


def test_an_update_that_nothing_calls_any_more_is_told_of(family, caplog):
    class Decaying(FAMILIES[family].SGD):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return super()._resource_apply_dense(grad, var, apply_state)

    tf_lso.LossScaleOptimizer(Decaying(0.1))
    assert ("_resource_apply_dense" in caplog.text) == (family != "legacy")
    legacy = f"derive the class from {KERAS2_SPELLED}.optimizers.legacy."
    assert (legacy in caplog.text) == (family != "legacy")


def test_overriding_the_update(family, x):
    class Constant(FAMILIES[family].SGD):
        def update_step(self, gradient, variable, *rest):
            variable.assign_sub(0.5)

        def _resource_apply_dense(self, grad, var, apply_state=None):
            return var.assign_sub(0.5)

    optimizer = tf_lso.LossScaleOptimizer(Constant(0.1), initial_scale=8)
    for gradient in (2.0, float("inf")):
        step(optimizer, x, gradient)
        assert float(x) == 0.5


class _LegacyWithoutName(FAMILIES["legacy"].SGD):
    def apply_gradients(self, pairs, experimental_aggregate_gradients=True):
        aggregates = experimental_aggregate_gradients
        return super().apply_gradients(pairs, None, aggregates)


class _NewWithoutName(FAMILIES["new"].SGD):
    def apply_gradients(self, pairs, skip_gradients_aggregation=False):
        skip = skip_gradients_aggregation
        return super().apply_gradients(pairs, skip_gradients_aggregation=skip)


@pytest.mark.parametrize("cls", [_LegacyWithoutName, _NewWithoutName])
def test_apply_gradients_that_takes_no_name(cls, x):
    optimizer = tf_lso.LossScaleOptimizer(cls(0.25))
    optimizer.apply_gradients([(tf.constant(2.0), x)])
    optimizer.apply_gradients([(tf.constant(2.0), x)], name="a_name")
    assert float(x) == 0.0


def test_an_optimizer_of_the_users_own_on_two_replicas(family, mirrored2):
    class Signs(FAMILIES[family].SGD):
        """Moves a variable by the sign of its gradient."""

        def update_step(
            self, gradient, variable, *rest
        ):  # of the families keras3 and new
            variable.assign_sub(tf.sign(gradient))

        def _resource_apply_dense(self, grad, var, apply_state=None):  # of legacy
            return var.assign_sub(tf.sign(grad))

    with mirrored2.scope():
        optimizer = tf_lso.LossScaleOptimizer(Signs(0.1), initial_scale=8)
        x = tf.Variable(1.0)

    @tf.function
    def replica_step(gradient):
        legacy_step(optimizer, lambda: gradient * x, [x])

    def step(*gradients):
        mirrored2.run(replica_step, args=(per_replica(mirrored2, gradients),))

    step(1.0, -3.0)  # the sum is -2
    assert copies(x) == [2.0, 2.0]
    step(1.0, float("nan"))  # skipped on both replicas
    assert copies(x) == [2.0, 2.0]
    assert float(optimizer.loss_scale) == 4.0
