"""Random programs that mix protocols, functions, graphs and threads on one optimizer.

The loss is 2x and the learning rate 1, so a right step takes 2 off x; powers of two keep
all numbers exact. A program is right where x and the loss scale are what `Model` says
after each step, refused where a call raises an error that says why, and wrong otherwise.
"""

import dataclasses
import random
import threading

import tensorflow as tf

from tests.families import wrapped

NAN = float("nan")
SCALE, GROWTH = 8.0, 3


class Wrong(AssertionError):
    """The program did another thing than a right step."""


@dataclasses.dataclass
class Gradient:
    tensor: object
    unscaled: bool
    finite: bool
    scale: float  # that its loss was multiplied by


class Program:
    """One optimizer, the functions that use it, and what should have come out."""

    def __init__(self, family, seed):
        self.random = random.Random(seed)
        self.optimizer = wrapped(family, "SGD", 1.0, scale=SCALE, growth=GROWTH)
        self.x = tf.Variable(0.0, name="x")
        self.optimizer.build([self.x])
        self.expected, self.scale, self.count = 0.0, SCALE, 0
        self.in_flight = []
        self.functions = {}
        self.log = []

    # --- What programs are made of.

    def gradient(self, method, factor):
        with tf.GradientTape() as tape:
            scaled = getattr(self.optimizer, method)(2.0 * self.x * factor)
        return tape.gradient(scaled, self.x)

    def unscale(self, gradient):
        return self.optimizer.get_unscaled_gradients([gradient])[0]

    def unscaled_gradient(self, method, factor):
        return self.unscale(self.gradient(method, factor))

    def apply(self, gradient):
        self.optimizer.apply_gradients([(gradient, self.x)])

    def whole(self, method, factor):
        gradient = self.gradient(method, factor)
        self.apply(gradient if method == "scale_loss" else self.unscale(gradient))

    # --- Where they run.

    def call(self, where, name, *args):
        """Call a method of this class eagerly, in a thread, or traced."""
        self.log.append((where, name, *[a for a in args if isinstance(a, str)]))
        method = getattr(self, name)
        if where == "eager":
            return method(*args)
        if where == "thread":
            return self.in_thread(method, *args)
        texts = [a for a in args if isinstance(a, str)]
        key = (where, name, *texts)
        if key not in self.functions:
            self.functions[key] = tf.function(
                lambda *tensors: method(*texts, *tensors),
                jit_compile=where == "xla",
            )
        tensors = [tf.convert_to_tensor(a) for a in args if not isinstance(a, str)]
        return self.functions[key](*tensors)

    def in_thread(self, method, *args):
        results = []

        def run():
            try:
                results.append((method(*args), None))
            except RuntimeError as error:
                results.append((None, error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        ((value, error),) = results
        if error is not None:
            raise error
        return value

    # --- What should come out.

    def expect(self, finite):
        if not finite:
            self.scale, self.count = max(self.scale / 2, 1.0), 0
        else:
            self.expected -= 2.0
            self.count += 1
            if self.count >= GROWTH:
                self.scale, self.count = self.scale * 2, 0

    def check(self):
        x, scale = float(self.x), float(self.optimizer.loss_scale)
        if (x, scale) != (self.expected, self.scale):
            raise Wrong(
                f"x {x}, scale {scale}; expected {self.expected}, {self.scale}, after\n"
                + "\n".join(map(str, self.log))
            )

    # --- Actions.

    def where(self, *others):
        return self.random.choice(["eager", "eager", "traced", "traced", *others])

    def method(self):
        return self.random.choice(["scale_loss", "get_scaled_loss"])

    def factor(self):
        finite = self.random.random() < 0.7
        return finite, tf.constant(1.0 if finite else NAN)

    def act(self):
        """Take one random action."""
        actions = [self.whole_step, self.whole_step, self.compute, self.load, self.drop]
        if self.in_flight:
            actions = [*actions[:2], *[self.finish] * 4, self.load, self.drop]
            if len(self.in_flight) < 2:
                actions.append(self.compute)
        self.random.choice(actions)()

    def whole_step(self):
        finite, factor = self.factor()
        where = self.where("thread", "xla")
        loop = where == "traced" and self.random.random() < 0.3
        if loop:
            self.loop(factor)
        else:
            self.call(where, "whole", self.method(), factor)
        self.expect(finite)
        self.check()

    def loop(self, factor):
        method = self.method()
        key = ("loop", method)
        self.log.append(key)
        if key not in self.functions:

            @tf.function
            def loop(factor):
                return tf.while_loop(
                    lambda i: i < 1,
                    lambda i: (self.whole(method, factor), i + 1)[1:],
                    [tf.constant(0)],
                )

            self.functions[key] = loop
        self.functions[key](factor)

    def compute(self):
        finite, factor = self.factor()
        method = self.method()
        whole = self.random.random() < 0.5
        if method == "get_scaled_loss" and whole:
            tensor = self.call(
                self.where("thread"), "unscaled_gradient", method, factor
            )
        else:
            tensor = self.call(self.where("thread"), "gradient", method, factor)
        unscaled = method == "get_scaled_loss" and whole
        if method == "get_scaled_loss" and not unscaled:
            tensor = self.call(self.where(), "unscale", tensor)
            unscaled = True
        if self.random.random() < 0.3:
            self.log.append("copy")
            tensor = tensor * 1.0  # as clipping would, another tensor
        self.in_flight.append(Gradient(tensor, unscaled, finite, self.scale))

    def finish(self):
        gradient = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        self.call(self.where(), "apply", gradient.tensor)
        self.expect(gradient.finite)
        self.check()

    def load(self):
        self.log.append("load")
        self.scale = self.random.choice([2.0, 8.0, 64.0])
        self.count = 0
        state = self.optimizer.loss_scale_state
        state._current_loss_scale.assign(self.scale)
        state._num_good_steps.assign(0)

    def drop(self):
        if self.in_flight:
            self.log.append("drop")
            self.in_flight.pop()


def run(family, seed, actions=8):
    """Run one program; return "right" or "refused", or raise `Wrong`."""
    program = Program(family, seed)
    for _ in range(actions):
        try:
            program.act()
        except (RuntimeError, tf.errors.InvalidArgumentError) as error:
            if "scaled" not in str(error) and "wait to be applied" not in str(error):
                raise
            program.log.append(str(error))
            return "refused"
    return "right"
