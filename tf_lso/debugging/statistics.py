"""Numbers about the values of tensors."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of one or several tensors.

    Attributes:
      size: int, how many values there are.
      largest: float, the largest magnitude of the finite values, 0 if there are none.
      smallest: float, the smallest magnitude of them apart from 0, 0 if there are none.
      infinite: int, how many values are inf or -inf.
      nan: int, how many values are NaN.
    """

    size: int
    largest: float
    smallest: float
    infinite: int
    nan: int

    @property
    def nonfinite(self) -> float:
        """The share of values that are inf or NaN."""
        return (self.infinite + self.nan) / self.size if self.size else 0.0

    @property
    def kinds(self) -> str:
        """Which values are not finite: "inf", "NaN" or "inf and NaN"."""
        found = [("inf", self.infinite), ("NaN", self.nan)]
        return " and ".join(name for name, count in found if count)


def values_of(tensors):
    """Return the `Values` of tensors or variables together; ignores integers."""
    floating = [one for one in tensors if one.dtype.is_floating]
    parts = [tf.cast(one, tf.float32).numpy().ravel() for one in floating]
    flat = np.concatenate([np.zeros(0, np.float32), *parts])
    magnitudes = np.abs(flat[np.isfinite(flat)])
    positive = magnitudes[magnitudes > 0]
    return Values(
        size=flat.size,
        largest=float(magnitudes.max(initial=0)),
        smallest=float(positive.min()) if positive.size else 0.0,
        infinite=int(np.isinf(flat).sum()),
        nan=int(np.isnan(flat).sum()),
    )
