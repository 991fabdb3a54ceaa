"""Further arguments of `apply_gradients`, which the inner optimizer gets.

TensorFlowTTS calls `apply_gradients(zip(gradients, variables), 1.0)`. Its AdamWeightDecay
accepts the second argument as `clip_norm`. TensorFlow 2.0-2.8 passed the argument on.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, copies, needs_keras3, number

NO_STRATEGY = tf.distribute.get_strategy()


# Mixins for optimizer classes, which add arguments to `apply_gradients`.


class Plain:
    """Adds no argument."""


class Clipping:
    """Clips gradients like AdamWeightDecay of TensorFlowTTS."""

    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        gradients, variables = zip(*grads_and_vars)
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        return super().apply_gradients(zip(gradients, variables), **kwargs)


class ClippingWithoutKeywords(Clipping):
    """Accepts no other keywords.

    A class of Keras 2 must accept the keyword that turns off the sum over replicas, so this
    class is only for Keras 3.
    """

    def apply_gradients(self, grads_and_vars, clip_norm=0.5):
        return super().apply_gradients(grads_and_vars, clip_norm)


class Weighting:
    """Accepts the arguments of TensorFlow 2.4, and `weight`."""

    def apply_gradients(
        self, pairs, name=None, experimental_aggregate_gradients=True, weight=1.0
    ):
        return super().apply_gradients(
            [(weight * g, v) for g, v in pairs],
            name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients,
        )


class Setting:
    """A variable, which is 0, and an optimizer with the learning rate 1."""

    def __init__(self, mixin, family, strategy=NO_STRATEGY):
        self.strategy = strategy
        cls = type("Inner", (mixin, FAMILIES[family].SGD), {})
        with strategy.scope():
            self.x = tf.Variable(0.0, name="x")
            self.optimizer = tf_lso.LossScaleOptimizer(cls(1.0), initial_scale=8.0)
            self.optimizer.build([self.x])

    def apply(self, *args, **kwargs):
        """Call `apply_gradients` with the gradient 2 and further arguments on each replica."""

        def step():
            # Multiply by 1, so that each replica has a tensor of its own.
            pairs = [(tf.constant(2.0) * 1.0, self.x)]
            self.optimizer.apply_gradients(pairs, *args, **kwargs)

        run = self.strategy.run
        run = run if self.strategy is NO_STRATEGY else tf.function(run)
        run(step)

    @property
    def subtracted(self):
        """What the steps have subtracted from x, which must be equal on all replicas."""
        (value,) = {-float(copy) for copy in copies(self.x)}
        return value

    @property
    def state(self):
        counters = self.optimizer.iterations, self.optimizer.dynamic_counter
        numbers = [number(copies(counter)[0]) for counter in counters]
        return self.subtracted, float(self.optimizer.loss_scale), *numbers


CLIPPING = [
    *[pytest.param(Clipping, family, id=family) for family in FAMILIES],
    pytest.param(ClippingWithoutKeywords, "keras3", id="without keywords"),
]


@pytest.mark.core
@pytest.mark.parametrize("mixin, family", CLIPPING)
def test_a_second_argument_reaches_the_inner_optimizer(mixin, family):
    setting, subtracted = Setting(mixin, family), 0.0
    # The gradient 2 is clipped to the norm.
    for args, kwargs, norm in (
        ([1.0], {}, 1.0),
        ([0.25], {}, 0.25),
        ([tf.constant(1.0)], {}, 1.0),
        ([], {"clip_norm": 1.0}, 1.0),
        ([], {}, 0.5),  # the default of `clip_norm`
        (["my_step"], {}, 0.5),  # a str is the name of the step
        ([None], {}, 0.5),
        ([], {"name": "my_step"}, 0.5),
        ([], {"name": None}, 0.5),
    ):
        setting.apply(*args, **kwargs)
        subtracted += norm
        assert setting.subtracted == subtracted, (args, kwargs)


@pytest.mark.core
@pytest.mark.parametrize(
    "args, kwargs, shown",
    [([1.0], {}, "1.0"), ([], {"clip_norm": 1.0}, "clip_norm=1.0")],
)
def test_optimizers_of_keras_refuse_further_arguments(family, args, kwargs, shown):
    check_refusal(Setting(Plain, family), args, kwargs, shown)


@pytest.mark.core
@needs_keras3
def test_a_users_optimizer_refuses_arguments_that_it_lacks():
    setting = Setting(ClippingWithoutKeywords, "keras3")
    check_refusal(setting, [1.0], {"clip_value": 1.0}, "1.0, clip_value=1.0")


@pytest.mark.core
def test_a_number_is_refused_if_the_second_argument_is_the_name():
    check_refusal(Setting(Weighting, "legacy"), [1.0], {}, "1.0")


def check_refusal(setting, args, kwargs, shown):
    """Check that `apply` refuses arguments, shows them, and changes nothing."""
    setting.apply()
    before = setting.state
    with pytest.raises(TypeError, match=rf"apply_gradients\(\).*{shown}"):
        setting.apply(*args, **kwargs)
    assert setting.state == before
    setting.apply()
    assert setting.subtracted == 2 * before[0]


@pytest.mark.parametrize("aggregates, subtracted", [(True, 2.0), (False, 1.0)])
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_a_users_argument_may_be_passed_together_with_the_legacy_arguments(
    family, aggregates, subtracted, mirrored2
):
    setting = Setting(Weighting, family, mirrored2)
    setting.apply(weight=0.5, experimental_aggregate_gradients=aggregates)
    assert setting.subtracted == subtracted
    setting.apply("my_step", aggregates, weight=0.5)
    assert setting.subtracted == 2 * subtracted
