"""The setting of a contract case: family, protocol, strategy and mode."""

import contextlib
import dataclasses
import typing

import numpy as np
import tensorflow as tf

from tests import families


@dataclasses.dataclass
class Setting:
    """One combination for which the contract must hold.

    The methods make optimizers, variables and steps for this combination.

    Attributes:
      family: the name of the optimizer family.
      style: the protocol of the step, "legacy" or "keras3".
      mode: "eager", "function" or "jit".
      strategy: a tf.distribute.Strategy, or None for no strategy.
      api: the class of the wrapper, "stable" or "experimental".
      built: whether a case makes the optimizer's variables before its first step. If not, the
        first step makes the variables. Such a step is traced twice, and tracing takes most of
        the time.
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
        """Return an optimizer with a loss scale. See `families.wrapped`."""
        kwargs |= {"scale": scale, "growth": growth, "api": self.api}
        with self.scope():
            return families.wrapped(self.family, name, *args, **kwargs)

    def bare_optimizer(self, name="SGD", *args, **kwargs):
        """Return an optimizer without a loss scale. The default learning rate is 0.1."""
        optimizer_class = getattr(families.FAMILIES[self.family], name)
        with self.scope():
            return optimizer_class(*args or (0.1,), **kwargs)

    def build(self, optimizer, variables):
        """Make the optimizer's variables now."""
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

    def distributed(self, replica_fn):
        """Return a function of per-replica tensors that runs `replica_fn` on all replicas.

        The mode decides whether the function is traced and compiled.
        """

        def run(*args):
            if self.strategy is None:
                return replica_fn(*args)
            return self.strategy.run(replica_fn, args=args)

        if self.mode == "eager":
            return run
        return tf.function(run, jit_compile=self.mode == "jit" or None)

    def step_function(self, replica_fn, *dtypes):
        """Return a function of Python values that runs `replica_fn` on all replicas.

        Each argument is either a list with one value for each replica, or one value for all
        replicas. `replica_fn` gets a tensor for each argument. The default of `dtypes`, the
        dtypes of the tensors, is one float32.
        """
        run, dtypes = self.distributed(replica_fn), dtypes or (tf.float32,)

        def step(*values):
            pairs = zip(values, dtypes, strict=True)
            return run(*(self.per_replica(value, dtype) for value, dtype in pairs))

        return step

    def per_replica(self, values, dtype=tf.float32):
        """Return a per-replica tensor from a list of values, or from one value for all."""
        if not isinstance(values, list):
            values = [values] * self.replicas
        tensors = [tf.constant(value, dtype) for value in values]
        if self.strategy is None:
            return tensors[0]
        return families.per_replica(self.strategy, tensors)

    def on_last_replica(self, value, others):
        """Return a list with `value` for the last replica and `others` for the others."""
        return [others] * (self.replicas - 1) + [value]

    def local_results(self, value):
        """Return a list of the values that a step returned on the local replicas."""
        if self.strategy is None:
            return [value]
        return list(self.strategy.experimental_local_results(value))

    def linear_training(self, *values, **options):
        """Return an optimizer, variables with these values, and their `linear_step`.

        The options are arguments of `optimizer`.
        """
        optimizer = self.optimizer(**options)
        variables = [self.variable(value) for value in values]
        return optimizer, *variables, self.linear_step(optimizer, variables)

    def linear_step(self, optimizer, variables):
        """Return a step function whose arguments are the gradients of the variables.

        The loss is linear, the sum of all products of a variable and its gradient.
        """
        take_step = families.STYLES[self.style]
        self.prepare(optimizer, variables)

        def replica_step(*gradients):
            def loss():
                products = [tf.reduce_sum(v * g) for v, g in zip(variables, gradients)]
                return tf.add_n([tf.cast(product, tf.float32) for product in products])

            take_step(optimizer, loss, variables)

        return self.step_function(replica_step, *(v.dtype for v in variables))

    def bare_step(self, optimizer, variable):
        """Return a step function that applies its argument with a bare optimizer."""

        def replica_step(gradient):
            # Keras 3 sums only tensors that are on the device of their replica. The product
            # is on this device, but the argument is not.
            optimizer.apply_gradients([(gradient * 1.0, variable)])

        return self.step_function(replica_step)


def check_state(optimizer, *, scale, count, iterations):
    """Check the loss scale, the count of finite steps in a row, and the iterations.

    All local replicas must have the same values.
    """
    scale_variable = optimizer.loss_scale_state._current_loss_scale
    got = {
        "scale": set(map(float, families.copies(scale_variable))),
        "count": set(families.copies(optimizer.dynamic_counter)),
        "iterations": set(families.copies(optimizer.iterations)),
    }
    assert got == {"scale": {scale}, "count": {count}, "iterations": {iterations}}, got


def check_equal(variable, expected):
    """Check that the variable has exactly this value on all local replicas."""
    for value in families.copies(variable):
        np.testing.assert_array_equal(value, np.asarray(expected, value.dtype))


def check_close(variable, expected):
    """Check that the variable has about this value on all local replicas."""
    for value in families.copies(variable):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
