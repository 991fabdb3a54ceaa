"""Both protocols on one optimizer: each scaled gradient is unscaled exactly once.

The four rules, and the terms *place* and *pending*, are those of `tf_lso/scaling/calls.py`.

Each test makes a `Bench`, with one optimizer and one variable. `bench.steps` is the number of
correct steps that the variable shows. A gradient that was divided too often, or not at all,
gives another number.
"""

import gc
import logging

import pytest
import tensorflow as tf

from tests.families import CURRENT
from tests.scaling.bench import KERAS3, LEGACY, METHODS, NAN, OTHER, Bench, in_thread

pytestmark = pytest.mark.core

# How a program runs a function: the values make the function eager or traced.
MODES = {"eager": lambda function: function, "function": tf.function}

for_each_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture
def bench():
    # One family is enough, because all families share `tf_lso.scaling.calls`. The contract runs
    # both protocols with each family.
    return Bench(CURRENT)


@pytest.fixture(params=MODES)
def in_mode(request):
    """A function that makes its argument run eagerly, or in a `tf.function`."""
    return MODES[request.param]


@pytest.fixture
def scaling_warnings(caplog):
    """A function that returns the warnings about scaling calls so far."""
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda: [m for m in caplog.messages if "get_unscaled_gradients" in m]


def step_is_refused():
    """Expect the error of a step whose gradients may be scaled or unscaled."""
    return pytest.raises(RuntimeError, match="cannot know")


# --- Rule 1: the optimizer recognizes the gradients that it has unscaled.


def test_an_unscaled_gradient_is_known_after_another_loss_was_scaled(bench, in_mode):
    def step():
        unscaled = bench.gradient(LEGACY)
        bench.apply(unscaled)
        scaled = bench.scaled(KERAS3)
        bench.apply(unscaled)  # does not drop the pending scaled loss
        bench.apply(scaled)

    in_mode(step)()
    assert bench.steps == 3


def test_a_function_may_apply_the_unscaled_gradient_of_eager_code(bench):
    unscaled = bench.gradient(LEGACY)
    tf.function(lambda: bench.apply(unscaled))()
    assert bench.steps == 1


# --- Rule 2: the pending call of a place decides.


def test_both_protocols_may_take_turns(bench, in_mode, scaling_warnings):
    steps = {method: in_mode(lambda m=method: bench.step(m)) for method in METHODS}
    for method in (LEGACY, KERAS3, KERAS3, LEGACY):
        steps[method]()
    assert bench.steps == 4
    assert scaling_warnings() == []


def test_get_unscaled_gradients_accepts_gradients_of_scale_loss(
    bench, in_mode, scaling_warnings
):
    in_mode(lambda: bench.apply(bench.unscale(bench.scaled(KERAS3))))()
    assert bench.steps == 1
    assert scaling_warnings() == []


@for_each_method
def test_an_unused_gradient_of_another_place_does_not_change_a_step(
    bench, in_mode, method
):
    in_mode(lambda: bench.gradient(method))()
    if method == KERAS3:
        in_mode(bench.drop_scaled_loss)()
    bench.step(OTHER[method])
    assert bench.steps == 1


# --- Rule 3: in a place without a pending call, the only protocol decides.


@for_each_method
def test_another_place_may_apply_the_gradient_of_a_function(bench, in_mode, method):
    gradient, apply = tf.function(lambda: bench.gradient(method)), in_mode(bench.apply)
    for _ in range(2):
        apply(gradient())
    assert bench.steps == 2


@for_each_method
def test_a_step_of_a_thread_does_not_change_a_pending_gradient_of_the_other_protocol(
    bench, method
):
    gradient = bench.gradient(method)
    in_thread(bench.step, OTHER[method])
    bench.apply(gradient)
    assert bench.steps == 2


def test_a_copied_gradient_is_refused_after_a_step_of_the_other_protocol(bench):
    copy = bench.gradient(LEGACY) * 1.0
    bench.step(KERAS3)
    with step_is_refused():
        bench.apply(copy)
    assert bench.steps == 1


def test_a_function_that_only_applies_is_refused_after_both_protocols(bench):
    bench.step(LEGACY)
    bench.step(KERAS3)
    bench.apply(bench.scaled(KERAS3))
    gradient = bench.scaled(KERAS3)
    with step_is_refused():
        tf.function(bench.apply)(gradient)
    assert bench.steps == 3


def test_gradients_of_functions_are_refused_after_both_protocols(bench):
    scaled = tf.function(lambda: bench.scaled(KERAS3))
    unscaled = tf.function(lambda: bench.gradient(LEGACY))
    gradients = [scaled(), unscaled()]
    for _ in range(2):
        for gradient in gradients:
            with pytest.raises(
                RuntimeError, match=r"cannot know.*use a second optimizer"
            ):
                bench.apply(gradient)
        scaled = unscaled = None  # the answer does not depend on the garbage collector
        gc.collect()
    assert bench.steps == 0


@for_each_method
def test_a_failed_trace_does_not_change_eager_steps_of_the_other_protocol(
    bench, method
):
    @tf.function
    def failing():
        bench.scaled(OTHER[method])
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        failing()
    bench.step(method)
    del failing
    gc.collect()
    bench.step(method)
    assert bench.steps == 2


def test_applying_zeros_to_create_the_slots_chooses_no_protocol(
    bench, scaling_warnings
):
    bench.apply(tf.constant(0.0))
    (_,) = scaling_warnings()  # no method was called before the zeros were applied
    bench.step(KERAS3)
    bench.step(KERAS3)
    assert bench.steps == 2
    assert len(scaling_warnings()) == 1


def test_applying_no_gradients_does_not_drop_a_scaled_loss(bench):
    gradient = bench.scaled(KERAS3)
    bench.optimizer.apply_gradients([])
    bench.apply(gradient)
    assert bench.steps == 1


def test_gradients_without_a_scaling_call_count_as_scaled_only_in_apply(bench):
    bench.apply(tf.constant(2.0))
    bench.optimizer.apply([tf.constant(16.0)], [bench.x])  # divides by the scale of 8
    assert bench.steps == 2


@pytest.mark.parametrize("jit_compile", [None, True], ids=["function", "xla"])
def test_a_function_that_only_applies_keeps_the_protocol_of_its_trace(
    bench, scaling_warnings, jit_compile
):
    apply = tf.function(bench.apply, jit_compile=jit_compile)
    apply(tf.constant(0.0))  # the trace assumes unscaled gradients
    apply(bench.gradient(LEGACY))
    apply(bench.scaled(KERAS3))
    apply(bench.scaled(KERAS3))
    # The first warning says that no method was called before the zeros were applied.
    _, message = scaling_warnings()
    assert "only applies gradients" in message
    assert "scale_loss() is called" in message
    assert "expects unscaled gradients" in message
    # One correct step, and two steps of gradients that are still multiplied by 8.
    assert bench.steps == 1 + 2 * 8


def test_a_function_traced_for_scaled_gradients_causes_one_warning(
    bench, scaling_warnings
):
    bench.step(KERAS3)
    tf.function(bench.apply)(tf.constant(0.0))  # the trace assumes scaled gradients
    bench.gradient(LEGACY)
    (message,) = scaling_warnings()
    assert "get_scaled_loss() is called" in message
    assert "expects scaled gradients" in message


# --- By which scale the optimizer divides: the scale as it is at that moment.


@for_each_method
def test_the_scale_at_the_moment_of_the_division_divides(bench, in_mode, method):
    def step():
        gradient = bench.scaled(method)
        bench.assign_scale(64.0)
        bench.apply(gradient if method == KERAS3 else bench.unscale(gradient))
        bench.assign_scale(8.0)

    step = in_mode(step)
    step()
    step()
    assert bench.steps == 2 * 8 / 64


def test_dropping_a_loss_is_no_use_of_the_legacy_protocol(bench, in_mode):
    def step():
        bench.scaled(KERAS3)
        bench.drop_scaled_loss()
        bench.step(KERAS3)

    in_mode(step)()
    bench.apply(tf.function(lambda: bench.scaled(KERAS3))())
    assert bench.steps == 2


@for_each_method
def test_replicas_that_meet_between_scaling_and_applying(mirrored2, method):
    """The pending call of a replica does not end with the step of another replica."""
    bench = Bench(CURRENT, strategy=mirrored2)
    mirrored2.run(lambda: bench.step(OTHER[method]))

    def step():
        gradient = bench.gradient(method) * 1.0
        context = tf.distribute.get_replica_context()
        context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        bench.apply(gradient)

    tf.function(lambda: mirrored2.run(step))()
    assert bench.steps == 2


@for_each_method
@pytest.mark.parametrize("is_traced_before", [False, True])
def test_two_steps_of_a_function_with_gradients_of_an_inner_function(
    bench, method, is_traced_before
):
    """The scale that divides does not depend on the order of the traces."""
    gradient = tf.function(lambda factor: bench.gradient(method, factor))

    @tf.function
    def two_steps(batch):
        bench.step(method, NAN * batch[0])
        bench.apply(gradient(batch[0]))

    if is_traced_before:
        gradient(tf.constant(1.0))
    for size in (1, 2):  # the second size is a new trace
        two_steps(tf.ones(size))
        assert bench.steps == size
    assert float(bench.optimizer.loss_scale) == 2.0


def test_an_inner_function_of_the_other_protocol_is_refused(bench):
    gradient = tf.function(lambda: bench.scaled(KERAS3))
    gradient()

    @tf.function
    def two_steps():
        bench.step(LEGACY)
        bench.apply(gradient())

    with step_is_refused():
        two_steps()
    assert bench.steps == 0


def test_a_branch_may_apply_gradients(bench):
    def step(method, is_due):
        gradient = bench.gradient(method)
        if is_due:
            bench.apply(gradient)

    traced_steps = {method: tf.function(step) for method in METHODS}
    for is_due in (True, False, True):
        for method, traced_step in traced_steps.items():
            traced_step(method, tf.constant(is_due))
    assert bench.steps == 4


# --- Forgotten calls cause a warning. Calls that would scale or unscale twice are refused.


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
def test_a_forgotten_call_causes_one_warning(
    bench, in_mode, scaling_warnings, program, message, subtracted
):
    run = in_mode(lambda gradient: program(bench, gradient))
    for _ in range(3):
        run(tf.constant(2.0))
    (found,) = scaling_warnings()
    assert found.startswith(message)
    assert "opt.get_scaled_loss(loss)" in found
    assert float(bench.x) == -3 * subtracted


def test_minimize_causes_no_warning(bench, scaling_warnings):
    bench.optimizer.minimize(lambda: 2.0 * bench.x, [bench.x])
    assert scaling_warnings() == []
    assert bench.steps == 1


def test_unscaling_gradients_twice_is_refused(bench, in_mode):
    def unscale_twice():
        unscaled = bench.optimizer.get_unscaled_gradients([bench.scaled(LEGACY), None])
        bench.optimizer.get_unscaled_gradients(unscaled)

    with pytest.raises(RuntimeError, match="unscaled already"):
        in_mode(unscale_twice)()
    bench.step(LEGACY)
    assert bench.steps == 1


def test_unscaling_the_values_of_unscaled_slices_is_refused(bench):
    rows = tf.constant([[8.0]])
    (slices,) = bench.optimizer.get_unscaled_gradients([tf.IndexedSlices(rows, [0])])
    with pytest.raises(RuntimeError, match="unscaled already"):
        bench.unscale(slices.values)
    with pytest.raises(RuntimeError, match="unscaled already"):
        bench.unscale(tf.IndexedSlices(slices.values, [1]))


@for_each_method
def test_scaling_a_loss_twice_is_refused(bench, in_mode, method):
    scale = getattr(bench.optimizer, method)
    with pytest.raises(RuntimeError, match="scaled already"):
        in_mode(lambda: scale(scale(2.0 * bench.x)))()
    bench.step(method)
    assert bench.steps == 1


def test_scaling_a_callable_loss_twice_is_refused(bench):
    scale = bench.optimizer.get_scaled_loss
    with pytest.raises(RuntimeError, match="scaled already"):
        scale(scale(lambda: 2.0 * bench.x))


@pytest.mark.parametrize("first, second", [(LEGACY, KERAS3), (KERAS3, LEGACY)])
def test_scaling_one_loss_by_both_methods_is_refused(bench, in_mode, first, second):
    def scale_by_both():
        loss = getattr(bench.optimizer, first)(2.0 * bench.x)
        getattr(bench.optimizer, second)(loss)

    message = rf"{second}\(\).*{first}\(\).*twice.*get_unscaled_gradients\(\[\]\)"
    with pytest.raises(RuntimeError, match=message):
        in_mode(scale_by_both)()
    bench.step(first)
    assert bench.steps == 1


def test_calls_do_not_grow_when_functions_are_traced_again_and_again(bench):
    calls = bench.optimizer._calls
    for _ in range(8):
        gradient = tf.function(lambda: bench.gradient(LEGACY))()
        tf.function(bench.apply)(gradient)
    del gradient
    gc.collect()
    assert bench.steps == 8
    assert len(calls._of_functions) < 5
    assert len(calls.unscaled_gradients._tensors) < 5
