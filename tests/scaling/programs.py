"""Programs of scaling calls, in words.

The loss is 2x and the learning rate 1, so a right step takes 2 off x; powers of two keep
all numbers exact. A word is a call and the place where it runs, eager code if none is
named: `scale_loss@f apply_gradients` computes a scaled gradient in a `tf.function` and
applies it eagerly. Gradients wait on a stack.
"""

import concurrent.futures
import contextlib
import gc
import re

import pytest
import tensorflow as tf

from tests.families import copies, wrapped

NAN = float("nan")

# Word -> (method of `Bench`, its texts, how many gradients it takes off the stack).
WORDS = {
    "scale_loss": ("gradient", ["scale_loss"], 0),
    "get_scaled_loss": ("gradient", ["get_scaled_loss"], 0),
    "unscaled": ("unscaled_gradient", ["get_scaled_loss"], 0),
    "unscale": ("unscale", [], 1),
    "apply_gradients": ("apply_gradients", [], 1),
    "apply": ("apply", [], 1),
    "copy": ("copy", [], 1),  # as clipping would, another tensor
    "mean": ("mean", [], 2),
    "legacy": ("whole", ["get_scaled_loss"], 0),
    "keras3": ("whole", ["scale_loss"], 0),
    "minimize": ("minimize", ["get_scaled_loss"], 0),
    "loop_of_legacy": ("loop", ["get_scaled_loss"], 0),
    "loop_of_keras3": ("loop", ["scale_loss"], 0),
}
_WORD = re.compile(r"(!?)(?:\((.*)\)|(\w+))(:nan)?(?:=([\d.]+))?(?:@(\w+))?")


class Bench:
    """One optimizer, x, and the functions and threads of a program.

    Places are "eager"; "thread", which ends, and "worker", which stays; "replicas" of the
    strategy; "xla"; "collected", a function that is gone after the call; and any other
    name, which is that of a `tf.function`.
    """

    def __init__(self, family, scale=8.0, growth=1000, strategy=None):
        self.strategy = strategy
        with strategy.scope() if strategy else contextlib.nullcontext():
            self.optimizer = wrapped(family, "SGD", 1.0, scale=scale, growth=growth)
            self.x = tf.Variable(0.0, name="x")
            self.optimizer.build([self.x])
        self.replicas = strategy.num_replicas_in_sync if strategy else 1
        self.functions = {}
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.stack = []

    @property
    def steps(self):
        """The number of right steps that x has had, on each replica the same."""
        (value,) = {float(copy) for copy in copies(self.x)}
        return value / -2.0 / self.replicas

    # --- What programs are made of.

    def gradient(self, method, factor):
        with tf.GradientTape() as tape:
            scaled = getattr(self.optimizer, method)(2.0 * self.x * factor)
        return tape.gradient(scaled, self.x)

    def unscale(self, gradient):
        return self.optimizer.get_unscaled_gradients([gradient])[0]

    def unscaled_gradient(self, method, factor):
        return self.unscale(self.gradient(method, factor))

    def copy(self, gradient):
        return gradient * 1.0

    def mean(self, first, second):
        return (first + second) / 2.0

    def apply_gradients(self, gradient):
        self.optimizer.apply_gradients([(gradient, self.x)])

    def apply(self, gradient):
        self.optimizer.apply([gradient], [self.x])

    def to_apply(self, method, factor):
        """The gradient that `apply_gradients` takes; after `scale_loss` a scaled one."""
        gradient = self.gradient(method, factor)
        return gradient if method == "scale_loss" else self.unscale(gradient)

    def whole(self, method, factor):
        self.apply_gradients(self.to_apply(method, factor))

    def whole_of_both(self, method, factor):
        self.apply_gradients(self.unscaled_gradient("scale_loss", factor))

    def minimize(self, method, factor):
        self.optimizer.minimize(lambda: 2.0 * self.x * factor, [self.x])

    def loop(self, method, factor):
        tf.while_loop(
            lambda i: i < 1,
            lambda i: (self.whole(method, factor), i + 1)[1:],
            [tf.constant(0)],
        )

    # --- Where they run.

    def call(self, where, name, *args):
        """Call a method of this class in a place, with texts and tensors."""
        method = getattr(self, name)
        if where == "eager":
            return method(*args)
        if where == "replicas":
            return self.strategy.run(method, args=args)
        if where == "worker":
            return self.worker.submit(method, *args).result()
        if where == "thread":
            return in_thread(method, *args)
        texts = [a for a in args if isinstance(a, str)]
        tensors = [tf.convert_to_tensor(a) for a in args if not isinstance(a, str)]
        key = (where, name, *texts)
        function = self.functions.get(key) or tf.function(
            lambda *tensors: method(*texts, *tensors), jit_compile=where == "xla"
        )
        if where != "collected":
            self.functions[key] = function
            return function(*tensors)
        gc.freeze()  # or the collection would look at all of TensorFlow
        result = function(*tensors)
        del function
        gc.collect()
        gc.unfreeze()
        return result

    # --- In words.

    def run(self, program):
        """Run a program.

        `(first second)@f` runs two words in one function. `keep`, `swap` and `drop` are
        of the stack, and `look` drops a gradient that must be 2. `scale=` sets the scale,
        and `move=` does so as a checkpoint would. A word with `!` must be refused.
        """
        for word in re.findall(r"!?\([^)]*\)\S*|\S+", program):
            refused, group, name, nan, number, where = _WORD.fullmatch(word).groups()
            refusal = pytest.raises(RuntimeError, match="get_unscaled_gradients")
            with refusal if refused else contextlib.nullcontext():
                if group:
                    self.call(where, "run", group)
                elif name in WORDS:
                    self._call_word(name, NAN if nan else 1.0, where or "eager")
                else:
                    self._do(name, number)

    def _call_word(self, name, factor, where):
        method, texts, taken = WORDS[name]
        args = [*texts, tf.constant(factor)] if texts else []
        args += [self.stack.pop() for _ in range(taken)]
        result = self.call(where, method, *args)
        if result is not None:
            self.stack.append(result)

    def _do(self, name, number):
        if name == "keep":
            self.stack.append(self.stack[-1])
        elif name == "swap":
            self.stack[-2:] = self.stack[:-3:-1]
        elif name == "drop":
            self.stack.pop()
        elif name == "look":
            assert float(self.stack.pop()) == 2.0
        elif name == "scale":
            self.optimizer.loss_scale = float(number)
        elif name == "move":
            self.optimizer.loss_scale_state._current_loss_scale.assign(float(number))
        elif name == "zeros":
            self.apply_gradients(tf.constant(0.0))
        elif name == "empty":
            self.optimizer.apply_gradients([])
        elif name == "finish":  # a loss whose gradients were dropped
            self.optimizer.get_unscaled_gradients([])
        else:
            raise ValueError(name)


def in_thread(function, *args):
    """Call it in a thread that ends."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *args).result()
