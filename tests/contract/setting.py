"""Where a contract case runs: family, protocol, strategy and mode."""

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
      style: "legacy" or "keras3", which protocol the step uses.
      mode: "eager", "function" or "jit".
      strategy: a tf.distribute.Strategy, or None for none at all.
      api: "stable" or "experimental", which class wraps.
      built: whether a case makes the optimizer's variables before its first step. A
        function that makes them in its first call is traced twice, and most of the time
        is tracing.
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
        """Make the optimizer's variables now, where this setting does."""
        if self.built:
            self.build(optimizer, variables)

    def variable(self, value, dtype=tf.float32):
        with self.scope():
            return tf.Variable(tf.constant(value, dtype), name="x")

    def compiled(self, replica_fn):
        """`replica_fn` as this setting runs it: a callable of per-replica values."""

        def everywhere(*args):
            if self.strategy is None:
                return replica_fn(*args)
            return self.strategy.run(replica_fn, args=args)

        if self.mode == "eager":
            return everywhere
        return tf.function(everywhere, jit_compile=self.mode == "jit" or None)

    def fed(self, replica_fn, *dtypes):
        """`compiled`, of values of those dtypes as `feed` takes them."""
        step, dtypes = self.compiled(replica_fn), dtypes or (tf.float32,)
        return lambda *values: step(
            *(self.feed(*of) for of in zip(values, dtypes, strict=True))
        )

    def feed(self, by_replica, dtype=tf.float32):
        """A value for each replica: a list of one a replica, or a value for all."""
        if not isinstance(by_replica, list):
            by_replica = [by_replica] * self.replicas
        tensors = [tf.constant(value, dtype) for value in by_replica]
        if self.strategy is None:
            return tensors[0]
        return families.per_replica(self.strategy, tensors)

    def only_last(self, bad, good):
        """The value `good` on each replica but the last, which gets `bad`."""
        return [good] * (self.replicas - 1) + [bad]

    def local(self, value):
        """What a step returned on each local replica, a list."""
        if self.strategy is None:
            return [value]
        return list(self.strategy.experimental_local_results(value))

    def linear(self, *values, **options):
        """An optimizer, its variables with those values, and their `linear_step`."""
        optimizer = self.optimizer(**options)
        variables = [self.variable(value) for value in values]
        return optimizer, *variables, self.linear_step(optimizer, variables)

    def linear_step(self, optimizer, variables):
        """A step whose gradients are its arguments, one a variable."""
        step = families.STYLES[self.style]
        self.prepare(optimizer, variables)

        def replica_step(*gradients):
            def loss():
                products = [tf.reduce_sum(v * g) for v, g in zip(variables, gradients)]
                return tf.add_n([tf.cast(product, tf.float32) for product in products])

            step(optimizer, loss, variables)

        return self.fed(replica_step, *(v.dtype for v in variables))

    def bare_step(self, optimizer, variable):
        """A step that applies its argument with a bare optimizer."""

        def replica_step(gradient):
            # The product has the replica's device, which Keras 3's sum needs.
            optimizer.apply_gradients([(gradient * 1.0, variable)])

        return self.fed(replica_step)


def check_state(optimizer, *, scale, count, iterations):
    """Assert the loss scale, the finite steps in a row, and the steps in all."""
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
