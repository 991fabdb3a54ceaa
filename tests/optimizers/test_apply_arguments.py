"""What `apply_gradients` hands on to an inner optimizer whose own one takes more.

TensorFlowTTS calls `apply_gradients(zip(gradients, variables), 1.0)`, where the second
argument of its AdamWeightDecay is `clip_norm`. TensorFlow 2.0-2.8 handed it on.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, bare_sums, copies, number

NONE = tf.distribute.get_strategy()
NAN = float("nan")


def clipping(family):
    """A class as that of TensorFlowTTS."""

    class Clipping(FAMILIES[family].SGD):
        def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
            gradients, variables = zip(*grads_and_vars)
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
            return super().apply_gradients(zip(gradients, variables), **kwargs)

    return Clipping


def clipping_only(family):
    """A class that takes no more, as those of Keras 3 may."""

    class ClippingOnly(FAMILIES[family].SGD):
        def apply_gradients(self, grads_and_vars, clip_norm=0.5):
            gradients, variables = zip(*grads_and_vars)
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
            return super().apply_gradients(zip(gradients, variables))

    return ClippingOnly


# Of Keras 2 a class must take what tells it not to sum over replicas once more.
CLASSES = [
    pytest.param(clipping, id="with kwargs"),
    pytest.param(clipping_only, id="without", marks=pytest.mark.keras3),
]


class Setting:
    """An optimizer, the variable x, and a way to apply a gradient of 2."""

    def __init__(self, make, family, mode, strategy):
        self.family, self.strategy, self.traced = family, strategy, mode == "traced"
        with strategy.scope():
            self.x = tf.Variable(0.0, name="x")
            self.optimizer = tf_lso.LossScaleOptimizer(
                make(family)(1.0), initial_scale=8.0
            )
            self.optimizer.build([self.x])

    def apply(self, *args, gradient=2.0, **kwargs):
        def step(gradient):
            pairs = [(gradient * 1.0, self.x)]  # each replica has its own
            self.optimizer.apply_gradients(pairs, *args, **kwargs)

        def on_replicas(gradient):
            self.strategy.run(step, args=(gradient,))

        function = step if self.strategy is NONE else on_replicas
        function = tf.function(function) if self.traced else function
        function(tf.constant(gradient))

    @property
    def taken(self):
        """What was taken off x, the same on each replica."""
        (value,) = {-float(copy) for copy in copies(self.x)}
        return value

    @property
    def state(self):
        optimizer = self.optimizer
        return (
            self.taken,
            number(copies(optimizer.iterations)[0]),
            float(optimizer.loss_scale),
            number(copies(optimizer.dynamic_counter)[0]),
        )


MODES = [
    pytest.param("eager", marks=pytest.mark.core),
    "traced",
    pytest.param("eager replicas", marks=pytest.mark.slow),
    "traced replicas",
]


@pytest.fixture(params=MODES)
def setting(request, family, mirrored2):
    """Makes a setting, given a function that makes a class."""
    if request.node.get_closest_marker("keras3"):
        family = "keras3"
    mode, _, replicas = request.param.partition(" ")
    strategy = mirrored2 if replicas else NONE
    return lambda make: Setting(make, family, mode, strategy)


@pytest.mark.parametrize("make", CLASSES)
class TestASecondArgument:
    def test_by_position_reaches_the_inner_optimizer(self, setting, make):
        setting = setting(make)
        setting.apply(1.0)
        assert setting.taken == 1.0
        setting.apply(0.25)
        assert setting.taken == 1.25

    def test_as_a_tensor_reaches_it(self, setting, make):
        setting = setting(make)
        setting.apply(tf.constant(1.0))
        assert setting.taken == 1.0

    def test_by_keyword_reaches_it(self, setting, make):
        setting = setting(make)
        setting.apply(clip_norm=1.0)
        assert setting.taken == 1.0

    def test_that_is_left_out_has_its_default(self, setting, make):
        setting = setting(make)
        setting.apply()
        assert setting.taken == 0.5

    @pytest.mark.parametrize("name", ["my_step", None])
    def test_that_is_a_name_is_the_name(self, setting, make, name):
        setting = setting(make)
        setting.apply(name)
        assert setting.taken == 0.5
        setting.apply(name=name)
        assert setting.taken == 1.0

    def test_of_a_skipped_step_changes_nothing(self, setting, make):
        setting = setting(make)
        setting.apply(1.0, gradient=NAN)
        assert setting.taken == 0.0
        assert float(setting.optimizer.loss_scale) == 4.0
        setting.apply(1.0)
        assert setting.taken == 1.0


@pytest.mark.keras3
def test_what_the_inner_optimizer_does_not_take_is_refused(setting):
    setting = setting(clipping_only)
    setting.apply(1.0)
    before = setting.state
    with pytest.raises(TypeError, match="clip_value"):
        setting.apply(clip_value=1.0)
    with pytest.raises(TypeError, match="clip_value"):
        setting.apply(1.0, clip_value=1.0)
    with pytest.raises(TypeError, match="clip_norm"):
        setting.apply(1.0, clip_norm=1.0)
    assert setting.state == before
    setting.apply(1.0)
    assert setting.taken == 2.0


def test_scaled_gradients_are_unscaled_before_they_are_clipped(setting):
    setting = setting(clipping)

    def step():
        with tf.GradientTape() as tape:
            scaled = setting.optimizer.scale_loss(0.75 * setting.x)
        gradients = tape.gradient(scaled, [setting.x])
        setting.optimizer.apply_gradients(zip(gradients, [setting.x]), 4.0)

    function = (
        (lambda: setting.strategy.run(step)) if setting.strategy != NONE else step
    )
    (tf.function(function) if setting.traced else function)()
    replicas = setting.strategy.num_replicas_in_sync if bare_sums(setting.family) else 1
    assert setting.taken == 0.75 * replicas


@pytest.mark.parametrize("argument", [1.0, 3])
def test_an_optimizer_that_takes_no_second_argument_refuses_it(setting, argument):
    setting = setting(lambda family: FAMILIES[family].SGD)
    setting.apply()
    before = setting.state
    with pytest.raises(TypeError, match=r"apply_gradients\(\)"):
        setting.apply(argument)
    with pytest.raises(TypeError, match="clip_norm"):
        setting.apply(clip_norm=argument)
    assert setting.state == before


class TestLegacyArguments:
    """A class that names what TensorFlow 2.4 gave it, and one argument of its own."""

    @pytest.fixture
    def setting(self, mirrored2):
        def make(family):
            class Weighting(FAMILIES[family].SGD):
                def apply_gradients(
                    self,
                    grads_and_vars,
                    name=None,
                    experimental_aggregate_gradients=True,
                    weight=1.0,
                ):
                    return super().apply_gradients(
                        [(weight * g, v) for g, v in grads_and_vars],
                        name=name,
                        experimental_aggregate_gradients=experimental_aggregate_gradients,
                    )

            return Weighting

        return lambda mode: Setting(make, "legacy", mode, mirrored2)

    @pytest.mark.parametrize("mode", ["eager", "traced"])
    @pytest.mark.parametrize("aggregates, taken", [(True, 2.0), (False, 1.0)])
    def test_of_aggregation_is_followed_beside_one_of_its_own(
        self, setting, mode, aggregates, taken
    ):
        setting = setting(mode)
        setting.apply(weight=0.5, experimental_aggregate_gradients=aggregates)
        assert setting.taken == taken
        setting.apply("my_step", aggregates, weight=0.5)
        assert setting.taken == 2 * taken
