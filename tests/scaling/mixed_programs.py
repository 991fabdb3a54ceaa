"""Random programs that mix protocols, functions, graphs and threads on one optimizer.

The loss is 2x and the learning rate 1, so a right step takes 2 off x; powers of two keep
all numbers exact. There are three kinds of programs:

- "legacy": `get_scaled_loss`, `get_unscaled_gradients` and `minimize` alone. They are
  always right.
- "keras3": `scale_loss`, `apply_gradients` and `apply` alone. They are right, or divide
  by the scale as it is now, as the class of Keras 3 itself.
- "both": they are as above, or refused, or warned of a function that only applies.

What divides a gradient is the scale of its own loss, or of the loss that the thread which
applies has scaled last; or, where another function or thread has scaled the loss or may
have left one, the scale as it is now. Nothing else is right.
"""

import collections
import dataclasses
import logging
import random

import tensorflow as tf

from tests.families import FAMILIES, copies
from tests.scaling.programs import NAN, Bench
from tf_lso import log

SCALE, GROWTH = 8.0, 3
SCALES = (2.0, 8.0, 64.0)

KINDS = {
    "legacy": ("get_scaled_loss",),
    "keras3": ("scale_loss",),
    "both": ("get_scaled_loss", "scale_loss"),
}
_REFUSALS = ("scaled", "scaling", "wait to be applied")
_WARNING = "a tf.function that only applies gradients was traced before"


class Wrong(AssertionError):
    """The program did another thing than a right step."""


@dataclasses.dataclass
class Gradient:
    tensor: object
    unscaled: bool
    finite: bool
    scale: float  # that its loss was multiplied by
    value: float = 2.0  # where it is unscaled


class _Warnings(logging.Handler):
    """Whether the one warning was logged of what rule 3 cannot know."""

    def __init__(self):
        super().__init__()
        self.seen = False

    def emit(self, record):
        self.seen |= _WARNING in record.getMessage()


class _Warned(Exception):
    """The program went wrong as a warning has said."""


class Expected:
    """x, the loss scale, and its count of good steps, as they must be."""

    def __init__(self, optimizer, x, replicas=1):
        self.optimizer, self.x, self.replicas = optimizer, x, replicas
        self.value, self.scale, self.count = 0.0, SCALE, 0
        self.last = {}  # thread -> the scale of the loss that it has scaled last
        self.log = []

    def set_scale(self, scale):
        self.log.append(f"scale = {scale}")
        self.optimizer.loss_scale = scale
        self.scale, self.count = scale, 0

    def after(self, gradient, where):
        """Note that a gradient was applied; return what is wrong, or None."""
        allowed = {0.0}
        if gradient.finite and gradient.unscaled:
            allowed = {gradient.value}
        elif gradient.finite:
            own = 2.0 * gradient.scale
            scales = {gradient.scale, self.scale, self.last.get(where, self.scale)}
            allowed = {own / scale for scale in scales}
        allowed = {self.value - taken * self.replicas for taken in allowed}
        if not gradient.finite:
            self.scale, self.count = max(self.scale / 2, 1.0), 0
        else:
            self.count += 1
            if self.count >= GROWTH:
                self.scale, self.count = self.scale * 2, 0
        found = {float(copy) for copy in copies(self.x)}
        scale = float(self.optimizer.loss_scale)
        if len(found) == 1 and found <= allowed and scale == self.scale:
            (self.value,) = found
            return None
        return f"x {found}, scale {scale}; expected {sorted(allowed)}, {self.scale}"

    def unscaled(self, value, own, here):
        """Note an unscaled gradient of a loss with the scale `own`; return what is wrong.

        `here` says whether the function or thread that unscaled has scaled the loss.
        """
        allowed = {2.0 * own / self.scale, *([2.0] if here else [])}
        if value != value or value in allowed:
            return None
        return f"unscaled to {value}; expected {sorted(allowed)}"

    def wrong(self, what):
        return Wrong(what + ", after\n" + "\n".join(map(str, self.log)))


class Program(Bench):
    """A random program, and what should have come out."""

    def __init__(self, family, seed, kind, strategy=None):
        super().__init__(family, SCALE, GROWTH, strategy)
        self.random = random.Random(seed)
        self.methods = KINDS[kind]
        self.expected = Expected(self.optimizer, self.x, self.replicas)
        self.log = self.expected.log
        self.in_flight = []
        self.warnings = _Warnings()

    def call(self, where, name, *args):
        """Call a method in a place, and note the scale if it scales a loss."""
        texts = [a for a in args if isinstance(a, str)]
        self.log.append((where, name, *texts))
        if "scale_loss" in texts and where in ("eager", "worker", "replicas"):
            self.expected.last[where] = self.expected.scale
        return super().call(where, name, *args)

    # --- Actions.

    def where(self, *others):
        return self.random.choice(["eager", "eager", "traced", "traced", *others])

    def where_in_part(self):
        return self.where("thread", "worker", "collected")

    def method(self):
        return self.random.choice(self.methods)

    def happens(self, probability):
        return self.random.random() < probability

    def factor(self):
        finite = self.happens(0.7)
        return finite, tf.constant(1.0 if finite else NAN)

    def act(self):
        """Take one random action."""
        whole = [self.whole_step, self.whole_step, self.step_while_the_scale_moves]
        if self.in_flight:
            actions = [*whole, *[self.finish] * 4, self.set_scale, self.drop]
            if len(self.in_flight) < 3:
                actions += [self.compute] * 2
        else:
            actions = [*whole, *[self.compute] * 2, self.set_scale]
        self.random.choice(actions)()

    def check(self, gradient, where="eager"):
        wrong = self.expected.after(gradient, where)
        if wrong and self.warnings.seen and where in ("traced", "collected"):
            raise _Warned
        if wrong:
            raise self.expected.wrong(wrong)

    def whole_step(self):
        finite, factor = self.factor()
        where = self.where("thread", "worker", "collected", "xla")
        method = self.method()
        names = ["whole", "whole"]
        if where in ("traced", "collected"):
            names.append("loop")
        if method == "get_scaled_loss":
            names.append("minimize")
        if len(self.methods) == 2:
            names.append("whole_of_both")
        self.call(where, self.random.choice(names), method, factor)
        self.check(Gradient(None, True, finite, self.expected.scale))

    def step_while_the_scale_moves(self):
        """Scale, unscale and apply in one thread, while the scale is set in between."""
        finite, factor = self.factor()
        where = self.random.choice(["eager", "eager", "worker"])
        gradient = self.made(where, self.method(), finite, factor)
        if self.happens(0.7):
            self.set_scale()
        self.finish_one(gradient, where)

    def made(self, where, method, finite, factor):
        """Compute a gradient, of legacy an unscaled one."""
        scale = self.expected.scale
        if method == "scale_loss":
            tensor = self.call(where, "gradient", method, factor)
            return Gradient(tensor, False, finite, scale)
        if self.happens(0.5):
            tensor = self.call(where, "unscaled_gradient", method, factor)
            unscales_in = where
        else:
            tensor = self.call(where, "gradient", method, factor)
            if self.happens(0.3):
                self.set_scale()
            unscales_in = where
            if where in ("traced", "collected", "thread") or self.happens(0.3):
                unscales_in = self.where_in_part()
            tensor = self.call(unscales_in, "unscale", tensor)
            if unscales_in in ("traced", "collected", "thread"):
                unscales_in = "another function or thread"
        value = float(tensor)
        wrong = self.expected.unscaled(value, scale, here=unscales_in == where)
        if wrong:
            raise self.expected.wrong(wrong)
        return Gradient(tensor, True, finite, scale, value)

    def compute(self):
        finite, factor = self.factor()
        gradient = self.made(self.where_in_part(), self.method(), finite, factor)
        if self.happens(0.3):
            self.log.append("copy")
            gradient.tensor = gradient.tensor * 1.0  # as clipping would, another tensor
        self.in_flight.append(gradient)

    def finish(self):
        gradient = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        self.finish_one(gradient, self.where_in_part())

    def finish_one(self, gradient, where):
        name = "apply_gradients"
        if not gradient.unscaled and self.happens(0.3):
            name = "apply"
        self.call(where, name, gradient.tensor)
        self.check(gradient, where)
        if self.happens(0.25):
            self.log.append("again")
            self.in_flight.append(gradient)

    def set_scale(self):
        self.expected.set_scale(self.random.choice(SCALES))

    def drop(self):
        self.log.append("drop")
        self.in_flight.pop(self.random.randrange(len(self.in_flight)))


class ProgramOfReplicas(Program):
    """A program of eager replicas, each of which has a gradient of its own."""

    def where_in_part(self):
        return "replicas"

    def micro_batches(self, method, factor):
        """Two losses and one apply."""
        first, second = self.gradient(method, factor), self.gradient(method, factor)
        gradient = self.mean(first, second)
        keras3 = method == "scale_loss"
        self.apply_gradients(gradient if keras3 else self.unscale(gradient))

    def act(self):
        """Take one random action."""
        actions = [self.whole_step, self.compute, self.set_scale]
        if self.in_flight:
            actions = [self.whole_step, *[self.finish] * 3, self.set_scale, self.drop]
        self.random.choice(actions)()

    def whole_step(self):
        finite, factor = self.factor()
        name = self.random.choice(["whole", "micro_batches"])
        self.call("replicas", name, self.method(), factor)
        self.check(Gradient(None, True, finite, self.expected.scale))

    def compute(self):
        finite, factor = self.factor()
        scale, method = self.expected.scale, self.method()
        unscaled = method == "get_scaled_loss"
        name = "unscaled_gradient" if unscaled else "gradient"
        tensor = self.call("replicas", name, method, factor)
        self.in_flight.append(Gradient(tensor, unscaled, finite, scale))


def _outcome(program, kind, actions):
    logger = log.logger()
    logger.addHandler(program.warnings)
    try:
        for _ in range(actions):
            program.act()
    except _Warned:
        return "warned"
    except (RuntimeError, tf.errors.InvalidArgumentError) as error:
        if not any(text in str(error) for text in _REFUSALS):
            raise
        if kind != "both":
            raise program.expected.wrong(f"refused: {error}") from error
        return "refused"
    finally:
        logger.removeHandler(program.warnings)
        program.worker.shutdown()
    return "right"


def run(family, seed, kind, strategy=None):
    """Run one program of a kind, under a strategy one of eager replicas.

    Returns "right"; of programs of both kinds "refused" or "warned" as well. Raises
    `Wrong`.
    """
    if strategy:
        return _outcome(ProgramOfReplicas(family, seed, kind, strategy), kind, 6)
    return _outcome(Program(family, seed, kind), kind, 8)


def turn(seed):
    """The family and the kind of a seed: each pair in turn."""
    families, kinds = list(FAMILIES), list(KINDS)
    return families[seed % len(families)], kinds[seed // len(families) % len(kinds)]


def many(seeds, strategy=None):
    """Run many programs, whatever comes of them.

    Returns a Counter of (kind, "right", "refused", "warned" or "wrong"), and a dict:
    (family, seed, kind) -> what was wrong.
    """
    counts, wrong = collections.Counter(), {}
    for seed in seeds:
        family, kind = turn(seed)
        try:
            outcome = run(family, seed, kind, strategy)
        except Wrong as error:
            outcome, wrong[family, seed, kind] = "wrong", str(error)
        counts[kind, outcome] += 1
    return counts, wrong
