"""Random programs of scaling calls, against a model in NumPy.

A program uses one optimizer in eager code, functions and threads. A program of one protocol
must never be refused, and must always compute the values of the model. A program of both
protocols must do the same, but its steps may be refused. `test_calls.py` tests the rules of
`tf_lso.scaling.calls` one by one, and explains the term *place*.

If a program fails, Hypothesis removes the calls that the failure does not need, and prints the
remaining calls as Python.
"""

import concurrent.futures
import contextlib
import gc
import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.families import copies
from tests.scaling.bench import KERAS3, LEGACY, NAN, Bench, in_thread
from tf_lso.frameworks import log

GROWTH = 3  # the number of finite steps after which the scale doubles
# The messages of the errors that a program of both protocols may get.
REFUSALS = "cannot know whether|is neither unscaled nor applied"
WARNING = "a tf.function that only applies gradients was traced before"

PROTOCOLS = {"legacy": (LEGACY,), "keras3": (KERAS3,), "both": (LEGACY, KERAS3)}
EXAMPLES = {"legacy": 4, "keras3": 4, "both": 12}  # the number of random programs

# Hypothesis draws "eager" four times as often as each other place, because tracing is slow.
EAGER = ("eager",) * 4
FACTORS = st.sampled_from([1.0, 1.0, NAN])  # a step multiplies its loss by a factor
SCALES = st.sampled_from([2.0, 8.0, 64.0])


def draw_from(attribute):
    """Draw an element of a tuple that is an attribute of the running state machine."""
    return st.runner().flatmap(lambda run: st.sampled_from(getattr(run, attribute)))


PLACES, PLACES_FOR_PARTS = draw_from("places"), draw_from("places_for_parts")
METHODS = draw_from("methods")
# The ways to take a step. If the protocol or the place does not support the drawn way, the step
# is plain.
WAYS = st.sampled_from(["plain", "two losses", "minimize", "loop", "unscaled"])


class Model:
    """The expected values of x, the scale, and the count of finite steps."""

    def __init__(self, replicas):
        self.x, self.scale, self.count = np.float32(0.0), np.float32(8.0), 0
        self.replicas = replicas

    def set_scale(self, scale):
        self.scale, self.count = np.float32(scale), 0

    def apply(self, gradient):
        """Take a step with an unscaled gradient, which is the same on each replica."""
        if not np.isfinite(gradient):
            self.set_scale(max(self.scale / 2, 1.0))
            return
        self.x -= gradient * self.replicas
        self.count += 1
        if self.count == GROWTH:
            self.set_scale(self.scale * 2)


class Gradient:
    """A gradient that a program may still apply.

    Attributes:
      tensor: a tensor or a per-replica value.
      method: the name of the method that scaled the loss.
      is_scaled: whether the gradient is still multiplied by a scale.
      value: the expected value, a float32 number.
    """

    def __init__(self, tensor, method, is_scaled, value):
        self.tensor, self.method = tensor, method
        self.is_scaled, self.value = is_scaled, np.float32(value)


class Program(RuleBasedStateMachine):
    """A random program of one optimizer.

    A rule is either a whole step or a part of a step. The parts pass their gradients to later
    rules by the bundles `scaled` and `gradients`. In a program of both protocols, all waiting
    gradients have the same protocol, and the parts run only in eager code. Programs that keep
    gradients of both protocols in flight in several places are not supported.
    """

    scaled, gradients = Bundle("scaled"), Bundle("gradients")

    def __init__(self, family, protocols, strategy=None):
        super().__init__()
        self.bench = Bench(family, growth=GROWTH, strategy=strategy)
        self.model = Model(self.bench.replicas)
        self.methods, self.is_mixed = PROTOCOLS[protocols], protocols == "both"
        # A "thread" ends after the call, and the "worker" is a thread that does not end. A
        # "collected" function is deleted after the call.
        self.places = (*EAGER, "thread", "worker", "function", "collected", "xla")
        self.places_for_parts = EAGER if self.is_mixed else self.places[:-1]
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.functions, self.old_functions = {}, []
        self.waiting = []  # the gradients that may still be applied
        log.logger().addFilter(self.retrace_after_warning)

    def teardown(self):
        log.logger().removeFilter(self.retrace_after_warning)
        self.worker.shutdown()

    # --- Helpers of the rules.

    def call(self, place, function, *values):
        """Call a function of tensors in a place, and return the result.

        In the places "function" and "xla", the function is traced only once for each name.
        """
        if place == "eager":
            return function(*values)
        if place == "thread":
            return in_thread(function, *values)
        if place == "worker":
            return self.worker.submit(function, *values).result()
        traced = tf.function(function, autograph=False, jit_compile=place == "xla")
        if place != "collected":
            key = (place, function.__name__)
            return self.functions.setdefault(key, traced)(*values)
        result = traced(*values)
        del traced
        gc.collect()
        return result

    def retrace_after_warning(self, record):
        """Trace all functions again after the warning that an old trace may be wrong.

        This method is a filter of the logger, so it gets each record.
        """
        if WARNING in record.getMessage():
            self.old_functions.append(self.functions)  # keeps the functions alive
            self.functions = {}
        return True

    @contextlib.contextmanager
    def may_be_refused(self):
        """If a program of both protocols is refused, drop all gradients that wait."""
        try:
            yield
        except (RuntimeError, tf.errors.InvalidArgumentError) as error:
            if not self.is_mixed or not re.search(REFUSALS, str(error)):
                raise
            self.drop_all()

    def drop_all(self):
        """Drop all gradients that wait."""
        for place in ("eager", "worker"):
            self.call(place, self.bench.drop_scaled_loss)
        self.waiting.clear()

    def may_scale(self, method):
        """Return whether the program may keep another gradient of this method now."""
        waiting = {gradient.method for gradient in self.waiting}
        return method in self.methods and waiting <= {method}

    def check_and_keep(self, tensor, method, is_scaled, value):
        """Check the value of a gradient, and keep the gradient for a later rule."""
        for replica_value in self.replica_values(tensor):
            np.testing.assert_array_equal(replica_value, value)
        gradient = Gradient(tensor, method, is_scaled, value)
        self.waiting.append(gradient)
        return gradient

    def replica_values(self, tensor):
        """Return a list of the values of a tensor on all replicas."""
        return [tensor]

    def check(self):
        """Check that x, the scale and the count are those of the model."""
        optimizer, model = self.bench.optimizer, self.model
        assert {float(copy) for copy in copies(self.bench.x)} == {model.x}
        assert float(optimizer.loss_scale) == model.scale
        assert set(copies(optimizer.dynamic_counter)) == {model.count}

    def forget(self, gradient):
        if gradient in self.waiting:
            self.waiting.remove(gradient)

    # --- Whole steps.

    @rule(place=PLACES, method=METHODS, way=WAYS, factor=FACTORS)
    def step(self, place, method, way, factor):
        bench = self.bench

        def plain(factor):
            bench.step(method, factor)

        def two_losses(factor):
            first = bench.gradient(method, factor)
            second = bench.gradient(method, 1.0)
            bench.apply((first + second) / 2.0)

        def minimize(factor):
            bench.optimizer.minimize(lambda: 2.0 * bench.x * factor, [bench.x])

        def loop(factor):
            def body(iteration):
                plain(factor)
                return [iteration + 1]

            tf.while_loop(lambda iteration: iteration < 1, body, [tf.constant(0)])

        def unscaled(factor):
            bench.apply(bench.unscale(bench.scaled(method, factor)))

        ways = {"plain": plain, "two losses": two_losses}
        if method == LEGACY:
            ways["minimize"] = minimize
        if place in ("function", "collected"):
            ways["loop"] = loop
        if self.is_mixed:
            ways["unscaled"] = unscaled
        function = ways.get(way, plain)
        function.__name__ += f" {method}"  # the key of the traced function, see `call`
        with self.may_be_refused():
            self.call(place, function, tf.constant(factor))
            self.model.apply(np.float32(2.0 * factor))
        self.check()

    @rule(place=st.sampled_from(["eager", "worker"]), method=METHODS, scale=SCALES)
    def step_while_the_scale_is_set(self, place, method, scale):
        with self.may_be_refused():
            gradient = self.call(place, self.bench.gradient, method)
            value = np.float32(2.0)
            if method == KERAS3:
                # The gradient is multiplied by the old scale and divided by the new scale.
                value *= self.model.scale / np.float32(scale)
            self.set_scale(scale)
            self.call(place, self.bench.apply, gradient)
            self.model.apply(value)
        self.check()

    # --- Parts of steps.

    @precondition(lambda self: self.may_scale(LEGACY))
    @rule(target=scaled, place=PLACES_FOR_PARTS, factor=FACTORS)
    def get_scaled_loss(self, place, factor):
        return self.scale_a_loss(LEGACY, place, factor)

    @precondition(lambda self: self.may_scale(KERAS3))
    @rule(target=gradients, place=PLACES_FOR_PARTS, factor=FACTORS)
    def scale_loss(self, place, factor):
        return self.scale_a_loss(KERAS3, place, factor)

    def scale_a_loss(self, method, place, factor):
        def scaled(factor):
            return self.bench.scaled(method, factor)

        scaled.__name__ += f" {method}"
        with self.may_be_refused():
            tensor = self.call(place, scaled, tf.constant(factor))
            value = np.float32(2.0 * factor) * self.model.scale
            return self.check_and_keep(tensor, method, True, value)
        return multiple()

    @rule(target=gradients, gradient=consumes(scaled), place=PLACES_FOR_PARTS)
    def get_unscaled_gradients(self, gradient, place):
        if gradient not in self.waiting:
            return multiple()
        self.forget(gradient)
        with self.may_be_refused():
            tensor = self.call(place, self.bench.unscale, gradient.tensor)
            return self.check_and_keep(
                tensor, LEGACY, False, gradient.value / self.model.scale
            )
        return multiple()

    @rule(target=gradients, gradient=consumes(gradients))
    def clip(self, gradient):
        """Replace a gradient by an equal gradient that the optimizer does not recognize."""
        if gradient not in self.waiting:
            return multiple()
        self.forget(gradient)
        tensor = self.call("eager", tf.add, gradient.tensor, 0.0)
        return self.check_and_keep(
            tensor, gradient.method, gradient.is_scaled, gradient.value
        )

    @rule(
        target=gradients,
        gradient=consumes(gradients),
        place=PLACES_FOR_PARTS,
        by=st.sampled_from(["apply_gradients", "apply"]),
        is_kept=st.booleans(),
    )
    def apply(self, gradient, place, by, is_kept):
        def apply_of_keras3(tensor):
            self.bench.optimizer.apply([tensor], [self.bench.x])

        if gradient not in self.waiting:
            return multiple()  # `drop_all` has dropped the gradient
        calls_apply = by == "apply" and gradient.is_scaled
        with self.may_be_refused():
            function = apply_of_keras3 if calls_apply else self.bench.apply
            self.call(place, function, gradient.tensor)
            divisor = self.model.scale if gradient.is_scaled else 1.0
            self.model.apply(gradient.value / divisor)
        self.check()
        if is_kept and gradient in self.waiting:
            return gradient
        self.forget(gradient)
        return multiple()

    @rule(gradient=consumes(scaled) | consumes(gradients))
    def drop(self, gradient):
        self.forget(gradient)
        if self.is_mixed and gradient.is_scaled:
            self.bench.drop_scaled_loss()

    @rule(scale=SCALES)
    def set_scale(self, scale):
        self.bench.optimizer.loss_scale = scale
        self.model.set_scale(scale)


class ProgramOfReplicas(Program):
    """A random program that runs in eager replicas. Each replica computes a gradient."""

    def call(self, place, function, *values):
        return self.bench.strategy.run(function, args=values)

    def replica_values(self, tensor):
        return self.bench.strategy.experimental_local_results(tensor)


def run(machine, examples):
    run_state_machine_as_test(
        machine,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


# The family "new" is left out, because its steps run the same code as those of "legacy".
RUNS = [
    ("keras3", None),
    pytest.param("keras3", 40, marks=pytest.mark.slow),
    pytest.param("legacy", 40, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("family, examples", RUNS)
@pytest.mark.parametrize("protocols", PROTOCOLS)
def test_programs(family, protocols, examples):
    run(lambda: Program(family, protocols), examples or EXAMPLES[protocols])


@pytest.mark.parametrize("family, examples", RUNS)
@pytest.mark.parametrize("protocols", PROTOCOLS)
def test_programs_of_replicas(family, protocols, examples, mirrored2):
    run(lambda: ProgramOfReplicas(family, protocols, mirrored2), (examples or 6) // 2)
