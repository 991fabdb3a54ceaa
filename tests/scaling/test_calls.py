"""Both protocols on one optimizer: what is scaled is unscaled exactly once.

`test_random_programs.py` combines at random what stands here one by one.
"""

import concurrent.futures
import gc
import logging

import pytest
import tensorflow as tf

from tests.families import STYLES, copies, wrapped
from tests.scaling.bench import KERAS3, LEGACY, METHODS, NAN, OTHER, Bench, in_thread
from tf_lso.scaling import calls as calls_lib

pytestmark = pytest.mark.core

WAYS = {"eager": lambda function: function, "function": tf.function}

of_each_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture
def bench(family):
    return Bench(family)


@pytest.fixture(params=WAYS)
def way(request):
    """What makes a function run eagerly, and what traces it."""
    return WAYS[request.param]


@pytest.fixture
def warnings(caplog):
    """The warnings that speak of scaling calls, when called."""
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda: [m for m in caplog.messages if "get_unscaled_gradients" in m]


def refused():
    return pytest.raises(RuntimeError, match="cannot know")


# --- Rule 1: what was unscaled is known.


def test_an_unscaled_gradient_is_known_after_another_loss_was_scaled(bench, way):
    def step():
        unscaled = bench.gradient(LEGACY)
        bench.apply(unscaled)
        scaled = bench.scaled(KERAS3)
        bench.apply(unscaled)
        bench.apply(scaled)

    way(step)()
    assert bench.steps == 3


# --- Rule 2: in a place with a scaling call, the last one decides.


def test_protocols_in_turn(bench, way, warnings):
    steps = {method: way(lambda m=method: bench.step(m)) for method in METHODS}
    for method in (LEGACY, KERAS3, KERAS3, LEGACY):
        steps[method]()
    assert bench.steps == 4
    assert warnings() == []


def test_what_scale_loss_has_scaled_may_be_unscaled(bench, way):
    way(lambda: bench.apply(bench.unscale(bench.scaled(KERAS3))))()
    assert bench.steps == 1


@of_each_method
def test_a_gradient_of_another_place_is_dropped(bench, way, method):
    way(lambda: bench.gradient(method))()
    if method == KERAS3:
        way(bench.finish)()
    bench.step(OTHER[method])
    assert bench.steps == 1


@of_each_method
@pytest.mark.parametrize("way_of_step", WAYS)
def test_a_look_leaves_nothing_behind_when_the_scale_moves(
    bench, way, way_of_step, method
):
    look = way(lambda: bench.gradient(LEGACY))
    step = WAYS[way_of_step](lambda factor: bench.step(method, factor))
    for times in (1, 2):
        assert float(look()) == 2.0
        step(tf.constant(NAN))  # which moves the scale
        assert float(look()) == 2.0
        bench.move_scale(64.0)
        step(tf.constant(1.0))
        assert bench.steps == times


# --- Rule 3: in a place without a scaling call, what waits elsewhere decides.


@of_each_method
def test_a_function_makes_a_gradient_and_another_place_applies_it(bench, way, method):
    gradient, apply = tf.function(lambda: bench.gradient(method)), way(bench.apply)
    for _ in range(2):
        apply(gradient())
    assert bench.steps == 2


@of_each_method
def test_a_thread_makes_a_gradient(bench, method):
    bench.apply(in_thread(bench.gradient, method))
    assert bench.steps == 1


def test_what_waits_in_a_thread_decides_before_what_functions_have_done(bench):
    tf.function(lambda: bench.step(LEGACY))()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        bench.apply(thread.submit(bench.scaled, KERAS3).result())
    assert bench.steps == 2


@of_each_method
def test_a_thread_takes_steps_while_a_gradient_of_the_other_protocol_waits(
    bench, method
):
    gradient = bench.gradient(method)
    in_thread(bench.step, OTHER[method])
    bench.apply(gradient)
    assert bench.steps == 2


def test_a_copy_is_refused_after_a_step_of_the_other_protocol(bench):
    copy = bench.gradient(LEGACY) * 1.0
    bench.step(KERAS3)
    with refused():
        bench.apply(copy)
    assert bench.steps == 1


def test_a_function_that_only_applies_is_refused_if_both_kinds_were_seen(bench):
    bench.step(LEGACY)
    bench.step(KERAS3)
    bench.apply(bench.scaled(KERAS3))
    gradient = bench.scaled(KERAS3)
    with refused():
        tf.function(bench.apply)(gradient)
    assert bench.steps == 3


def test_eager_code_that_has_the_other_kind_is_refused(bench):
    bench.step(LEGACY)
    gradient = tf.function(lambda: bench.scaled(KERAS3))()
    with refused():
        bench.apply(gradient)
    assert bench.steps == 1


def test_eager_code_that_has_a_gradient_of_the_other_kind_itself_is_refused(bench):
    bench.gradient(LEGACY)
    scaled = tf.function(lambda: bench.scaled(KERAS3))
    gradient = scaled()
    with refused():
        bench.apply(gradient)
    assert bench.steps == 0


@pytest.mark.parametrize("own", [LEGACY, None])
def test_a_gradient_of_a_deleted_function_is_refused(bench, own):
    """`own` is what eager code has pending. A function unscales without it."""
    unscaled = tf.function(lambda: bench.gradient(LEGACY))
    bench.gradient(LEGACY) if own else unscaled()
    gradient = tf.function(lambda: bench.scaled(KERAS3))()
    gc.collect()
    with refused():
        bench.apply(gradient)
    assert bench.steps == 0


def test_a_deleted_function_whose_gradient_was_applied_is_forgotten(bench):
    bench.apply(tf.function(lambda: bench.scaled(KERAS3))())
    gc.collect()
    gradient = tf.function(lambda: bench.scaled(LEGACY))()
    bench.apply(bench.unscale(gradient) * 1.0)
    assert bench.steps == 2


def test_gradients_of_both_kinds_that_functions_return_are_refused(bench):
    scaled = tf.function(lambda: bench.scaled(KERAS3))
    unscaled = tf.function(lambda: bench.gradient(LEGACY))
    for gradient in (scaled(), unscaled()):
        with refused():
            bench.apply(gradient)
    del scaled, unscaled
    gc.collect()
    with refused():
        bench.apply(gradient)
    assert bench.steps == 0


def test_unscaled_gradients_that_are_applied_leave_a_scaled_loss_in_flight(bench):
    def act():
        unscaled = bench.gradient(LEGACY)
        scaled = bench.scaled(KERAS3)
        bench.apply(unscaled)
        bench.apply(scaled)

    in_thread(act)
    assert bench.steps == 2


def test_zeros_that_make_the_slots_are_of_no_kind(bench):
    bench.apply(tf.constant(0.0))
    bench.step(KERAS3)
    bench.step(KERAS3)
    assert bench.steps == 2


def test_an_apply_of_nothing_is_of_no_kind(bench):
    gradient = bench.scaled(KERAS3)
    bench.optimizer.apply_gradients([])
    bench.apply(gradient)
    assert bench.steps == 1


def test_only_apply_takes_unknown_gradients_as_scaled(bench):
    bench.apply(tf.constant(2.0))
    bench.optimizer.apply([tf.constant(16.0)], [bench.x])
    assert bench.steps == 2


@pytest.mark.parametrize("compiled", [None, True], ids=["function", "xla"])
def test_a_function_that_only_applies_takes_what_it_was_traced_with(
    bench, warnings, compiled
):
    apply = tf.function(bench.apply, jit_compile=compiled)
    apply(tf.constant(0.0))
    apply(bench.gradient(LEGACY))
    apply(bench.scaled(KERAS3))
    apply(bench.scaled(KERAS3))
    _, message = warnings()  # the first is of the zeros, for which nothing was called
    assert "only applies gradients" in message
    assert "scale_loss() is called" in message
    assert "takes unscaled gradients" in message
    assert bench.steps == 1 + 2 * 8


# --- Rule 4: which scale divides.


@of_each_method
def test_a_function_divides_by_the_scale_that_its_own_loss_has_read(bench, method):
    @tf.function
    def step():
        gradient = bench.scaled(method)
        bench.move_scale(64.0)
        bench.apply(gradient if method == KERAS3 else bench.unscale(gradient))
        bench.move_scale(8.0)

    tf.function(lambda: bench.scaled(method))()
    step()
    step()
    assert bench.steps == 2


@of_each_method
@pytest.mark.parametrize("compiled", [None, True], ids=["function", "xla"])
def test_everywhere_else_the_scale_as_it_is_now_divides(bench, way, method, compiled):
    def scaled():
        return bench.scaled(method)

    for make in (scaled, tf.function(scaled, jit_compile=compiled)):
        gradient = make()
        bench.move_scale(64.0)
        if method == LEGACY:
            gradient = way(bench.unscale)(gradient)
        bench.apply(gradient)
        bench.move_scale(8.0)
    assert bench.steps == 2 * 8 / 64


@pytest.mark.parametrize("place, steps", [("eager", 2), ("function", 1)])
def test_two_losses_are_applied_one_after_the_other_and_the_first_overflows(
    bench, place, steps
):
    """In eager code the scale as it is now divides, as in Keras 3: 4, and not 8."""

    def apply_both(method):
        for gradient in [bench.gradient(method, factor) for factor in (NAN, 1.0)]:
            bench.apply(gradient)

    WAYS[place](lambda: apply_both(KERAS3))()
    assert bench.steps == steps
    WAYS[place](lambda: apply_both(LEGACY))()
    assert bench.steps == steps + 1


@of_each_method
def test_three_losses_of_one_function_of_which_the_first_applied_overflows(
    bench, method
):
    @tf.function
    def step():
        for gradient in [bench.gradient(method, factor) for factor in (NAN, 1.0, 1.0)]:
            bench.apply(gradient)

    step()
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (2, 4.0)


def test_a_function_scales_all_losses_before_it_unscales(bench):
    @tf.function
    def step():
        for gradient in [bench.scaled(LEGACY, factor) for factor in (NAN, 1.0)]:
            bench.apply(bench.unscale(gradient))

    step()
    assert (bench.steps, float(bench.optimizer.loss_scale)) == (1, 4.0)


@of_each_method
def test_two_losses_on_eager_replicas(family, method, mirrored2):
    """Each is divided by the scale as it is, also after the first apply has moved it."""
    bench = Bench(family, growth=1, strategy=mirrored2)

    def apply_both():
        for gradient in [bench.gradient(method), bench.gradient(method)]:
            bench.apply(gradient)

    mirrored2.run(apply_both)
    moved = 1.0 if method == LEGACY else 8.0 / 16.0
    assert bench.steps == 1.0 + moved


def test_the_scale_of_a_callable_loss(bench):
    scaled = bench.optimizer.get_scaled_loss(lambda: 2.0 * bench.x)
    bench.move_scale(64.0)
    with tf.GradientTape() as tape:
        loss = scaled()
    assert float(bench.unscale(tape.gradient(loss, bench.x))) == 2.0


# --- Functions that are traced again, in loops and branches, or not to the end.


def test_a_retraced_function(bench):
    @tf.function
    def gradient(factors):
        return bench.gradient(KERAS3, tf.reduce_mean(factors))

    for size in (1, 2, 3, 1):
        bench.apply(gradient(tf.ones(size)))
    assert bench.steps == 4


@of_each_method
def test_micro_batches_in_a_loop(bench, method):
    @tf.function
    def step():
        total = tf.constant(0.0)
        for _ in tf.range(4):
            total += bench.gradient(method)
        bench.apply(total / 4.0)

    for _ in range(3):
        step()
    assert bench.steps == 3


@pytest.mark.parametrize("methods", [METHODS[:1], METHODS[1:], METHODS[::-1]])
def test_an_apply_in_a_branch(bench, methods):
    def step(method, due):
        gradient = bench.gradient(method)
        if due:
            bench.apply(gradient)

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
        bench.scaled(KERAS3)
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        failing()
    scaled = tf.function(lambda: bench.scaled(LEGACY))
    for _ in range(2):
        bench.apply(bench.unscale(scaled()) * 1.0)
    assert bench.steps == 2
    assert kept


@pytest.mark.keras3
@pytest.mark.parametrize(
    "style, growth", [("legacy", 1000), ("legacy", 2), ("legacy", 1), ("keras3", 2)]
)
def test_what_a_function_applies_after_steps_of_one_protocol(style, growth, mirrored2):
    """The optimizer was made outside the scope, and is built in its first traced step.

    Of `scale_loss` alone as the class of Keras 3 itself: by the scale as it is now.
    """
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


# --- Warnings of what was forgotten, and refusals of what is done twice.


def apply_alone(bench, gradient):
    bench.apply(gradient)


def scale_and_apply(bench, gradient):
    bench.apply(bench.scaled(LEGACY))


def unscale_and_apply(bench, gradient):
    bench.apply(bench.unscale(gradient))


@pytest.mark.parametrize(
    "program, message, subtracted",
    [
        (
            apply_alone,
            "get_scaled_loss() and get_unscaled_gradients() were not called",
            2.0,
        ),
        (
            scale_and_apply,
            "get_scaled_loss() was called but get_unscaled_gradients() was not",
            16.0,
        ),
        (
            unscale_and_apply,
            "get_unscaled_gradients() was called but get_scaled_loss() was not",
            0.25,
        ),
    ],
)
def test_a_forgotten_call_is_warned_of_once(
    bench, way, warnings, program, message, subtracted
):
    run = way(lambda gradient: program(bench, gradient))
    for _ in range(3):
        run(tf.constant(2.0))
    (found,) = warnings()
    assert found.startswith(message)
    assert "opt.get_scaled_loss(loss)" in found
    assert float(bench.x) == -3 * subtracted


def test_gradients_are_unscaled_twice(bench, way):
    def act():
        unscaled = bench.optimizer.get_unscaled_gradients([bench.scaled(LEGACY), None])
        bench.optimizer.get_unscaled_gradients(unscaled)

    with pytest.raises(RuntimeError, match="unscaled already"):
        way(act)()
    bench.step(LEGACY)
    assert bench.steps == 1


@of_each_method
def test_a_loss_is_scaled_twice(bench, way, method):
    scale = getattr(bench.optimizer, method)
    with pytest.raises(RuntimeError, match="scaled already"):
        way(lambda: scale(scale(2.0 * bench.x)))()
    bench.step(method)
    assert bench.steps == 1


def test_a_callable_loss_is_scaled_twice(bench):
    scale = bench.optimizer.get_scaled_loss
    with pytest.raises(RuntimeError, match="scaled already"):
        scale(scale(lambda: 2.0 * bench.x))


@of_each_method
def test_both_methods_scale_one_loss(bench, way, method):
    first, second = METHODS if method == LEGACY else METHODS[::-1]

    def act():
        loss = getattr(bench.optimizer, first)(2.0 * bench.x)
        getattr(bench.optimizer, second)(loss)

    message = rf"{second}\(\).*{first}\(\).*twice.*get_unscaled_gradients\(\[\]\)"
    with pytest.raises(RuntimeError, match=message):
        way(act)()
    bench.step(first)
    assert bench.steps == 1


@of_each_method
def test_both_methods_scale_losses_of_one_step(bench, method):
    second = OTHER[method]
    getattr(bench.optimizer, method)(tf.constant(1.0))
    for _ in range(2):  # the refusal changes nothing
        with pytest.raises(RuntimeError, match=rf"{second}\(\).*{method}\(\)"):
            getattr(bench.optimizer, second)(tf.constant(2.0))
    bench.finish()  # as the message says
    bench.step(second)
    assert bench.steps == 1


# --- The states of `Calls` itself.

SCALE = 8.0


def now():
    return tf.constant(64.0)


def test_the_states_keep_no_graph_alive():
    calls = calls_lib.Calls()

    @tf.function(autograph=False)
    def step(x):
        calls.scaled(calls_lib.KERAS3, x * 1.0, None)
        divisor = calls.divisor([x], now)
        calls.unscaled([x * 2.0])
        return divisor

    assert float(step(tf.constant(SCALE))) == SCALE
    assert len(calls._functions) == len(calls._scales) == 1
    assert len(calls.unscaled_gradients._references) == 1
    del step
    gc.collect()
    assert len(calls._functions) == len(calls._scales) == 0
    assert len(calls.unscaled_gradients._references) == 0


def test_the_states_of_many_threads_stay_few():
    calls, scale = calls_lib.Calls(), tf.constant(SCALE)
    for _ in range(200):
        in_thread(calls.scaled, calls_lib.KERAS3, scale, None)
    assert len(calls._threads) < 10
    assert float(calls.divisor([scale], now)) == 64.0
