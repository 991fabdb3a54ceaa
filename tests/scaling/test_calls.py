"""Both protocols on one optimizer: what is scaled is unscaled exactly once.

The loss is 2x and the learning rate 1, so a right step takes 2 off x. A step that forgets
to unscale takes off 16, one that unscales twice a quarter.
"""

import gc
import logging
import threading
import zlib

import pytest
import tensorflow as tf

from tests.families import FAMILIES, STYLES, copies, wrapped
from tf_lso.scaling import calls as calls_lib

pytestmark = pytest.mark.core

MODES = {
    "eager": lambda function: function,
    "traced": lambda function: tf.function(function),
    "xla": lambda function: tf.function(function, jit_compile=True),
}

UNCOMPILED = ["eager", "traced"]  # XLA takes its time: where nothing new is to be seen


@pytest.fixture
def family(request):
    """One for each case: what is tested here is common to the families.

    The contract, and the random programs below, have each family with each protocol.
    """
    return list(FAMILIES)[zlib.crc32(request.node.name.encode()) % len(FAMILIES)]


@pytest.fixture
def optimizer(family):
    return wrapped(family, "SGD", 1.0)


@pytest.fixture
def x():
    return tf.Variable(100.0, name="x")


def scaled_gradient(optimizer, x, method):
    with tf.GradientTape() as tape:
        scaled = getattr(optimizer, method)(2.0 * x)
    return tape.gradient(scaled, x)


def steps_of(x, start=100.0):
    """The number of right steps that x has had."""
    return (start - float(x)) / 2.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("style", STYLES)
def test_each_protocol_in_each_mode(optimizer, x, style, mode):
    step = MODES[mode](lambda: STYLES[style](optimizer, lambda: 2.0 * x, [x]))
    for _ in range(3):
        step()
    assert steps_of(x) == 3


@pytest.mark.parametrize("modes", ["eager eager", "traced traced", "eager traced"])
def test_the_protocols_in_turn(optimizer, x, modes):
    legacy, keras3 = modes.split()
    steps = [
        MODES[legacy](lambda: STYLES["legacy"](optimizer, lambda: 2.0 * x, [x])),
        MODES[keras3](lambda: STYLES["keras3"](optimizer, lambda: 2.0 * x, [x])),
    ]
    for index in (0, 1, 1, 0, 0, 1, 0, 1):
        steps[index]()
    assert steps_of(x) == 8


def test_minimize_between_steps_of_keras3(optimizer, x):
    for _ in range(2):
        STYLES["keras3"](optimizer, lambda: 2.0 * x, [x])
        optimizer.minimize(lambda: 2.0 * x, [x])
    assert steps_of(x) == 4


@pytest.mark.parametrize("mode", UNCOMPILED)
def test_scale_loss_with_get_unscaled_gradients_is_not_unscaled_again(
    optimizer, x, mode
):
    def step():
        gradient = scaled_gradient(optimizer, x, "scale_loss")
        (gradient,) = optimizer.get_unscaled_gradients([gradient])
        optimizer.apply_gradients([(gradient, x)])

    step = MODES[mode](step)
    for _ in range(3):
        step()
    assert steps_of(x) == 3


@pytest.mark.parametrize("mode", UNCOMPILED)
def test_unscaled_gradients_applied_in_a_step_of_keras3(optimizer, x, mode):
    def step():
        scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
        (unscaled,) = optimizer.get_unscaled_gradients([scaled])
        optimizer.apply_gradients([(unscaled, x)])
        scaled = scaled_gradient(optimizer, x, "scale_loss")
        optimizer.apply_gradients([(unscaled, x)])  # again, unscaled as it is
        optimizer.apply_gradients([(scaled, x)])

    MODES[mode](step)()
    assert steps_of(x) == 3


@pytest.mark.parametrize("call", ["apply", "apply_gradients"])
def test_both_methods_of_keras3_unscale(optimizer, x, call):
    for _ in range(2):
        gradient = scaled_gradient(optimizer, x, "scale_loss")
        if call == "apply":
            optimizer.apply([gradient], [x])
        else:
            optimizer.apply_gradients([(gradient, x)])
    assert steps_of(x) == 2


class TestAcrossFunctions:
    """Scaling, unscaling and applying stand in different functions."""

    def test_traced_scale_loss_and_eager_apply(self, optimizer, x):
        gradient = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        for _ in range(5):
            optimizer.apply_gradients([(gradient(), x)])
        assert steps_of(x) == 5

    def test_eager_scale_loss_and_traced_apply(self, optimizer, x):
        apply = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, x)]))
        for _ in range(5):
            apply(scaled_gradient(optimizer, x, "scale_loss"))
        assert steps_of(x) == 5

    def test_traced_scale_loss_and_traced_apply(self, optimizer, x):
        gradient = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        apply = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, x)]))
        for _ in range(5):
            apply(gradient())
        assert steps_of(x) == 5

    def test_traced_get_scaled_loss_and_eager_unscaling(self, optimizer, x):
        gradient = tf.function(lambda: scaled_gradient(optimizer, x, "get_scaled_loss"))
        for _ in range(5):
            unscaled = optimizer.get_unscaled_gradients([gradient()])
            optimizer.apply_gradients([(unscaled[0], x)])
        assert steps_of(x) == 5

    def test_traced_unscaled_gradients_and_eager_apply(self, optimizer, x):
        @tf.function
        def gradient():
            scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
            return optimizer.get_unscaled_gradients([scaled])[0]

        for _ in range(5):
            optimizer.apply_gradients([(gradient(), x)])
        assert steps_of(x) == 5

    def test_unscaled_gradients_of_a_function_after_a_step_of_keras3_are_refused(
        self, optimizer, x
    ):
        def unscaled():
            scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
            return optimizer.get_unscaled_gradients([scaled])[0]

        STYLES["keras3"](optimizer, lambda: 2.0 * x, [x])  # whose step must unscale
        gradient = tf.function(unscaled)() * 1.0
        with pytest.raises(RuntimeError, match="cannot know"):
            optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 1

    def test_a_retraced_function(self, optimizer, x):
        @tf.function
        def gradient(factors):
            with tf.GradientTape() as tape:
                loss = optimizer.scale_loss(2.0 * x * tf.reduce_mean(factors))
            return tape.gradient(loss, x)

        for size in (1, 2, 3, 1):
            optimizer.apply_gradients([(gradient(tf.ones(size)), x)])
        assert steps_of(x) == 4

    def test_whole_traced_steps_beside_a_traced_function_of_gradients(
        self, optimizer, x
    ):
        gradient = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        legacy = tf.function(lambda: STYLES["legacy"](optimizer, lambda: 2.0 * x, [x]))
        for _ in range(3):
            legacy()
            optimizer.apply_gradients([(gradient(), x)])
        assert steps_of(x) == 6

    @pytest.mark.parametrize("eager", STYLES)
    def test_an_eager_step_before_a_traced_gradient_of_the_other_protocol(
        self, optimizer, x, eager
    ):
        @tf.function
        def gradient():
            if eager == "legacy":
                return scaled_gradient(optimizer, x, "scale_loss")
            scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
            return optimizer.get_unscaled_gradients([scaled])[0]

        for expected in (2, 4):
            STYLES[eager](optimizer, lambda: 2.0 * x, [x])
            value = gradient()
            try:
                optimizer.apply_gradients([(value, x)])
            except RuntimeError as error:  # a clear error is as good as a right step
                assert "get_unscaled_gradients" in str(error)
                return
            assert steps_of(x) == expected

    def test_functions_of_both_kinds_with_an_apply_elsewhere_are_refused(
        self, optimizer, x
    ):
        @tf.function
        def unscaled():
            scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
            return optimizer.get_unscaled_gradients([scaled])[0]

        scaled = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        gradients = scaled(), unscaled()
        for gradient in gradients:
            with pytest.raises(RuntimeError, match="get_unscaled_gradients"):
                optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 0


class TestWithinAFunction:
    """Loops and branches of a traced step are graphs of their own."""

    @pytest.mark.parametrize("style", STYLES)
    def test_micro_batches_in_a_loop(self, optimizer, x, style):
        @tf.function
        def step():
            total = tf.constant(0.0)
            for _ in tf.range(4):
                if style == "keras3":
                    gradient = scaled_gradient(optimizer, x, "scale_loss")
                else:
                    gradient = scaled_gradient(optimizer, x, "get_scaled_loss")
                    gradient = optimizer.get_unscaled_gradients([gradient])[0]
                total += gradient
            optimizer.apply_gradients([(total / 4.0, x)])

        for _ in range(3):
            step()
        assert steps_of(x) == 3

    @pytest.mark.parametrize("style", STYLES)
    def test_a_whole_step_in_a_loop(self, optimizer, x, style):
        x.assign(100.0)

        @tf.function
        def epoch():
            for _ in tf.range(3):
                STYLES[style](optimizer, lambda: 2.0 * x, [x])

        epoch()
        epoch()
        assert steps_of(x) == 6

    @pytest.mark.parametrize("style", STYLES)
    def test_an_apply_in_a_branch(self, optimizer, x, style):
        @tf.function
        def step(due):
            if style == "keras3":
                gradient = scaled_gradient(optimizer, x, "scale_loss")
            else:
                gradient = scaled_gradient(optimizer, x, "get_scaled_loss")
                gradient = optimizer.get_unscaled_gradients([gradient])[0]
            if due:
                optimizer.apply_gradients([(gradient, x)])

        for due in (True, False, True):
            step(tf.constant(due))
        assert steps_of(x) == 2

    def test_branches_and_loops_of_both_protocols(self, optimizer, x):
        @tf.function
        def keras3(due):
            gradient = scaled_gradient(optimizer, x, "scale_loss")
            if due:
                optimizer.apply_gradients([(gradient, x)])

        @tf.function
        def legacy(due):
            gradient = scaled_gradient(optimizer, x, "get_scaled_loss")
            gradient = optimizer.get_unscaled_gradients([gradient])[0]
            if due:
                optimizer.apply_gradients([(gradient, x)])

        for _ in range(2):
            keras3(tf.constant(True))
            legacy(tf.constant(True))
        assert steps_of(x) == 4


class TestSeveralLosses:
    @pytest.mark.parametrize("mode", UNCOMPILED)
    @pytest.mark.parametrize("style", STYLES)
    def test_of_one_step(self, optimizer, x, style, mode):
        def step():
            method = "scale_loss" if style == "keras3" else "get_scaled_loss"
            first = scaled_gradient(optimizer, x, method)
            second = scaled_gradient(optimizer, x, method)
            gradient = first + second
            if style == "legacy":
                (gradient,) = optimizer.get_unscaled_gradients([gradient])
            optimizer.apply_gradients([(gradient, x)])

        step = MODES[mode](step)
        step()
        step()
        assert steps_of(x) == 4

    @pytest.mark.parametrize("style", STYLES)
    def test_of_micro_batches(self, optimizer, x, style):
        for _ in range(3):
            total = tf.Variable(0.0)
            for _ in range(4):
                if style == "keras3":
                    gradient = scaled_gradient(optimizer, x, "scale_loss")
                else:
                    gradient = scaled_gradient(optimizer, x, "get_scaled_loss")
                    gradient = optimizer.get_unscaled_gradients([gradient])[0]
                total.assign_add(gradient / 4.0)
            optimizer.apply_gradients([(tf.convert_to_tensor(total), x)])
        assert steps_of(x) == 3

    @pytest.mark.parametrize("mode", UNCOMPILED)
    @pytest.mark.parametrize("style", STYLES)
    def test_one_loss_applied_in_two_calls(self, family, style, mode):
        optimizer = wrapped(family, "SGD", 1.0)
        x, y = tf.Variable(100.0), tf.Variable(100.0)
        if hasattr(optimizer, "build"):
            optimizer.build([x, y])

        def step():
            method = "scale_loss" if style == "keras3" else "get_scaled_loss"
            with tf.GradientTape() as tape:
                scaled = getattr(optimizer, method)(2.0 * x + 4.0 * y)
            gradients = tape.gradient(scaled, [x, y])
            if style == "legacy":
                gradients = optimizer.get_unscaled_gradients(gradients)
            optimizer.apply_gradients([(gradients[0], x)])
            optimizer.apply_gradients([(gradients[1], y)])

        step = MODES[mode](step)
        step()
        step()
        assert (steps_of(x), steps_of(y)) == (2, 4)

    @pytest.mark.parametrize("style", STYLES)
    def test_of_two_optimizers(self, family, style):
        first, second = (wrapped(family, "SGD", 1.0, scale=s) for s in (8.0, 64.0))
        x, y = tf.Variable(100.0), tf.Variable(100.0)

        @tf.function
        def step():
            STYLES[style](first, lambda: 2.0 * x, [x])
            STYLES[style](second, lambda: 2.0 * y, [y])

        step()
        step()
        assert (steps_of(x), steps_of(y)) == (2, 2)


def test_a_step_that_failed_half_way_does_not_spoil_the_next(optimizer, x):
    for style in ("keras3", "keras3", "legacy"):
        method = "scale_loss" if style == "keras3" else "get_scaled_loss"
        if style == "keras3":
            scaled_gradient(optimizer, x, method)  # and the program failed here
        STYLES[style](optimizer, lambda: 2.0 * x, [x])
    assert steps_of(x) == 3


def test_an_empty_apply_ends_no_step(optimizer, x):
    gradient = scaled_gradient(optimizer, x, "scale_loss")
    optimizer.apply_gradients([])
    optimizer.apply_gradients([(gradient, x)])
    assert steps_of(x) == 1


class TestThreads:
    def in_thread(self, function, *args):
        result = []
        thread = threading.Thread(target=lambda: result.append(function(*args)))
        thread.start()
        thread.join()
        (value,) = result
        return value

    def test_a_loss_scaled_in_one_thread_and_applied_in_another(self, optimizer, x):
        for _ in range(3):
            gradient = self.in_thread(scaled_gradient, optimizer, x, "scale_loss")
            optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 3

    def test_a_step_of_another_thread_in_between(self, optimizer, x):
        gradient = scaled_gradient(optimizer, x, "scale_loss")
        self.in_thread(STYLES["legacy"], optimizer, lambda: 2.0 * x, [x])
        optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 2

    def test_a_keras3_step_of_another_thread_in_between(self, optimizer, x):
        scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
        (gradient,) = optimizer.get_unscaled_gradients([scaled])
        self.in_thread(STYLES["keras3"], optimizer, lambda: 2.0 * x, [x])
        optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 2

    @pytest.mark.parametrize("style", STYLES)
    def test_four_threads_at_once(self, optimizer, x, style):
        step = tf.function(lambda: STYLES[style](optimizer, lambda: 2.0 * x, [x]))
        threads = [
            threading.Thread(target=lambda: [step() for _ in range(5)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert steps_of(x) == 20
        assert int(copies(optimizer.iterations)[0]) == 20


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("style", STYLES)
def test_on_replicas(family, mirrored2, style, traced):
    with mirrored2.scope():
        optimizer = wrapped(family, "SGD", 1.0)
        x = tf.Variable(100.0)

    def run():
        return mirrored2.run(lambda: STYLES[style](optimizer, lambda: 2.0 * x, [x]))

    run = tf.function(run) if traced else run
    run()
    run()
    assert copies(x) == [92.0, 92.0]  # two replicas, each adds its gradient of 2


# --- Warnings of what was forgotten.

FORGOTTEN = {
    "both": "get_scaled_loss() and get_unscaled_gradients() were not called",
    "unscaling": "get_scaled_loss() was called but get_unscaled_gradients() was not",
    "scaling": "get_unscaled_gradients() was called but get_scaled_loss() was not",
}


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if "before apply_gradients" in record.getMessage()
    ]


class TestForgotten:
    def forget(self, optimizer, x, what):
        gradient = tf.constant(2.0)
        if what == "unscaling":
            gradient = scaled_gradient(optimizer, x, "get_scaled_loss")
        elif what == "scaling":
            (gradient,) = optimizer.get_unscaled_gradients([gradient])
        optimizer.apply_gradients([(gradient, x)])

    @pytest.mark.parametrize("what", FORGOTTEN)
    def test_is_told_once(self, optimizer, x, warnings, what):
        for _ in range(3):
            self.forget(optimizer, x, what)
        (message,) = warnings()
        assert message.startswith(FORGOTTEN[what])
        assert "opt.get_scaled_loss(loss)" in message

    @pytest.mark.parametrize("what", FORGOTTEN)
    def test_is_told_in_a_traced_step(self, optimizer, x, warnings, what):
        tf.function(lambda: self.forget(optimizer, x, what))()
        (message,) = warnings()
        assert message.startswith(FORGOTTEN[what])

    @pytest.mark.parametrize(
        ("what", "taken"), [("both", 2.0), ("unscaling", 16.0), ("scaling", 0.25)]
    )
    def test_applies_the_gradients_as_they_are(self, optimizer, x, what, taken):
        self.forget(optimizer, x, what)
        assert 100.0 - float(x) == taken

    @pytest.mark.parametrize("style", STYLES)
    def test_nothing_is_told_of_a_right_step(self, optimizer, x, warnings, style):
        STYLES[style](optimizer, lambda: 2.0 * x, [x])
        assert warnings() == []

    def test_nothing_is_told_of_minimize(self, optimizer, x, warnings):
        optimizer.minimize(lambda: 2.0 * x, [x])
        assert warnings() == []

    def test_nothing_is_told_of_steps_in_separate_functions(
        self, optimizer, x, warnings
    ):
        gradient = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        optimizer.apply_gradients([(gradient(), x)])
        assert warnings() == []


SCALE = tf.constant(8.0)


class TestTheRecord:
    @pytest.fixture
    def record(self):
        return calls_lib.Calls()

    @staticmethod
    def now():
        return tf.constant(64.0)

    def test_keeps_no_graph_alive(self, record):
        @tf.function(autograph=False)
        def step(x):
            record.scaled(calls_lib.KERAS3, x * 1.0, None)
            divisor = record.apply([SCALE], self.now)
            record.unscaled([x * 2.0], x * 4.0)
            return divisor

        assert float(step(SCALE)) == 8.0
        assert len(record._graphs) == len(record._places) == 1
        assert len(record.unscaled_gradients._entries) == 1
        del step
        gc.collect()
        assert len(record._graphs) == len(record._places) == 0
        assert len(record.unscaled_gradients._entries) == 0

    def test_a_second_loss_after_an_apply_is_a_new_step(self, record):
        record.scaled(calls_lib.KERAS3, SCALE, None)
        assert float(record.apply([SCALE], self.now)) == 8.0
        record.scaled(calls_lib.LEGACY, SCALE, None)
        record.unscaled([tf.constant(1.0)], SCALE)
        assert record.apply([tf.constant(1.0)], self.now) is None

    def test_knows_what_was_applied_before(self, record):
        scaled, unscaled = tf.constant(8.0), tf.constant(1.0)
        record.scaled(calls_lib.KERAS3, SCALE, None)
        assert float(record.apply([scaled], self.now)) == 8.0
        record.scaled(calls_lib.LEGACY, SCALE, None)
        record.unscaled([tf.constant(1.0)], SCALE)
        assert float(record.apply([scaled], self.now)) == 8.0
        assert record.apply([unscaled], self.now) is None
        record.scaled(calls_lib.KERAS3, SCALE, None)
        assert record.apply([unscaled], self.now) is None
        assert float(record.apply([tf.constant(8.0)], self.now)) == 8.0

    def test_of_many_threads_stays_small(self, record):
        for _ in range(200):
            thread = threading.Thread(
                target=record.scaled, args=(calls_lib.KERAS3, SCALE, None)
            )
            thread.start()
            thread.join()
        assert len(record._places) < 10
        # A thread that is gone has left gradients behind: the scale as it is now.
        assert float(record.apply([SCALE], self.now)) == 64.0

    def test_what_is_unknown_is_scaled_for_apply_alone(self, record):
        assert record.apply([SCALE], self.now) is None
        assert float(record.apply([SCALE], self.now, unknown_is_scaled=True)) == 64.0


class TestAFunctionThatOnlyApplies:
    """It is traced once, and gets gradients of any kind later."""

    @pytest.fixture(params=["traced", "xla"])
    def apply(self, request, optimizer, x):
        return MODES[request.param](lambda g: optimizer.apply_gradients([(g, x)]))

    def legacy(self, optimizer, x):
        scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
        return optimizer.get_unscaled_gradients([scaled])[0]

    @pytest.fixture
    def assumed(self, caplog):
        caplog.set_level(logging.WARNING, logger="tensorflow")
        return lambda: [
            record.getMessage()
            for record in caplog.records
            if "only applies gradients" in record.getMessage()
        ]

    def test_first_called_with_zeros_takes_unscaled_ones(
        self, optimizer, x, apply, assumed
    ):
        apply(tf.constant(0.0))
        apply(self.legacy(optimizer, x))
        assert assumed() == []
        for _ in range(2):
            apply(scaled_gradient(optimizer, x, "scale_loss"))
        (message,) = assumed()  # once
        assert "scale_loss() is called" in message
        assert "takes unscaled gradients" in message
        assert steps_of(x) == 1 + 2 * 8

    def test_after_scale_loss_takes_scaled_ones(self, optimizer, x, apply, assumed):
        for _ in range(2):
            apply(scaled_gradient(optimizer, x, "scale_loss"))
        optimizer.apply_gradients([])
        assert (steps_of(x), assumed()) == (2, [])

    def test_of_functions_traced_before_and_after(self, optimizer, x, apply):
        before = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        after = tf.function(lambda: scaled_gradient(optimizer, x, "scale_loss"))
        for _ in range(2):
            apply(before())
        for _ in range(2):
            apply(after())
            apply(before())
        assert steps_of(x) == 6

    def test_gets_the_gradients_of_a_loss_in_two_calls(self, optimizer, x, apply):
        gradient = scaled_gradient(optimizer, x, "scale_loss")
        apply(gradient)
        apply(gradient)
        assert steps_of(x) == 2


class TestTheScaleOfTheLoss:
    """It is what gradients are divided by, whatever moves in between."""

    def move(self, optimizer):
        optimizer.loss_scale_state._current_loss_scale.assign(64.0)

    @pytest.mark.parametrize("method", ["scale_loss", "get_scaled_loss"])
    def test_where_another_is_loaded_between(self, optimizer, x, method):
        for _ in range(2):
            value = scaled_gradient(optimizer, x, method)
            self.move(optimizer)
            if method == "get_scaled_loss":
                (value,) = optimizer.get_unscaled_gradients([value])
            optimizer.apply_gradients([(value, x)])
            optimizer.loss_scale_state._current_loss_scale.assign(8.0)
        assert steps_of(x) == 2

    @pytest.mark.parametrize("where", ["traced", "xla"])
    @pytest.mark.parametrize("method", ["scale_loss", "get_scaled_loss"])
    def test_of_another_function_is_the_one_now(self, optimizer, x, method, where):
        value = MODES[where](lambda: scaled_gradient(optimizer, x, method))()
        self.move(optimizer)  # from 8 to 64
        if method == "get_scaled_loss":
            (value,) = optimizer.get_unscaled_gradients([value])
        optimizer.apply_gradients([(value, x)])
        assert steps_of(x) == 8 / 64

    @pytest.mark.parametrize("style", STYLES)
    def test_of_two_losses_the_first_of_which_overflows(self, optimizer, x, style):
        method = "scale_loss" if style == "keras3" else "get_scaled_loss"

        def gradient(factor):
            with tf.GradientTape() as tape:
                scaled = getattr(optimizer, method)(2.0 * x * factor)
            return tape.gradient(scaled, x)

        first, second = gradient(tf.constant(float("nan"))), gradient(tf.constant(1.0))
        for value in (first, second):
            if style == "legacy":
                (value,) = optimizer.get_unscaled_gradients([value])
            optimizer.apply_gradients([(value, x)])
        assert steps_of(x) == 1
        assert float(optimizer.loss_scale) == 4.0

    @pytest.mark.parametrize("where", UNCOMPILED)
    def test_where_another_function_unscales(self, optimizer, x, where):
        scaled = MODES[where](lambda: scaled_gradient(optimizer, x, "get_scaled_loss"))
        gradient = scaled()
        self.move(optimizer)
        (gradient,) = tf.function(optimizer.get_unscaled_gradients)([gradient])
        assert float(gradient) == 16.0 / 64.0  # by the scale now, as in TensorFlow

    def test_of_a_callable_loss(self, optimizer, x):
        scaled = optimizer.get_scaled_loss(lambda: 2.0 * x)
        self.move(optimizer)
        with tf.GradientTape() as tape:
            loss = scaled()
        (gradient,) = optimizer.get_unscaled_gradients([tape.gradient(loss, x)])
        assert float(gradient) == 2.0

    def test_of_two_losses_the_last_decides(self, optimizer, x):
        scaled_gradient(optimizer, x, "scale_loss")  # looked at, never applied
        self.move(optimizer)
        gradient = scaled_gradient(optimizer, x, "scale_loss")
        optimizer.apply_gradients([(gradient, x)])
        assert steps_of(x) == 1


@pytest.mark.parametrize("mode", UNCOMPILED)
class TestTwice:
    def test_unscaling_is_refused(self, optimizer, x, mode):
        def step():
            scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
            gradients = optimizer.get_unscaled_gradients([scaled, None])
            optimizer.get_unscaled_gradients(gradients)

        with pytest.raises(RuntimeError, match="unscaled already"):
            MODES[mode](step)()

    @pytest.mark.parametrize("first", ["scale_loss", "get_scaled_loss"])
    @pytest.mark.parametrize("second", ["scale_loss", "get_scaled_loss"])
    def test_scaling_is_refused(self, optimizer, x, mode, first, second):
        def step():
            getattr(optimizer, second)(getattr(optimizer, first)(2.0 * x))

        with pytest.raises(RuntimeError, match=r"scaled already|scaling it twice"):
            MODES[mode](step)()

    def test_scaling_a_callable_is_refused(self, optimizer, x, mode):
        def step():
            optimizer.get_scaled_loss(optimizer.get_scaled_loss(lambda: 2.0 * x))

        with pytest.raises(RuntimeError, match="scaled already"):
            MODES[mode](step)()


def test_zeros_that_make_the_slots_are_of_no_kind(optimizer, x):
    optimizer.apply_gradients([(tf.constant(0.0), x)])
    for _ in range(2):
        STYLES["keras3"](optimizer, lambda: 2.0 * x, [x])
    assert steps_of(x) == 2


def test_a_scale_that_was_looked_at_divides_nothing_of_a_collected_function(
    optimizer, x
):
    scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
    optimizer.get_unscaled_gradients([scaled])  # by 8, and never applied
    optimizer.loss_scale = 4.0
    gradient = tf.function(lambda: scaled_gradient(optimizer, x, "get_scaled_loss"))()
    gc.collect()
    (unscaled,) = optimizer.get_unscaled_gradients([gradient])
    assert float(unscaled) == 2.0


def test_unscaled_gradients_that_are_applied_leave_a_scaled_loss_in_flight(
    optimizer, x
):
    scaled = scaled_gradient(optimizer, x, "get_scaled_loss")
    (unscaled,) = optimizer.get_unscaled_gradients([scaled])
    optimizer.apply_gradients([])

    def in_thread():
        gradients.append(scaled_gradient(optimizer, x, "scale_loss"))
        optimizer.apply_gradients([(unscaled, x)])

    gradients = []
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert steps_of(x) == 1
    apply = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, x)]))
    with pytest.raises(RuntimeError, match="cannot know"):
        apply(gradients[0])


def test_a_trace_that_failed_leaves_nothing_behind(optimizer, x):
    kept = []

    @tf.function
    def failing():
        kept.append(tf.compat.v1.get_default_graph())
        scaled_gradient(optimizer, x, "scale_loss")
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        failing()
    gradient = tf.function(lambda: scaled_gradient(optimizer, x, "get_scaled_loss"))
    for _ in range(2):
        unscaled = optimizer.get_unscaled_gradients([gradient()])
        optimizer.apply_gradients([(unscaled[0] * 1.0, x)])
    assert steps_of(x) == 2
    assert kept
