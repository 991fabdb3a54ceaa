"""Both protocols on one optimizer: what is scaled is unscaled exactly once."""

import gc
import logging

import pytest
import tensorflow as tf

from tests.families import STYLES, copies, keras, wrapped
from tests.scaling.programs import Bench, in_thread
from tf_lso.scaling import calls as calls_lib

pytestmark = pytest.mark.core

PLACES = ["eager", "f"]
METHODS = ["get_scaled_loss", "scale_loss"]

# The tests of this file run with each family: see the fixture `family` of conftest.py. The
# long ones run with these families only; "new" applies a step with the code of "legacy".
OF_LONG_TESTS = ["keras3", "legacy"]


@pytest.fixture
def bench(family):
    return Bench(family)


@pytest.fixture
def warnings(caplog):
    """The warnings that speak of calls of scaling, when called."""
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda: [m for m in caplog.messages if "get_unscaled_gradients" in m]


# --- Programs, see `tests/scaling/programs.py`, and the right steps that they take.

PROGRAMS = {
    # The protocols in turn.
    "legacy keras3 keras3 legacy": 4,
    "legacy@f keras3@f keras3@f legacy@f": 4,
    "legacy keras3@f keras3@f legacy": 4,
    "keras3 minimize": 2,
    "scale_loss unscale apply_gradients": 1,
    "(scale_loss unscale apply_gradients)@f": 1,
    "scale_loss apply": 1,
    "scale_loss drop keras3 scale_loss drop keras3 legacy": 3,  # failed half way
    "scale_loss empty apply_gradients": 1,
    # A gradient that is applied again is what it was.
    "(unscaled keep apply_gradients scale_loss swap apply_gradients apply_gradients)": 3,
    "(unscaled keep apply_gradients scale_loss swap apply_gradients apply_gradients)@f": 3,
    "unscaled keep apply_gradients keras3 apply_gradients": 3,
    "scale_loss keep apply_gradients@f apply_gradients@f": 2,
    # Scaling, unscaling and applying in different functions.
    "scale_loss@f apply_gradients": 1,
    "scale_loss apply_gradients@f": 1,
    "scale_loss@f apply_gradients@f": 1,
    "scale_loss apply_gradients@xla": 1,
    "get_scaled_loss@f unscale apply_gradients": 1,
    "unscaled@f apply_gradients": 1,
    "legacy@f scale_loss@f apply_gradients": 2,
    "scale_loss@f apply_gradients@g scale_loss@h apply_gradients@g": 2,
    # Loops, and several losses of one step.
    "loop_of_legacy@f loop_of_keras3@g": 2,
    "(scale_loss scale_loss mean apply_gradients)": 1,
    "(scale_loss scale_loss mean apply_gradients)@f": 1,
    "(get_scaled_loss get_scaled_loss mean unscale apply_gradients)": 1,
    "(get_scaled_loss get_scaled_loss mean unscale apply_gradients)@f": 1,
    "scale_loss scale_loss mean scale_loss scale_loss mean mean apply_gradients": 1,
    "unscaled unscaled mean copy apply_gradients": 1,
    # Threads.
    "scale_loss@thread apply_gradients": 1,
    "scale_loss legacy@thread apply_gradients": 2,
    "unscaled keras3@thread apply_gradients": 2,
    # In a function that scales a loss, the scale of that loss divides, whatever moves.
    "scale_loss@g drop (scale_loss move=64 apply_gradients move=8)@f": 1,
    "(get_scaled_loss move=64 unscale apply_gradients move=8)@f": 1,
    # Three losses of one function are each divided by their scale.
    "(scale_loss scale_loss scale_loss apply_gradients apply_gradients apply_gradients)@f": 3,
    "(unscaled unscaled unscaled apply_gradients apply_gradients apply_gradients)@f": 3,
    # Losses that were scaled and dropped.
    "scale_loss drop move=64 scale_loss apply_gradients move=8": 1,
    "unscaled drop scale=4 get_scaled_loss@collected unscale look": 0,
    # Gradients of one protocol are dropped, and a step of the other follows.
    "unscaled drop keras3": 1,
    "unscaled drop keras3@f": 1,
    "unscaled@f drop keras3": 1,
    "scale_loss drop finish legacy": 1,
    "scale_loss drop legacy@f": 1,
    "get_scaled_loss drop finish keras3": 1,
    # Else it is the one now, as in TensorFlow.
    "scale_loss move=64 apply_gradients move=8": 8 / 64,
    "get_scaled_loss move=64 unscale apply_gradients move=8": 8 / 64,
    "scale_loss@f move=64 apply_gradients move=8": 8 / 64,
    "scale_loss@xla move=64 apply_gradients move=8": 8 / 64,
    "get_scaled_loss@f move=64 unscale apply_gradients move=8": 8 / 64,
    "get_scaled_loss@xla move=64 unscale apply_gradients move=8": 8 / 64,
    "get_scaled_loss@f move=64 unscale@g apply_gradients move=8": 8 / 64,
    "get_scaled_loss move=64 unscale@g apply_gradients move=8": 8 / 64,
}


@pytest.mark.parametrize("family", OF_LONG_TESTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(bench, program, warnings):
    for times in (1, 2, 3):
        bench.run(program)
        assert bench.steps == times * PROGRAMS[program]
    assert warnings() == []


# The scale moves after two of these steps, or after each.
AFTER_TWO = (
    "scale_loss@worker apply_gradients",
    "unscaled@worker apply_gradients",
    "scale_loss@worker copy apply_gradients",
    "unscaled@worker copy apply_gradients",
    "scale_loss@worker scale_loss@worker drop apply_gradients",
    "unscaled@worker unscaled@worker drop apply_gradients",
    "scale_loss@worker scale_loss@worker mean apply_gradients",
    "unscaled@worker unscaled@worker mean apply_gradients",
    "get_scaled_loss@worker unscale apply_gradients",
    "get_scaled_loss@worker unscale@f apply_gradients",
    "scale_loss@collected apply_gradients",
)
AFTER_EACH = (
    "unscaled@collected apply_gradients",
    "(scale_loss keep apply_gradients copy apply_gradients)",
    "(unscaled keep apply_gradients copy apply_gradients)",
    "(scale_loss keep apply_gradients copy apply_gradients)@f",
    "(unscaled keep apply_gradients copy apply_gradients)@f",
)


@pytest.mark.parametrize("family", OF_LONG_TESTS)
@pytest.mark.parametrize("program", AFTER_TWO + AFTER_EACH)
def test_programs_whose_scale_grows(family, program, warnings):
    growth, each = (1 if program in AFTER_EACH else 2), program.count("apply")
    bench = Bench(family, growth=growth)
    for times in range(1, growth + 3):
        bench.run(program)
        assert bench.steps == times * each
    assert warnings() == []


@pytest.mark.parametrize("loss", ["scale_loss", "unscaled"])
def test_of_two_losses_the_first_overflows(bench, loss):
    bench.run(f"{loss}:nan {loss} mean apply_gradients")
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (0, 4.0)
    bench.run(f"{loss} apply_gradients")
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (1, 4.0)


@pytest.mark.parametrize("place, steps", [("eager", 2), ("f", 1)])
def test_two_losses_are_applied_one_after_the_other_and_the_first_overflows(
    bench, place, steps
):
    """In eager code the scale as it is now divides, as in Keras 3: 4, and not 8."""
    program = "scale_loss:nan scale_loss swap apply_gradients apply_gradients"
    bench.run(f"({program})@{place}")
    assert bench.steps == steps
    bench.stack.clear()
    bench.run(f"(unscaled:nan unscaled swap apply_gradients apply_gradients)@{place}")
    assert bench.steps == steps + 1


REFUSED = {
    "keras3 unscaled@f copy !apply_gradients": 1,
    "unscaled copy keras3 swap !apply_gradients": 1,
    "legacy keras3 scale_loss apply_gradients scale_loss !apply_gradients@f": 3,
    "legacy scale_loss@f !apply_gradients": 1,
    "scale_loss@f unscaled@g !apply_gradients !apply_gradients": 0,
    "scale_loss@collected unscaled@collected !apply_gradients !apply_gradients": 0,
    # The unscaled gradients that are applied leave a scaled loss in flight.
    "unscaled empty (scale_loss swap apply_gradients)@thread !apply_gradients@f": 1,
}


@pytest.mark.parametrize("program", REFUSED)
def test_where_nothing_tells_what_is_applied(bench, program):
    with pytest.raises(RuntimeError, match="cannot know"):
        bench.run(program.replace("!", "", 1))
    bench.stack = bench.stack[-1:]
    bench.run("".join(program.partition("!")[2:]).partition(" ")[2])
    assert bench.steps == REFUSED[program]


@pytest.mark.parametrize("family", OF_LONG_TESTS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("looked_at", PLACES)
@pytest.mark.parametrize(
    "move", ["move=64", "scale=64", "legacy:nan", "legacy:nan@skipping"]
)
def test_a_look_leaves_nothing_behind_when_the_scale_moves(
    bench, move, looked_at, place
):
    for times in (1, 2):
        bench.run(f"unscaled@{looked_at} look {move} legacy@{place}")
        assert bench.steps == times


# --- What the words cannot say.


def test_zeros_that_make_the_slots_are_of_no_kind(bench):
    bench.run("zeros keras3 keras3")
    assert bench.steps == 2


def test_a_retraced_function(bench):
    @tf.function
    def gradient(factors):
        return bench.gradient("scale_loss", tf.reduce_mean(factors))

    for size in (1, 2, 3, 1):
        bench.apply_gradients(gradient(tf.ones(size)))
    assert bench.steps == 4


@pytest.mark.parametrize("method", METHODS)
def test_micro_batches_in_a_loop(bench, method):
    @tf.function
    def step():
        total = tf.constant(0.0)
        for _ in tf.range(4):
            total += bench.to_apply(method, 1.0)
        bench.apply_gradients(total / 4.0)

    for _ in range(3):
        step()
    assert bench.steps == 3


@pytest.mark.parametrize("methods", [METHODS[:1], METHODS[1:], METHODS[::-1]])
def test_an_apply_in_a_branch(bench, methods):
    def step(method, due):
        gradient = bench.to_apply(method, 1.0)
        if due:
            bench.apply_gradients(gradient)

    steps = [tf.function(step) for _ in methods]
    for due in (True, False, True):
        for step, method in zip(steps, methods):
            step(method, tf.constant(due))
    assert bench.steps == 2 * len(methods)


def test_a_trace_that_failed_leaves_nothing_behind(bench):
    kept = []

    @tf.function
    def failing():
        kept.append(tf.compat.v1.get_default_graph())
        bench.gradient("scale_loss", 1.0)
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        failing()
    for _ in range(2):
        bench.run("get_scaled_loss@f unscale copy apply_gradients")
    assert bench.steps == 2
    assert kept


def test_the_scale_of_a_callable_loss(bench):
    scaled = bench.optimizer.get_scaled_loss(lambda: 2.0 * bench.x)
    bench.run("move=64")
    with tf.GradientTape() as tape:
        loss = scaled()
    assert float(bench.unscale(tape.gradient(loss, bench.x))) == 2.0


@pytest.mark.parametrize("place", ["f", "xla"])
def test_a_function_that_only_applies_takes_what_it_was_traced_with(
    bench, warnings, place
):
    apply = f"apply_gradients@{place}"
    bench.stack.append(tf.constant(0.0))
    bench.run(f"{apply} unscaled {apply} scale_loss {apply} scale_loss {apply}")
    _, message = warnings()  # the first is of the zeros, for which nothing was called
    assert "only applies gradients" in message
    assert "scale_loss() is called" in message
    assert "takes unscaled gradients" in message
    assert bench.steps == 1 + 2 * 8


@pytest.mark.parametrize("family", OF_LONG_TESTS)
@pytest.mark.parametrize("kind", ["scale_loss", "unscaled"])
def test_three_losses_of_one_function_of_which_the_first_applied_overflows(
    family, kind
):
    bench = Bench(family)
    applied = "apply_gradients apply_gradients apply_gradients"
    bench.run(f"({kind} {kind} {kind}:nan {applied})@f")
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (2, 4.0)
    # Each loss is scaled before any gradient is unscaled.
    bench.stack.clear()
    in_turn = " ".join(["unscale apply_gradients"] * 3)
    bench.run(f"(get_scaled_loss get_scaled_loss get_scaled_loss:nan {in_turn})@g")
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (4, 2.0)


@pytest.mark.keras3
@pytest.mark.parametrize("place", PLACES)
def test_a_gradient_that_was_looked_at_and_eager_fit(place):
    """`fit` calls `scale_loss`; the gradient before it was one of the legacy protocol."""
    bench = Bench("keras3")
    bench.run(f"unscaled@{place} look")
    layer = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    model = keras.Sequential([keras.Input((1,)), layer])
    optimizer = wrapped("keras3", "SGD", 0.5, scale=8.0)
    variable = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        scaled = optimizer.get_scaled_loss(2.0 * variable)
    optimizer.get_unscaled_gradients(tape.gradient(scaled, [variable]))
    model.compile(optimizer, lambda y, found: found, run_eagerly=True)
    model.fit(tf.ones([4, 1]), tf.ones([4, 1]), batch_size=2, verbose=0)
    assert float(layer.kernel.numpy()[0, 0]) == 0.0


@pytest.mark.parametrize("kind", ["scale_loss", "unscaled"])
def test_two_losses_on_eager_replicas(family, kind, mirrored2):
    """Each is divided by the scale as it is, also after the first apply has moved it."""
    bench = Bench(family, growth=1, strategy=mirrored2)
    moved = 2.0 if kind == "unscaled" else 1.0  # 8 / 16: the scale as it is now
    bench.run(f"({kind} {kind} apply_gradients apply_gradients)@replicas")
    assert bench.steps == 1.0 + moved / 2.0
    bench.run(f"(get_scaled_loss unscale look)@replicas {kind}@replicas drop")
    before = bench.steps
    bench.run(f"({kind} apply_gradients)@replicas")
    assert bench.steps == before + 1.0


# --- Warnings of what was forgotten.

# A program with the gradient 2 -> what is said, and what is taken off x.
FORGOTTEN = {
    "apply_gradients": (
        "get_scaled_loss() and get_unscaled_gradients() were not called",
        2.0,
    ),
    "get_scaled_loss apply_gradients": (
        "get_scaled_loss() was called but get_unscaled_gradients() was not",
        16.0,
    ),
    "unscale apply_gradients": (
        "get_unscaled_gradients() was called but get_scaled_loss() was not",
        0.25,
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("program", FORGOTTEN)
def test_what_is_forgotten_is_told_once(bench, warnings, program, place):
    said, taken = FORGOTTEN[program]
    for _ in range(3):
        bench.stack = [tf.constant(2.0)]
        bench.run(f"({program})@{place}")
    (message,) = warnings()
    assert message.startswith(said)
    assert "opt.get_scaled_loss(loss)" in message
    assert float(bench.x) == -3 * taken


SCALE = tf.constant(8.0)


class TestTheStates:
    @pytest.fixture
    def calls(self):
        return calls_lib.Calls()

    @staticmethod
    def now():
        return tf.constant(64.0)

    def test_keep_no_graph_alive(self, calls):
        @tf.function(autograph=False)
        def step(x):
            calls.scaled(calls_lib.KERAS3, x * 1.0, None)
            divisor = calls.divisor([SCALE], self.now)
            calls.unscaled([x * 2.0])
            return divisor

        assert float(step(SCALE)) == 8.0
        assert len(calls._functions) == len(calls._scales) == 1
        assert len(calls.unscaled_gradients._references) == 1
        del step
        gc.collect()
        assert len(calls._functions) == len(calls._scales) == 0
        assert len(calls.unscaled_gradients._references) == 0

    def test_of_many_threads_stay_few(self, calls):
        for _ in range(200):
            in_thread(calls.scaled, calls_lib.KERAS3, SCALE, None)
        assert len(calls._threads) < 10
        assert float(calls.divisor([SCALE], self.now)) == 64.0

    def test_what_is_unknown_is_scaled_for_apply_alone(self, calls):
        assert calls.divisor([SCALE], self.now) is None
        assert float(calls.divisor([SCALE], self.now, unknown_is_scaled=True)) == 64.0


VALUES = {
    "loss": lambda bench: 2.0 * bench.x,
    "callable": lambda bench: lambda: 2.0 * bench.x,
    "gradients": lambda bench: [bench.gradient("get_scaled_loss", 1.0), None],
}
# Value, the methods that are called on it one after the other -> what the second one says.
OF_BOTH = r"{1}\(\).*{0}\(\).*twice.*get_unscaled_gradients\(\[\]\)"
TWICE = {
    ("gradients", *["get_unscaled_gradients"] * 2): "unscaled already",
    ("callable", "get_scaled_loss", "get_scaled_loss"): "scaled already",
    ("loss", "get_scaled_loss", "get_scaled_loss"): "scaled already",
    ("loss", "scale_loss", "scale_loss"): "scaled already",
    ("loss", "get_scaled_loss", "scale_loss"): OF_BOTH,
    ("loss", "scale_loss", "get_scaled_loss"): OF_BOTH,
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("value, first, second", TWICE)
def test_what_is_done_twice_is_refused_and_the_next_step_is_right(
    bench, value, first, second, traced
):
    def act():
        once = getattr(bench.optimizer, first)(VALUES[value](bench))
        getattr(bench.optimizer, second)(once)

    message = TWICE[value, first, second].format(first, second)
    with pytest.raises(RuntimeError, match=message):
        (tf.function(act) if traced else act)()
    bench.run("keras3" if first == "scale_loss" else "legacy")
    assert bench.steps == 1


@pytest.mark.parametrize("first, second", [METHODS, METHODS[::-1]])
def test_both_protocols_on_two_losses_of_one_step_are_refused(bench, first, second):
    getattr(bench.optimizer, first)(tf.constant(1.0))
    for _ in range(2):  # the refusal changes nothing
        with pytest.raises(RuntimeError, match=rf"{second}\(\).*{first}\(\)"):
            getattr(bench.optimizer, second)(tf.constant(2.0))
    bench.optimizer.get_unscaled_gradients([])  # as the message says
    bench.run("keras3" if second == "scale_loss" else "legacy")
    assert bench.steps == 1


# --- A Keras 3 optimizer that was made outside the scope is built in its first traced step.


@pytest.mark.keras3
@pytest.mark.parametrize(
    "style, growth", [("legacy", 1000), ("legacy", 2), ("legacy", 1), ("keras3", 2)]
)
def test_what_a_function_applies_after_steps_of_one_protocol(style, growth, mirrored2):
    """Of `scale_loss` alone as the class of Keras 3 itself: by the scale as it is now."""
    optimizer = wrapped("keras3", "SGD", 1.0, scale=8.0, growth=growth)
    with mirrored2.scope():
        x = tf.Variable(0.0, name="x")

    @tf.function
    def step():
        mirrored2.run(lambda: STYLES[style](optimizer, lambda: 2.0 * x, [x]))

    @tf.function
    def apply(gradient):
        mirrored2.run(lambda: optimizer.apply_gradients([(gradient, x)]))

    for number in range(1, 6):
        if number < 4:
            step()
        else:
            apply(2.0 * optimizer.loss_scale if style == "keras3" else tf.constant(2.0))
        assert copies(x) == [-2.0 * number * 2] * 2
