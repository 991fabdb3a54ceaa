"""The report of one pass: what users read, print and plot."""

import dataclasses
import os
import textwrap
from typing import Any

from tf_lso.debugging import statistics

_WIDTH = 79  # of the paragraphs; a row of the table is one line

# The name of a row is its first cell and is printed last: no name is cut or moves a column.
_HEADING = (
    *("Layer or variable", "dtype", "input", "value", "inf, NaN"),
    *("gradient", "inf, NaN", "lost"),
)
_KEY = (
    "The numbers are the largest finite magnitudes of a layer's inputs, of its outputs or "
    'the variable, and of the gradient at the loss scale, or "-" where no value is finite. '
    '"lost" is the share of the gradient\'s values that become 0 at the loss scale, but '
    "are not 0 at a larger scale that fits, or at 1 where they overflow."
)


@dataclasses.dataclass(frozen=True)
class First:
    """The first place of trouble.

    Attributes:
      kind: "input", "forward overflow", "forward nan", "backward overflow", "backward
        nan", "underflow", or None where nothing is wrong.
      layer: str, the name of the innermost layer that computed the value, or that
        received it from the loss as a gradient. None if the trouble is in the data or
        in the loss, or if nothing is wrong.
      path: str, the names of the layers around it and its own, "outer/inner", or None.
      message: str, what kind of trouble it is and what to do.
    """

    kind: str | None
    layer: str | None
    path: str | None
    message: str

    @property
    def title(self) -> str:
        """The kind of trouble and its layer."""
        where = f" in layer '{self.layer}'" if self.layer else ""
        return (self.kind or "nothing is wrong") + where


@dataclasses.dataclass(frozen=True)
class Row:
    """One call of a layer, or one variable.

    Attributes:
      name: str, the path of the layer, "outer/inner", and the number of the call from the
        second one on; or the path of the variable.
      layer: str, the path of the layer; for a variable the innermost that has it.
      dtype: str, of the values; None if they are not floating-point.
      inputs: `Values` of all inputs of the layer, in its dtype; None for a variable.
      values: `Values` of all outputs of the layer, or of the variable.
      gradient: `Values` of the gradient at the loss scale with respect to the first output
        or the variable; None where training computes none.
      lost: float, the share of the gradient's values that are 0 at the loss scale, but not
        at a larger scale that fits, or at 1 where they overflow.
    """

    name: str
    layer: str
    dtype: str | None
    inputs: statistics.Values | None
    values: statistics.Values
    gradient: statistics.Values | None
    lost: float


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """What `explain` found. Print it.

    Attributes:
      first: `First`, the first place of trouble.
      loss: float, before scaling.
      loss_scale: float, the scale of the backward pass.
      fitting_scale: float, about the largest scale at which the gradients of this batch
        fit into float16, computed from the largest of them. None where it is not known.
      layers: list of `Row`, the calls of layers in the order of the pass.
      variables: list of `Row`.
    """

    first: First
    loss: float
    loss_scale: float
    fitting_scale: float | None
    layers: list[Row]
    variables: list[Row]

    def __str__(self) -> str:
        scale = f"Loss {self.loss:.4g}. Loss scale {self.loss_scale:g}."
        if self.fitting_scale is not None:
            scale += f" Up to about {self.fitting_scale:g} fits this batch."
        head = f"First: {self.first.title}.", self.first.message, scale
        rows = [_HEADING, *map(_cells, [*self.layers, *self.variables])]
        blocks = (
            "\n".join(textwrap.fill(part, _WIDTH) for part in head),
            "\n".join("".join(f"{c:>10} " for c in row[1:]) + row[0] for row in rows),
            textwrap.fill(_KEY, _WIDTH),
        )
        return "\n\n".join(blocks)

    def __repr__(self) -> str:
        return (
            f"<Report: {self.first.title}, loss scale {self.loss_scale:g}, "
            f"{len(self.layers)} layer calls, {len(self.variables)} variables>"
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the magnitudes of all values against the range of float16.

        Each layer and each variable is a row. The left panel shows from which to which
        log2 magnitude a layer's outputs or a variable's values reach, the right panel the
        same of the gradient at the loss scale. The column "inf, NaN" shows the share of
        these.

        Args:
          path: str or path, a file whose suffix matplotlib knows, such as ".png".

        Returns:
          Without a path the figure of matplotlib. Else None.

        Raises:
          ImportError: if matplotlib is not installed.

        Source: figure 3 of Micikevicius et al., "Mixed Precision Training", 2018.
        """
        from tf_lso.debugging import plot

        return plot.draw(self, path)


def _cells(row):
    """Return the cells of a row of the table."""
    values = _largest(row.values), _share(row.values.nonfinite)
    gradient = ("none", "", "")
    if row.gradient is not None:
        nonfinite, lost = _share(row.gradient.nonfinite), _share(row.lost)
        gradient = _largest(row.gradient), nonfinite, lost
    inputs = "" if row.inputs is None else _largest(row.inputs)
    return row.name, row.dtype or "", inputs, *values, *gradient


def _largest(values):
    return "-" if values.nonfinite == 1 else f"{values.largest:.3g}"


def _share(share):
    return f"{100 * share:.3g} %"
