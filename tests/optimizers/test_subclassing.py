"""Subclasses of LossScaleOptimizer, and of the optimizers that it wraps."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    copies,
    keras,
    legacy_step,
    needs_keras3,
    per_replica,
    wrapped,
)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


def step(optimizer, x, gradient=2.0):
    optimizer.minimize(lambda: gradient * x, [x])


# --- Subclasses of LossScaleOptimizer.


class Labeled(tf_lso.LossScaleOptimizer):
    """A subclass with its own argument, property and method."""

    @property
    def beta_1(self):
        """Hides the hyperparameter of the inner optimizer."""
        return "mine"

    def __init__(self, optimizer, label, **kwargs):
        super().__init__(optimizer, **kwargs)
        self.label = label

    def get_config(self):
        return {**super().get_config(), "label": self.label}

    def tripled_scale(self):
        return float(self.loss_scale) * 3


def test_a_subclass_may_add_arguments_properties_and_methods(family):
    optimizer = Labeled(FAMILIES[family].Adam(), "first", initial_scale=4)
    copies_by_config = [
        cls.from_config(optimizer.get_config()) for cls in (Labeled, type(optimizer))
    ]
    for each in (optimizer, *copies_by_config):
        assert isinstance(each, Labeled)
        assert (each.label, each.initial_scale) == ("first", 4.0)
        assert (each.beta_1, each.tripled_scale()) == ("mine", 12.0)
    assert type(optimizer).__doc__ == Labeled.__doc__


def test_the_class_of_an_instance_wraps_only_optimizers_of_its_family(family, x):
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


# --- Subclasses of the inner optimizer. `test_apply_arguments.py` tests classes that add
# arguments to `apply_gradients`.


def test_replicas_agree_if_the_inner_optimizer_does_not_sum_gradients(mirrored2):
    """One replica's gradient is NaN, and all replicas must skip the step."""

    class NotSumming(FAMILIES["legacy"].SGD):
        def _aggregate_gradients(self, grads_and_vars):
            return grads_and_vars

    with mirrored2.scope():
        optimizer = tf_lso.LossScaleOptimizer(NotSumming(0.25), initial_scale=8)
        x = tf.Variable(1.0)
    gradients = per_replica(mirrored2, [1.0, float("nan")])
    run = tf.function(lambda g: optimizer.apply_gradients([(g, x)]))
    mirrored2.run(run, args=(gradients,))
    assert copies(x) == [1.0, 1.0]
    assert float(optimizer.loss_scale) == 4.0


@pytest.mark.core
@pytest.mark.parametrize(
    "family, method",
    [
        ("keras3", "aggregate_gradients"),
        ("keras3", "_aggregate_gradients"),
        ("new", "aggregate_gradients"),
        ("new", "_aggregate_gradients"),
        ("legacy", "_aggregate_gradients"),  # the only one that OptimizerV2 called
    ],
)
@pytest.mark.parametrize(
    "factor, x_after, scale_after", [(2.0, 0.5, 8.0), (float("nan"), 1.0, 4.0)]
)
def test_gradients_that_the_inner_optimizer_aggregates_itself_are_checked_and_applied(
    family, x, method, factor, x_after, scale_after
):
    """Horovod's optimizers override the method that OptimizerV2 called."""
    calls = []

    def aggregate(self, grads_and_vars):
        pairs = list(grads_and_vars)
        calls.append(len(pairs))
        return [(factor * g, v) for g, v in pairs]

    cls = type("Aggregating", (FAMILIES[family].SGD,), {method: aggregate})
    optimizer = tf_lso.LossScaleOptimizer(cls(0.125), initial_scale=8)
    step(optimizer, x)
    assert calls == [1]  # one call, with one pair
    assert float(x) == x_after
    assert float(optimizer.loss_scale) == scale_after


def test_apply_gradients_of_the_inner_optimizer_may_lack_the_argument_name(x):
    class WithoutName(FAMILIES["legacy"].SGD):
        def apply_gradients(self, pairs, experimental_aggregate_gradients=True):
            aggregates = experimental_aggregate_gradients
            return super().apply_gradients(pairs, None, aggregates)

    optimizer = tf_lso.LossScaleOptimizer(WithoutName(0.5))
    optimizer.apply_gradients([(tf.constant(2.0), x)], name="a_name")
    assert float(x) == 0.0


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_apply_gradients_of_the_inner_optimizer_gets_the_name(family, x):
    names = []

    class Noting(FAMILIES[family].SGD):
        def apply_gradients(self, pairs, name=None, **kwargs):
            names.append(name)
            return super().apply_gradients(pairs, name, **kwargs)

    optimizer = tf_lso.LossScaleOptimizer(Noting(0.5))
    optimizer.minimize(lambda: 2.0 * x, [x], name="first")
    optimizer.apply_gradients([(tf.constant(2.0), x)], "second")
    assert names == ["first", "second"]


def test_a_users_optimizer_class_on_two_replicas(family, mirrored2, caplog):
    class SignSGD(FAMILIES[family].SGD):
        """Subtracts the sign of the gradient from the variable."""

        def update_step(self, gradient, variable, *args):  # keras3 and new
            variable.assign_sub(tf.sign(gradient))

        def _resource_apply_dense(self, grad, var, apply_state=None):  # legacy
            return var.assign_sub(tf.sign(grad))

    with mirrored2.scope():
        optimizer = tf_lso.LossScaleOptimizer(SignSGD(0.1), initial_scale=8)
        x = tf.Variable(1.0)

    @tf.function
    def replica_step(gradient):
        legacy_step(optimizer, lambda: gradient * x, [x])

    def train(*gradients):
        mirrored2.run(replica_step, args=(per_replica(mirrored2, gradients),))

    train(1.0, -3.0)  # the sum is -2
    assert copies(x) == [2.0, 2.0]
    train(1.0, float("nan"))  # skipped on both replicas
    assert copies(x) == [2.0, 2.0]
    assert float(optimizer.loss_scale) == 4.0
    # A newer optimizer never calls `_resource_apply_dense`.
    assert ("_resource_apply_dense" in caplog.text) == (family != "legacy")


@needs_keras3
def test_a_build_that_fails_after_it_made_a_variable_is_not_repeated():
    """A second build would make the variable twice."""

    class Own(keras.optimizers.SGD):
        builds = 0

        def build(self, variables):
            Own.builds += 1
            self.add_variable((), name="extra")
            raise ValueError("no build")

    optimizer, x = tf_lso.LossScaleOptimizer(Own()), tf.Variable(1.0)
    step = tf.function(lambda: optimizer.apply_gradients([(tf.constant(1.0), x)]))
    with pytest.raises(ValueError, match="no build"):
        step()
    assert Own.builds == 1
