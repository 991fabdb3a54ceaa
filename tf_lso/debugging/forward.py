"""Where the forward pass first computes a value that is not finite, and in which operation."""

import contextlib
import dataclasses
import re
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Trouble:
    """The first value of a forward pass that is not finite.

    Attributes:
      call: `observe.Call`, the call to blame.
      place: "cast" where the input became inf when Keras cast it to the layer's dtype,
        "code" between the layers that this one calls, "output" of the layer.
      operation: str or None, the TensorFlow operation that computed the value.
      values: `Values`, those that are not all finite.
      is_overflow: bool, whether the first such value was inf, or else NaN.
    """

    call: Any
    place: str
    operation: str | None
    values: Any
    is_overflow: bool


def trouble_of(moments):
    """Return the `Trouble` of a forward pass, None if all values are finite."""
    for call, begins in moments:
        values = call.input_values if begins else call.output_values
        if values.nonfinite:
            return _located(call, begins, values)
    return None


def _located(call, begins, values):
    if begins and call.parent is None:
        # The data is finite, so that only the cast to the model's dtype is left.
        return Trouble(call, "cast", "Cast", values, True)
    suspect = call.parent if begins else call
    operation, is_inf = _first_nonfinite_operation(suspect)
    # Inf leads to NaN and not the other way round: NaN after inf is an overflow. A softmax
    # makes NaN of it before the layer returns.
    is_overflow = is_inf or values.infinite > 0
    if begins and operation == "Cast":
        return Trouble(call, "cast", operation, values, is_overflow)
    place = "code" if begins else "output"
    return Trouble(suspect, place, operation, values, is_overflow)


def _first_nonfinite_operation(call):
    """Call a layer again; return the first operation whose result is not finite.

    Returns:
      The name of the operation or None, and whether the result was inf.
    """
    args, kwargs = call.arguments
    with contextlib.ExitStack() as undo:
        tf.debugging.enable_check_numerics()
        undo.callback(tf.debugging.disable_check_numerics)
        try:
            call.layer(*args, **kwargs)
        except tf.errors.InvalidArgumentError as error:
            name = re.search(r'op "(\w+)" \(#', str(error))
            return name and name[1], "Inf elements" in str(error)
    return None, False
