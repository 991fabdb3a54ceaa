"""What `apply_gradients` hands on to an inner optimizer whose own one takes more.

TensorFlowTTS calls `apply_gradients(zip(gradients, variables), 1.0)`, where the second
argument of its AdamWeightDecay is `clip_norm`. TensorFlow 2.0-2.8 handed it on.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, copies, number

NONE = tf.distribute.get_strategy()


class Plain:
    """An optimizer of Keras as it is."""


class Clipping:
    """As that of TensorFlowTTS."""

    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        gradients, variables = zip(*grads_and_vars)
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        return super().apply_gradients(zip(gradients, variables), **kwargs)


class ClippingOnly(Clipping):
    """Takes no more, as those of Keras 3 may.

    Of Keras 2 a class must take what tells it not to sum over replicas once more.
    """

    def apply_gradients(self, grads_and_vars, clip_norm=0.5):
        return super().apply_gradients(grads_and_vars, clip_norm)


class Weighting:
    """Names what TensorFlow 2.4 gave it, and one argument of its own."""

    def apply_gradients(
        self, pairs, name=None, experimental_aggregate_gradients=True, weight=1.0
    ):
        return super().apply_gradients(
            [(weight * g, v) for g, v in pairs],
            name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients,
        )


class Setting:
    """An optimizer, the variable x, and a way to apply a gradient of 2."""

    def __init__(self, kind, family, mode="eager", strategy=NONE):
        self.strategy, self.traced = strategy, mode == "traced"
        cls = type("Inner", (kind, FAMILIES[family].SGD), {})
        with strategy.scope():
            self.x = tf.Variable(0.0, name="x")
            self.optimizer = tf_lso.LossScaleOptimizer(cls(1.0), initial_scale=8.0)
            self.optimizer.build([self.x])

    def run(self, step):
        run = tf.function(self.strategy.run) if self.traced else self.strategy.run
        run(step)

    def apply(self, *args, gradient=2.0, **kwargs):
        def step():
            pairs = [(tf.constant(gradient) * 1.0, self.x)]  # each replica has its own
            self.optimizer.apply_gradients(pairs, *args, **kwargs)

        self.run(step)

    @property
    def taken(self):
        """What was taken off x, the same on each replica."""
        (value,) = {-float(copy) for copy in copies(self.x)}
        return value

    @property
    def state(self):
        counters = self.optimizer.iterations, self.optimizer.dynamic_counter
        numbers = [number(copies(counter)[0]) for counter in counters]
        return self.taken, float(self.optimizer.loss_scale), *numbers


CLASSES = [
    *[pytest.param(Clipping, family, id=family) for family in FAMILIES],
    pytest.param(ClippingOnly, "keras3", id="without kwargs"),
]


@pytest.mark.core
@pytest.mark.parametrize("kind, family", CLASSES)
def test_a_second_argument_reaches_the_inner_optimizer(kind, family):
    setting, taken = Setting(kind, family), 0.0
    for args, kwargs, norm in (
        ([1.0], {}, 1.0),
        ([0.25], {}, 0.25),
        ([tf.constant(1.0)], {}, 1.0),
        ([], {"clip_norm": 1.0}, 1.0),
        ([], {}, 0.5),  # its default
        (["my_step"], {}, 0.5),  # a name is the name
        ([None], {}, 0.5),
        ([], {"name": "my_step"}, 0.5),
        ([], {"name": None}, 0.5),
    ):
        taken += norm
        setting.apply(*args, **kwargs)
        assert setting.taken == taken, (args, kwargs)


@pytest.mark.parametrize(
    "mode, on_replicas",
    [
        ("traced", False),
        pytest.param("eager", True, marks=pytest.mark.slow),
        ("traced", True),
    ],
)
@pytest.mark.parametrize("kind, family", CLASSES)
def test_in_each_mode_it_is_of_the_unscaled_gradients_of_steps_that_are_applied(
    kind, family, mode, on_replicas, mirrored2
):
    strategy = mirrored2 if on_replicas else NONE
    setting = Setting(kind, family, mode, strategy)
    setting.apply(1.0, gradient=float("nan"))
    assert setting.taken == 0.0
    assert float(setting.optimizer.loss_scale) == 4.0

    def step():
        with tf.GradientTape() as tape:
            scaled = setting.optimizer.scale_loss(0.75 * setting.x)
        gradients = tape.gradient(scaled, [setting.x])
        setting.optimizer.apply_gradients(zip(gradients, [setting.x]), 4.0)

    setting.run(step)
    assert setting.taken == 0.75 * (2 if on_replicas else 1)


OTHERS = ["clip_value=1.0", "1.0, clip_value=1.0", "1.0, clip_norm=1.0"]


@pytest.mark.core
@pytest.mark.parametrize(
    "kind, family, calls",
    [
        *[(Plain, family, ["3", "1.0", "clip_norm=1.0"]) for family in FAMILIES],
        (ClippingOnly, "keras3", OTHERS),
        (Weighting, "legacy", ["1.0"]),  # which would be taken as the name
    ],
)
def test_what_the_inner_optimizer_does_not_take_is_refused(kind, family, calls):
    setting = Setting(kind, family)
    setting.apply()
    before = setting.state
    for call in calls:
        with pytest.raises(TypeError, match=rf"apply_gradients\(\).*{call[:9]}"):
            eval(f"setting.apply({call})")
    assert setting.state == before
    setting.apply()
    assert setting.taken == 2 * before[0]


@pytest.mark.parametrize(
    "mode", [pytest.param("eager", marks=pytest.mark.slow), "traced"]
)
@pytest.mark.parametrize("aggregates, taken", [(True, 2.0), (False, 1.0)])
@pytest.mark.parametrize("family", ["legacy", "new"])
def test_legacy_arguments_are_followed_beside_one_of_its_own(
    family, mode, aggregates, taken, mirrored2
):
    setting = Setting(Weighting, family, mode, mirrored2)
    setting.apply(weight=0.5, experimental_aggregate_gradients=aggregates)
    assert setting.taken == taken
    setting.apply("my_step", aggregates, weight=0.5)
    assert setting.taken == 2 * taken
