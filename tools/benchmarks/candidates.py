"""The optimizers that are compared, each as two functions: scale a loss, and apply."""

from typing import Any, NamedTuple

import keras
import tf_keras

import tf_lso
from tools.benchmarks import choices, floor, replicas

_INNER = {
    "keras3": keras.optimizers,
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
}
_PEERS = {
    "keras3": keras.optimizers.LossScaleOptimizer,
    "legacy": tf_keras.mixed_precision.LossScaleOptimizer,
    "new": tf_keras.mixed_precision.LossScaleOptimizer,
}
# Far from overflow, and from denormal numbers, over any number of steps measured.
_LEARNING_RATE = 1e-4
_SCALE = 2.0**15


class Candidate(NamedTuple):
    """One that takes part.

    Attributes:
      optimizer: The optimizer.
      scale_loss: What to do to the loss, inside the tape.
      apply: What to do with the scaled gradients and the variables.
      note: What to say of it, or None.
    """

    optimizer: Any
    scale_loss: Any
    apply: Any
    note: str | None = None


def make(name, family, workload, variables, strategy, mode, gradients):
    """A new candidate, with its state made.

    Args:
      name: one of `choices.candidates_of(family)`.
      family: name of the optimizer family.
      workload: a Workload.
      variables: the variables to update.
      strategy: a strategy, or None.
      mode: name of the mode.
      gradients: a function that returns gradients, for the floor to try its checks on.
    """
    with replicas.scope(strategy):
        inner = _INNER[family].SGD(_LEARNING_RATE, momentum=workload.momentum)
        optimizer = _WRAPPERS[name](family, inner)
        # Before the first step: Keras 3's own cannot be built inside strategy.run.
        # The legacy optimizers of tf_keras have nothing to build.
        if hasattr(inner, "build"):
            inner.build(variables)
            if optimizer is not inner and hasattr(optimizer, "build"):
                optimizer.build(variables)
    if name == choices.BARE:
        return Candidate(optimizer, _unscaled, _plain(optimizer))
    if name == choices.FLOOR:
        check = floor.cheapest(mode, gradients())
        apply = floor.apply_with(check, mode, optimizer)
        return Candidate(optimizer, _unscaled, apply, check)
    if family == "keras3" and name != choices.LEGACY_PROTOCOL:
        return Candidate(optimizer, optimizer.scale_loss, _plain(optimizer))
    return Candidate(optimizer, optimizer.get_scaled_loss, _unscaling(optimizer))


def _ours(family, inner):
    return tf_lso.LossScaleOptimizer(inner, initial_scale=_SCALE)


_WRAPPERS = {
    choices.BARE: lambda family, inner: inner,
    choices.FLOOR: lambda family, inner: inner,
    choices.PEER: lambda family, inner: _PEERS[family](inner, initial_scale=_SCALE),
    choices.OURS: _ours,
    choices.LEGACY_PROTOCOL: _ours,
    choices.FIXED: lambda family, inner: tf_lso.LossScaleOptimizer(
        inner, dynamic=False, initial_scale=_SCALE
    ),
}


def _unscaled(loss):
    return loss


def _plain(optimizer):
    def apply(gradients, variables):
        optimizer.apply_gradients(zip(gradients, variables))

    return apply


def _unscaling(optimizer):
    def apply(gradients, variables):
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, variables))

    return apply
