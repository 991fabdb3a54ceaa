"""The setting of a contract case: family, protocol, strategy and mode."""

import contextlib
import dataclasses
import typing

import numpy as np
import tensorflow as tf

from tests import families


@dataclasses.dataclass
class Setting:
    """One combination under which a contract must hold.

    Attributes:
      family: name of the optimizer family.
      style: the protocol of the step, "legacy" or "keras3".
      mode: "eager", "function" or "jit".
      strategy: a tf.distribute.Strategy, or None for no strategy.
      api: the class of the wrapper, "stable" or "experimental".
      built: whether a case makes the optimizer's variables before its first step. A function
        that makes variables in its first call is traced twice, and tracing takes most of the
        time.
    """

    family: str
    style: str
    mode: str
    strategy: typing.Any = None
    api: str = "stable"
    built: bool = False

    @property
    def replicas(self):
        return self.strategy.num_replicas_in_sync if self.strategy else 1

    def scope(self):
        return self.strategy.scope() if self.strategy else contextlib.nullcontext()

    def optimizer(self, name="SGD", *args, scale=8.0, growth=1000, **kwargs):
        kwargs |= {"scale": scale, "growth": growth, "api": self.api}
        with self.scope():
            return families.wrapped(self.family, name, *args, **kwargs)

    def bare(self, name="SGD", *args, **kwargs):
        kit = families.FAMILIES[self.family]
        with self.scope():
            return getattr(kit, name)(*args or (0.1,), **kwargs)

    def build(self, optimizer, variables):
        with self.scope():
            if self.family == "legacy":
                inner = getattr(optimizer, "inner_optimizer", optimizer)
                inner._create_all_weights(variables)
            else:
                optimizer.build(variables)

    def prepare(self, optimizer, variables):
        """Make the optimizer's variables now if `built` is True."""
        if self.built:
            self.build(optimizer, variables)

    def variable(self, value, dtype=tf.float32):
        with self.scope():
            return tf.Variable(tf.constant(value, dtype), name="x")

    def compiled(self, replica_fn):
        """Return a function of per-replica values that runs `replica_fn` in this setting."""

        def everywhere(*args):
            if self.strategy is None:
                return replica_fn(*args)
            return self.strategy.run(replica_fn, args=args)

        if self.mode == "eager":
            return everywhere
        return tf.function(everywhere, jit_compile=self.mode == "jit" or None)

    def fed(self, replica_fn, *dtypes):
        """Return `compiled(replica_fn)` with `feed` applied to each argument."""
        step, dtypes = self.compiled(replica_fn), dtypes or (tf.float32,)
        return lambda *values: step(
            *(self.feed(*of) for of in zip(values, dtypes, strict=True))
        )

    def feed(self, by_replica, dtype=tf.float32):
        """Return a per-replica tensor from one value for all, or from a list of values."""
        if not isinstance(by_replica, list):
            by_replica = [by_replica] * self.replicas
        tensors = [tf.constant(value, dtype) for value in by_replica]
        if self.strategy is None:
            return tensors[0]
        return families.per_replica(self.strategy, tensors)

    def only_last(self, bad, good):
        """Return a list: `good` for each replica but the last, and `bad` for the last."""
        return [good] * (self.replicas - 1) + [bad]

    def local(self, value):
        """Return a list of the values that a step returned on the local replicas."""
        if self.strategy is None:
            return [value]
        return list(self.strategy.experimental_local_results(value))

    def linear(self, *values, **options):
        """Return an optimizer, variables with the given values, and their `linear_step`."""
        optimizer = self.optimizer(**options)
        variables = [self.variable(value) for value in values]
        return optimizer, *variables, self.linear_step(optimizer, variables)

    def linear_step(self, optimizer, variables):
        """Return a step function whose arguments are the gradients of the variables."""
        step = families.STYLES[self.style]
        self.prepare(optimizer, variables)

        def replica_step(*gradients):
            def loss():
                products = [tf.reduce_sum(v * g) for v, g in zip(variables, gradients)]
                return tf.add_n([tf.cast(product, tf.float32) for product in products])

            step(optimizer, loss, variables)

        return self.fed(replica_step, *(v.dtype for v in variables))

    def bare_step(self, optimizer, variable):
        """Return a step function that applies its argument with a bare optimizer."""

        def replica_step(gradient):
            # Keras 3's sum needs the replica's device. Only the product has this device.
            optimizer.apply_gradients([(gradient * 1.0, variable)])

        return self.fed(replica_step)


def check_state(optimizer, *, scale, count, iterations):
    """Assert the loss scale, the count of finite steps in a row, and the iterations."""
    scale_variable = optimizer.loss_scale_state._current_loss_scale
    got = {
        "scale": set(map(float, families.copies(scale_variable))),
        "count": set(families.copies(optimizer.dynamic_counter)),
        "iterations": set(families.copies(optimizer.iterations)),
    }
    assert got == {"scale": {scale}, "count": {count}, "iterations": {iterations}}, got


def check_equal(variable, expected, exact=True):
    for value in families.copies(variable):
        if exact:
            np.testing.assert_array_equal(value, np.asarray(expected, value.dtype))
        else:
            np.testing.assert_allclose(value, expected, rtol=1e-6)
