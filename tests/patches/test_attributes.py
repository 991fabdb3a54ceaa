"""Old attributes and arguments of optimizers, while installed."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, keras2, needs_keras3, number
from tf_lso.patches import ledger as ledger_lib

BARE = {"keras3": keras.optimizers, "new": keras2.optimizers}


@pytest.fixture(autouse=True)
def installed():
    with tf_lso.install():
        yield


@pytest.fixture(params=BARE)
def optimizers(request):
    """The optimizers of one family that `tf.keras.optimizers` may be."""
    return BARE[request.param]


def moved(optimizer, x, **kwargs):
    """How far a step moves a variable, up."""
    before = float(x)
    optimizer.apply_gradients([(tf.constant(-1.0), x)], **kwargs)
    return float(x) - before


def is_close(values, expected):
    np.testing.assert_allclose(values, expected, rtol=1e-6)


class TestAttributes:
    def test_lr_is_the_learning_rate_also_through_a_wrapper(self, optimizers):
        sgd = optimizers.SGD(0.5)
        wrapper = tf_lso.LossScaleOptimizer(sgd)
        assert number(sgd.lr) == number(wrapper.lr) == 0.5
        sgd.lr = 0.25
        assert number(sgd.learning_rate) == number(sgd.lr) == 0.25

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
    def test_decayed_lr_is_a_tensor_of_that_dtype(self, optimizers, dtype):
        schedule = optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
        for rate in (0.5, schedule):
            rate = optimizers.SGD(rate)._decayed_lr(dtype)
            assert rate.dtype == dtype
            assert float(rate) == 0.5

    def test_minimize_is_there_for_bare_optimizers(self, optimizers):
        x = tf.Variable(3.0)
        sgd = optimizers.SGD(0.25)
        sgd.minimize(lambda: x**2, [x])
        assert float(x) == 1.5
        with tf.GradientTape() as tape:
            loss = x**2
        sgd.minimize(loss, [x], tape=tape)
        assert float(x) == 0.75
        with pytest.raises(ValueError, match="tape"):
            sgd.minimize(tf.constant(1.0), [])

    @pytest.mark.parametrize("wrapped", [False, True])
    @pytest.mark.parametrize("method", ["_create_all_weights", "_create_slots"])
    def test_create_all_weights_builds(self, optimizers, method, wrapped):
        adam = optimizers.Adam()
        optimizer = tf_lso.LossScaleOptimizer(adam) if wrapped else adam
        x = (tf if optimizers is keras2.optimizers else keras).Variable(1.0)
        optimizer._create_hypers()
        getattr(optimizer, method)([x])
        values = adam.get_weights()
        assert [v.shape for v in values] == [tuple(v.shape) for v in adam.variables]
        assert len(adam.weights) == len(values) >= 3
        assert len(optimizer.get_weights()) >= 3

    @pytest.mark.parametrize("name", ["lr", "learning_rate"])
    def test_set_value_of_the_backend_takes_the_learning_rate(self, name):
        import tensorflow.keras.backend as copied

        wrapper = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.5))
        for backend, rate in (tf.keras.backend, 0.25), (copied, np.float64(0.125)):
            backend.set_value(getattr(wrapper, name), rate)
            assert number(wrapper.learning_rate) == rate
            assert tf.keras.backend.get_value(wrapper.lr) == rate

    def test_get_value_of_the_backend_takes_a_loss_scale(self):
        from tensorflow.keras.mixed_precision import experimental

        wrapper = experimental.LossScaleOptimizer(keras.optimizers.SGD(0.5), 8)
        assert tf.keras.backend.get_value(wrapper.loss_scale) == 8.0

    def test_counters_are_numbers(self):
        sgd = keras.optimizers.SGD(0.5)
        assert int(sgd.iterations) == 0
        assert float(sgd.learning_rate) == 0.5

    @pytest.mark.parametrize("namespace", ["legacy", "experimental"])
    @needs_keras3
    def test_namespaces_have_the_optimizers_of_today(self, namespace):
        module = getattr(tf.keras.optimizers, namespace)
        assert module is getattr(keras.optimizers, namespace)
        imported = {}
        for path in ("keras", "tensorflow.keras"):
            exec(f"from {path}.optimizers.{namespace} import Adam", imported)
            assert imported["Adam"] is module.Adam is keras.optimizers.Adam
        optimizer = tf_lso.LossScaleOptimizer(module.SGD(lr=0.5))
        assert isinstance(optimizer, module.Optimizer)
        assert number(optimizer.lr) == 0.5


NO_SUMMING = [
    ("experimental_aggregate_gradients", False),
    ("skip_gradients_aggregation", True),
]


class TestApplyGradients:
    def test_takes_a_name(self, optimizers):
        is_close(moved(optimizers.SGD(0.5), tf.Variable(0.0), name="train"), 0.5)

    def test_may_be_overridden_with_a_name_inside_a_wrapper(self, optimizers):
        class Mine(optimizers.SGD):
            def apply_gradients(self, grads_and_vars, name=None, **kwargs):
                pairs = [(2 * g, v) for g, v in grads_and_vars]
                return super().apply_gradients(pairs, name=name, **kwargs)

        is_close(moved(tf_lso.LossScaleOptimizer(Mine(0.25)), tf.Variable(0.0)), 0.5)

    @pytest.mark.parametrize("keyword, value", NO_SUMMING)
    def test_leaves_summing_to_the_caller(self, mirrored2, keyword, value):
        with mirrored2.scope():
            x, sgd = tf.Variable(1.0), keras.optimizers.SGD(0.25)

        @tf.function
        def step():
            def on_replica():
                context = tf.distribute.get_replica_context()
                gradient = context.all_reduce("SUM", tf.constant(1.0))
                sgd.apply_gradients([(gradient, x)], **{keyword: value})

            mirrored2.run(on_replica)

        step()
        assert [float(v) for v in mirrored2.experimental_local_results(x)] == [0.5, 0.5]


@needs_keras3
def test_callbacks_log_the_learning_rate_by_its_old_name_too():
    model, x = keras.Sequential([keras.layers.Dense(1)]), np.ones((2, 1))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr / 2)
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss")
    for callback in (schedule, plateau):  # the first halves the rate
        history = model.fit(x, x, verbose=0, callbacks=[callback]).history
        assert history["lr"] == history["learning_rate"] == [0.25]


class TestArguments:
    @pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Ftrl"])
    def test_lr_is_the_learning_rate(self, optimizers, name):
        assert number(getattr(optimizers, name)(lr=0.125).learning_rate) == 0.125

    def test_decay_divides_the_learning_rate_which_may_be_set(self, optimizers):
        sgd, x = optimizers.SGD(lr=0.5, decay=1.0), tf.Variable(0.0)
        for rate in (0.5, 0.25, 0.5 / 3):
            is_close(float(sgd._decayed_lr(tf.float32)), rate)
            is_close(moved(sgd, x), rate)
        sgd.lr = 0.25
        tf.keras.backend.set_value(sgd.learning_rate, 0.125)
        assert number(sgd.lr) == 0.125
        is_close(moved(sgd, x), 0.125 / 4)

    def test_decay_goes_round_by_the_config(self, optimizers):
        sgd = optimizers.SGD(lr=0.5, decay=0.25)
        again = optimizers.SGD.from_config(sgd.get_config())
        assert again.decay == tf_lso.LossScaleOptimizer(sgd).decay == 0.25
        assert "decay" not in optimizers.SGD(0.5).get_config()

    @pytest.mark.parametrize("mode", [lambda f: f, tf.function])
    def test_decay_holds_in_traced_steps_under_a_wrapper(self, mode, optimizers):
        x = tf.Variable(0.0)
        wrapper = tf_lso.LossScaleOptimizer(optimizers.SGD(lr=0.5, decay=1.0))
        step = mode(lambda: wrapper.minimize(lambda: -x, [x]))
        for _ in range(3):
            step()
        is_close(float(x), 0.5 + 0.25 + 0.5 / 3)

    def test_those_without_effect_on_updates_are_left_out(self):
        adam = keras.optimizers.Adam(0.5, jit_compile=False, is_legacy_optimizer=True)
        assert number(adam.learning_rate) == 0.5

    def test_other_unknown_arguments_are_refused(self, optimizers):
        with pytest.raises((TypeError, ValueError), match="bogus"):
            optimizers.SGD(lr=0.1, bogus=3)


class TestSchedules:
    def test_a_schedule_gets_a_float_step(self, optimizers):
        steps = []

        class Rsqrt(optimizers.schedules.LearningRateSchedule):
            def __call__(self, step):
                steps.append(step.dtype)
                return tf.math.rsqrt(step + 1)

        sgd, x = optimizers.SGD(Rsqrt()), tf.Variable(0.0)
        is_close([moved(sgd, x), moved(sgd, x)], [1, 2**-0.5])
        assert set(steps) == {tf.float32}

    @pytest.mark.parametrize("wrapped", [False, True])
    @needs_keras3
    def test_it_counts_micro_steps_as_keras_does(self, wrapped):
        schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
        sgd = keras.optimizers.SGD(schedule, gradient_accumulation_steps=2)
        optimizer = tf_lso.LossScaleOptimizer(sgd) if wrapped else sgd
        x = tf.Variable(0.0)
        # The rates of the second and the fourth call.
        assert [moved(optimizer, x) for _ in range(4)] == [0.0, 0.5, 0.0, 0.125]


@pytest.mark.parametrize("name", ["SGD", "Model"])
def test_a_method_that_keras_has_moved_is_refused_by_name(name):
    ledger = ledger_lib.Ledger()
    owner = getattr(keras.optimizers, name, keras.Model)
    with pytest.raises(ImportError, match=rf"{name}.* has no _moved_away"):
        ledger.around(owner, "_moved_away")
