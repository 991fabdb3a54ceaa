"""Random programs that mix protocols, functions, graphs and threads on one optimizer.

Losses and words are those of `programs.py`. There are three kinds of programs:

- "legacy": `get_scaled_loss`, `get_unscaled_gradients` and `minimize` alone.
- "keras3": `scale_loss`, `apply_gradients` and `apply` alone.
- "both": whole steps of both kinds, while gradients of one kind at a time wait in between.

Programs of one kind are always right. Those of both are right or refused, or warned of a
function that only applies. Right is the scale that a function has read for its own loss,
and everywhere else the scale as it is now.
"""

import dataclasses
import math
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
_REFUSALS = ("cannot know whether", "is neither unscaled nor applied")
_WARNING = "a tf.function that only applies gradients was traced before"


class _Warned(Exception):
    """The program went wrong as a warning has said."""


@dataclasses.dataclass
class Gradient:
    tensor: object
    unscaled: bool
    finite: bool
    scale: float  # that its loss was multiplied by
    value: float = 2.0  # where it is unscaled


class Program(Bench):
    """A random program, and what x, the scale and its count of good steps must be."""

    actions = 8

    def __init__(self, family, seed, kind, strategy=None):
        super().__init__(family, SCALE, GROWTH, strategy)
        self.random = random.Random(seed)
        self.kind, self.methods = kind, KINDS[kind]
        self.value, self.scale, self.count = 0.0, SCALE, 0
        self.log, self.in_flight = [(family, seed, kind)], []
        self.warned = False  # of what rule 3 cannot know

    def call(self, where, name, *args):
        """Call a method in a place."""
        self.log.append((where, name, *(a for a in args if isinstance(a, str))))
        return super().call(where, name, *args)

    def told(self, what):
        return "\n".join([f"{what}, after", *map(str, self.log)])

    def check(self, gradient, where="eager"):
        """See that x and the scale are right after a gradient was applied."""
        if not gradient.finite:
            taken = 0.0
        elif gradient.unscaled:
            taken = gradient.value
        else:
            taken = 2.0 * gradient.scale / self.scale
        right = self.value - taken * self.replicas
        self.count = self.count + 1 if gradient.finite else 0
        if not gradient.finite:
            self.scale = max(self.scale / 2, 1.0)
        elif self.count >= GROWTH:
            self.scale, self.count = self.scale * 2, 0
        found = {float(copy) for copy in copies(self.x)}
        scale = float(self.optimizer.loss_scale)
        is_right = found == {right} and scale == self.scale
        if not is_right and self.warned and where in ("traced", "collected"):
            raise _Warned
        expected = f"expected {right}, {self.scale}"
        assert is_right, self.told(f"x {found}, scale {scale}; {expected}")
        (self.value,) = found

    # --- Actions.

    def happens(self, probability):
        return self.random.random() < probability

    def where(self, *others):
        return self.random.choice(["eager", "eager", "traced", "traced", *others])

    def where_in_part(self):
        # What threads hand out, and functions that are gone, is only known to be right
        # where one kind was ever seen.
        others = () if self.kind == "both" else ("thread", "worker", "collected")
        return self.where(*others)

    def method_in_part(self):
        """The method of a gradient that will wait: that of those which wait already."""
        waiting = [
            "get_scaled_loss" if g.unscaled else "scale_loss" for g in self.in_flight
        ]
        return waiting[0] if waiting else self.method()

    def method(self):
        return self.random.choice(self.methods)

    def factor(self):
        finite = self.happens(0.7)
        return finite, tf.constant(1.0 if finite else NAN)

    def act(self):
        """Take one random action."""
        actions = [self.whole_step, self.whole_step, self.step_while_the_scale_moves]
        actions += [self.set_scale, *[self.compute] * (2 * (len(self.in_flight) < 3))]
        if self.in_flight:
            actions += [*[self.finish] * 4, self.drop]
        self.random.choice(actions)()

    def whole_step(self):
        finite, factor = self.factor()
        where = self.where("thread", "worker", "collected", "xla")
        method = self.method()
        names = ["whole", "whole"]
        names += ["loop"] * (where in ("traced", "collected"))
        names += ["minimize"] * (method == "get_scaled_loss")
        names += ["whole_of_both"] * (len(self.methods) == 2)
        self.call(where, self.random.choice(names), method, factor)
        self.check(Gradient(None, True, finite, self.scale))

    def step_while_the_scale_moves(self):
        """Scale, unscale and apply in one thread, while the scale is set in between."""
        where = self.random.choice(["eager", "eager", "worker"])
        gradient = self.made(where, self.method())
        if self.happens(0.7):
            self.set_scale()
        self.finish_one(gradient, where)

    def made(self, where, method):
        """Compute a gradient, of legacy an unscaled one."""
        (finite, factor), scale = self.factor(), self.scale
        if method == "scale_loss":
            tensor = self.call(where, "gradient", method, factor)
            return Gradient(tensor, False, finite, scale)
        if self.happens(0.5):
            tensor, right = self.call(where, "unscaled_gradient", method, factor), 2.0
        else:
            tensor = self.call(where, "gradient", method, factor)
            if self.happens(0.3):
                self.set_scale()
            other = self.happens(0.3) and self.kind != "both"
            tensor = self.call(
                self.where_in_part() if other else where, "unscale", tensor
            )
            right = 2.0 * scale / self.scale
        value = float(tensor)
        is_right = value == right if finite else math.isnan(value)
        assert is_right, self.told(f"unscaled to {value}; expected {right}")
        return Gradient(tensor, True, finite, scale, value)

    def compute(self):
        gradient = self.made(self.where_in_part(), self.method_in_part())
        if self.happens(0.3):
            self.log.append("copy")
            gradient.tensor = gradient.tensor * 1.0  # as clipping would, another tensor
        self.in_flight.append(gradient)

    def taken(self):
        return self.in_flight.pop(self.random.randrange(len(self.in_flight)))

    def finish(self):
        self.finish_one(self.taken(), self.where_in_part())

    def finish_one(self, gradient, where):
        by_apply = not gradient.unscaled and self.happens(0.3)
        self.call(where, "apply" if by_apply else "apply_gradients", gradient.tensor)
        self.check(gradient, where)
        if self.happens(0.25):
            self.log.append("again")
            self.in_flight.append(gradient)

    def set_scale(self):
        self.scale, self.count = self.random.choice(SCALES), 0
        self.log.append(f"scale = {self.scale}")
        self.optimizer.loss_scale = self.scale

    def drop(self):
        self.log.append("drop")
        gradient = self.taken()
        if self.kind == "both" and not gradient.unscaled:
            self.optimizer.get_unscaled_gradients([])  # as the refusals advise

    def outcome(self):
        """Run it; return "right", or where it mixes both kinds "refused" or "warned"."""

        def note(record):
            self.warned |= _WARNING in record.getMessage()
            return True

        log.logger().addFilter(note)
        try:
            for _ in range(self.actions):
                self.act()
        except (_Warned, RuntimeError, tf.errors.InvalidArgumentError) as error:
            warned = isinstance(error, _Warned)
            if not warned and not any(text in str(error) for text in _REFUSALS):
                raise
            assert self.kind == "both", self.told(repr(error))
            return "warned" if warned else "refused"
        finally:
            log.logger().removeFilter(note)
            self.worker.shutdown()
        return "right"


class ProgramOfReplicas(Program):
    """A program of eager replicas, each of which has a gradient of its own."""

    actions = 6

    def where(self, *others):
        return "replicas"

    def micro_batches(self, method, factor):
        """Two losses and one apply."""
        gradient = self.mean(*(self.gradient(method, factor) for _ in "ab"))
        keras3 = method == "scale_loss"
        self.apply_gradients(gradient if keras3 else self.unscale(gradient))

    def act(self):
        """Take one random action."""
        actions = [self.whole_step, self.set_scale]
        if self.in_flight:
            actions += [*[self.finish] * 3, self.drop]
        else:
            actions.append(self.compute)
        self.random.choice(actions)()

    def whole_step(self):
        (finite, factor), names = self.factor(), ["whole", "micro_batches"]
        self.call("replicas", self.random.choice(names), self.method(), factor)
        self.check(Gradient(None, True, finite, self.scale))

    def compute(self):
        (finite, factor), method = self.factor(), self.method()
        unscaled = method == "get_scaled_loss"
        name = "unscaled_gradient" if unscaled else "gradient"
        tensor = self.call("replicas", name, method, factor)
        self.in_flight.append(Gradient(tensor, unscaled, finite, self.scale))


def program_of(seed, strategy=None):
    """The program of a seed; each pair of family and kind comes in turn."""
    families, kinds = list(FAMILIES), list(KINDS)
    family, kind = families[seed % len(families)], seed // len(families) % len(kinds)
    cls = ProgramOfReplicas if strategy else Program
    return cls(family, seed, kinds[kind], strategy)
