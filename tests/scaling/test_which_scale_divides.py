"""Which scale divides the gradients of a step, where little tells.

The loss is 2x and the learning rate 1, so a right step takes 2 off x. Powers of two keep
all numbers exact.
"""

import concurrent.futures
import gc
import itertools

import pytest
import tensorflow as tf

from tests.families import STYLES, bare_sums, copies, wrapped

NAN = float("nan")
MODES = {"eager": lambda function: function, "traced": tf.function}
METHODS = {"legacy": "get_scaled_loss", "keras3": "scale_loss"}


def optimizer_and_x(family, scale=8.0, growth=1000):
    optimizer = wrapped(family, "SGD", 1.0, scale=scale, growth=growth)
    x = tf.Variable(0.0, name="x")
    optimizer.build([x])
    return optimizer, x


def scaled_gradient(optimizer, x, method, factor=1.0):
    with tf.GradientTape() as tape:
        scaled = getattr(optimizer, method)(2.0 * x * factor)
    return tape.gradient(scaled, x)


def unscaled_gradient(optimizer, x, factor=1.0):
    scaled = scaled_gradient(optimizer, x, "get_scaled_loss", factor)
    return optimizer.get_unscaled_gradients([scaled])[0]


def to_apply(style, optimizer, x, factor=1.0):
    """A gradient as `apply_gradients` takes it in this style."""
    if style == "legacy":
        return unscaled_gradient(optimizer, x, factor)
    return scaled_gradient(optimizer, x, "scale_loss", factor)


def whole(style, optimizer, x, factor=1.0):
    return STYLES[style](optimizer, lambda: 2.0 * x * factor, [x])


def steps_of(x):
    """The number of right steps that x has had."""
    return float(x) / -2.0


@pytest.fixture
def worker():
    """A thread that stays: `submit(function, *args).result()`."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        yield executor


class TestALossThatIsAppliedTwice:
    """Its step follows one with more losses than applies."""

    @pytest.mark.parametrize("style", STYLES)
    @pytest.mark.parametrize("growth", [1000, 1])
    def test_after_a_skipped_step_of_two_losses(self, family, style, growth):
        optimizer, x = optimizer_and_x(family, growth=growth)
        first = to_apply(style, optimizer, x, NAN)
        second = to_apply(style, optimizer, x)
        optimizer.apply_gradients([((first + second) / 2.0, x)])
        assert steps_of(x) == 0
        assert float(optimizer.loss_scale) == 4.0
        gradient = to_apply(style, optimizer, x)
        optimizer.apply_gradients([(gradient, x)])
        optimizer.apply_gradients([(gradient * 1.0, x)])
        assert steps_of(x) == 2

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("style", STYLES)
    def test_is_divided_by_its_own_scale_both_times(self, family, style, mode):
        optimizer, x = optimizer_and_x(family, growth=1)

        def step():
            gradient = to_apply(style, optimizer, x)
            optimizer.apply_gradients([(gradient, x)])  # and the scale grows
            optimizer.apply_gradients([(gradient * 1.0, x)])

        step = MODES[mode](step)
        for expected in (2, 4, 6):
            step()
            assert steps_of(x) == expected


class TestLegacyGradientsThatAreNeverApplied:
    def restore(self, optimizer, x, folder):
        tf.train.Checkpoint(optimizer=optimizer).restore(str(folder / "of scale 64"))

    def set_scale(self, optimizer, x, folder):
        optimizer.loss_scale = 64.0

    def set_weights(self, optimizer, x, folder):
        optimizer.set_weights(self.weights)

    def skip(self, optimizer, x, folder):
        optimizer.apply_gradients([(unscaled_gradient(optimizer, x, NAN), x)])

    def skip_in_a_function(self, optimizer, x, folder):
        tf.function(self.skip)(optimizer, x, folder)

    MOVES = (restore, set_scale, set_weights, skip, skip_in_a_function)

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("looked_at", MODES)
    @pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
    def test_leave_nothing_behind_when_the_scale_moves(
        self, family, move, looked_at, mode, tmp_path
    ):
        optimizer, x = optimizer_and_x(family, scale=64.0)
        checkpoint = tf.train.Checkpoint(optimizer=optimizer)
        checkpoint.write(str(tmp_path / "of scale 64"))
        self.weights = optimizer.get_weights()
        optimizer.loss_scale = 8.0
        look = MODES[looked_at](lambda: unscaled_gradient(optimizer, x))
        step = MODES[mode](lambda: whole("legacy", optimizer, x))
        for _ in range(2):
            assert float(look()) == 2.0
            move(self, optimizer, x, tmp_path)
            x.assign(0.0)  # a checkpoint of Keras 3 holds the model's variables as well
            step()
            assert steps_of(x) == 1


CALLS = ("Ge", "Gf", "We", "Wf")
SCALES = (8.0, 64.0, 2.0, 32.0)
SEQUENCES = list(itertools.product(CALLS, repeat=4))


def run_sequence(family, calls, is_set):
    """Run looks G and whole steps W, eager e or in a function f; raise if one is wrong.

    Each whole step moves the scale; with `is_set` it is set before each call as well.
    """
    optimizer, x = optimizer_and_x(family, scale=SCALES[0], growth=1)
    functions = {
        "Ge": lambda: unscaled_gradient(optimizer, x),
        "We": lambda: whole("legacy", optimizer, x),
    }
    functions["Gf"] = tf.function(functions["Ge"])
    functions["Wf"] = tf.function(functions["We"])
    steps = 0
    for call, scale in zip(calls, SCALES):
        if is_set:
            optimizer.loss_scale = scale
        result = functions[call]()
        steps += call[0] == "W"
        assert call[0] == "W" or float(result) == 2.0
        assert steps_of(x) == steps


def wrong_sequences(families_and_sequences, is_set):
    """Those that raised, with what they raised."""
    wrong = {}
    for family, calls in families_and_sequences:
        try:
            run_sequence(family, calls, is_set)
        except (AssertionError, RuntimeError, tf.errors.InvalidArgumentError) as error:
            wrong[family, " ".join(calls)] = str(error)[:200]
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("is_set", [False, True], ids=["the steps move it", "set"])
def test_looks_and_whole_steps_in_any_order_for_each_family(family, is_set):
    assert wrong_sequences(((family, calls) for calls in SEQUENCES), is_set) == {}


@pytest.fixture
def warnings_of_scaling(caplog, recwarn):
    """The warnings that speak of scales or scaling, when called."""

    def texts():
        messages = [record.getMessage() for record in caplog.records]
        messages += [str(warning.message) for warning in recwarn.list]
        messages = [m for m in messages if "retracing" not in m]  # of many functions
        return [message for message in messages if "scale" in message]

    return texts


class TestAFunctionThatWasCollected:
    def collected(self, function):
        """What a `tf.function` returns that is gone by now."""
        result = tf.function(function)()
        gc.collect()
        return result

    def test_its_scaled_gradients_are_divided(self, family, warnings_of_scaling):
        optimizer, x = optimizer_and_x(family)
        for expected in (1, 2):
            gradient = self.collected(lambda: to_apply("keras3", optimizer, x))
            optimizer.apply_gradients([(gradient, x)])
            assert steps_of(x) == expected
        assert warnings_of_scaling() == []

    def test_its_unscaled_gradients_are_not_divided(self, family, warnings_of_scaling):
        optimizer, x = optimizer_and_x(family, growth=1)
        for expected in (1, 2):
            gradient = self.collected(lambda: to_apply("legacy", optimizer, x))
            optimizer.apply_gradients([(gradient, x)])
            assert steps_of(x) == expected
        assert warnings_of_scaling() == []

    def test_it_still_counts_where_both_kinds_were_called(self, family):
        optimizer, x = optimizer_and_x(family)
        scaled = self.collected(lambda: to_apply("keras3", optimizer, x))
        unscaled = self.collected(lambda: to_apply("legacy", optimizer, x))
        for gradient in (scaled, unscaled):
            with pytest.raises(RuntimeError, match="get_unscaled_gradients"):
                optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 0


def on_replicas(family, strategy, growth):
    """An optimizer, x, and how much a right step of both replicas takes off x."""
    with strategy.scope():
        optimizer, x = optimizer_and_x(family, growth=growth)
    return optimizer, x, 2.0 * (2 if bare_sums(family) else 1)


@pytest.mark.parametrize("style", STYLES)
class TestEagerReplicas:
    STEPS = 5  # and the scale grows after two

    def test_micro_batches_and_one_apply_in_one_run(self, family, style, mirrored2):
        optimizer, x, one = on_replicas(family, mirrored2, growth=2)

        def step():
            first = to_apply(style, optimizer, x)
            second = to_apply(style, optimizer, x)
            optimizer.apply_gradients([((first + second) / 2.0, x)])

        for number in range(1, self.STEPS + 1):
            mirrored2.run(step)
            assert copies(x) == [-one * number] * 2

    @pytest.mark.slow
    @pytest.mark.parametrize("copied", [False, True], ids=["same", "copied"])
    def test_gradients_in_one_run_and_the_apply_in_the_next(
        self, family, style, copied, mirrored2
    ):
        optimizer, x, one = on_replicas(family, mirrored2, growth=2)

        def apply(gradient):
            gradient = gradient * 1.0 if copied else gradient  # as clipping would
            optimizer.apply_gradients([(gradient, x)])

        for number in range(1, self.STEPS + 1):
            gradient = mirrored2.run(lambda: to_apply(style, optimizer, x))
            mirrored2.run(apply, args=(gradient,))
            assert copies(x) == [-one * number] * 2

    def test_micro_batches_in_runs_of_their_own(self, family, style, mirrored2):
        optimizer, x, one = on_replicas(family, mirrored2, growth=2)

        def apply(first, second):
            optimizer.apply_gradients([((first + second) / 2.0, x)])

        for number in range(1, self.STEPS + 1):
            gradients = [
                mirrored2.run(lambda: to_apply(style, optimizer, x)) for _ in range(2)
            ]
            mirrored2.run(apply, args=gradients)
            assert copies(x) == [-one * number] * 2


@pytest.mark.parametrize("style", STYLES)
class TestAThreadThatComputesBesideOneThatApplies:
    @pytest.mark.parametrize("copied", [False, True], ids=["same", "copied"])
    def test_in_turn(self, family, style, copied, worker):
        optimizer, x = optimizer_and_x(family, growth=2)
        for expected in range(1, 6):
            gradient = worker.submit(to_apply, style, optimizer, x).result()
            gradient = gradient * 1.0 if copied else gradient
            optimizer.apply_gradients([(gradient, x)])
            assert steps_of(x) == expected

    @pytest.mark.parametrize("copied", [False, True], ids=["same", "copied"])
    def test_with_micro_batches(self, family, style, copied, worker):
        optimizer, x = optimizer_and_x(family, growth=2)
        for expected in range(1, 6):
            first, second = (
                worker.submit(to_apply, style, optimizer, x).result() for _ in range(2)
            )
            gradient = (first + second) / 2.0 if copied else first
            optimizer.apply_gradients([(gradient, x)])
            assert steps_of(x) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_that_only_scales(family, mode, worker):
    optimizer, x = optimizer_and_x(family, growth=2)
    unscale = MODES[mode](lambda g: optimizer.get_unscaled_gradients([g])[0])
    for expected in range(1, 6):
        scaled = worker.submit(
            scaled_gradient, optimizer, x, "get_scaled_loss"
        ).result()
        optimizer.apply_gradients([(unscale(scaled), x)])
        assert steps_of(x) == expected


def made_outside(family, strategy, growth=1000):
    """An optimizer that was made outside the scope, its variable, its whole step."""
    optimizer = wrapped(family, "SGD", 1.0, growth=growth)
    with strategy.scope():
        x = tf.Variable(0.0, name="x")

    @tf.function
    def step(style):
        strategy.run(lambda: whole(style, optimizer, x))

    return optimizer, x, step


@pytest.mark.keras3
class TestAKeras3OptimizerMadeOutsideTheScope:
    """It is built in its first traced step."""

    @property
    def one(self):
        """What a right step of both replicas adds to x."""
        return -2.0 * (2 if bare_sums("keras3") else 1)

    @pytest.mark.parametrize("style", STYLES)
    def test_takes_right_steps_as_the_scale_grows(self, mirrored2, style):
        _, x, step = made_outside("keras3", mirrored2, growth=2)
        for number in range(1, 6):
            step(style)
            assert copies(x) == [self.one * number] * 2

    @pytest.mark.parametrize("growth", [1000, 1])
    def test_leaves_no_loss_behind_for_a_function_that_only_applies(
        self, mirrored2, growth
    ):
        optimizer, x, step = made_outside("keras3", mirrored2, growth)

        @tf.function
        def apply(gradient):
            mirrored2.run(lambda: optimizer.apply_gradients([(gradient, x)]))

        for number in range(1, 4):
            step("legacy")
            assert copies(x) == [self.one * number] * 2
        for number in range(4, 6):
            apply(tf.constant(2.0))
            assert copies(x) == [self.one * number] * 2

    def test_of_scale_loss_alone_divides_all_gradients_by_the_scale(self, mirrored2):
        """As the class of Keras 3 itself, which divides whatever is applied."""
        optimizer, x, step = made_outside("keras3", mirrored2, growth=2)

        @tf.function
        def apply(gradient):
            mirrored2.run(lambda: optimizer.apply_gradients([(gradient, x)]))

        for number in range(1, 3):
            step("keras3")
            assert copies(x) == [self.one * number] * 2
        apply(tf.constant(32.0))  # the scale is 16 now
        assert copies(x) == [self.one * 3] * 2
