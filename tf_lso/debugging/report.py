"""Define the report of `explain`, which users can read, print and plot."""

import dataclasses
import os
import textwrap
from typing import Any

from tf_lso.debugging import statistics

# The width of paragraphs. The table may be wider.
_WIDTH = 79
# The first column is printed last, so that long names do not shift the other columns.
_HEADING = (
    *("Layer or variable", "dtype", "input", "value", "inf, NaN"),
    *("gradient", "inf, NaN", "lost"),
)
_KEY = (
    "The numbers are the largest finite magnitudes of a layer's inputs, of its outputs or "
    'the variable, and of the gradient at the loss scale, or "-" where no value is finite. '
    '"lost" is the share of the gradient\'s values that become 0 at the loss scale, but '
    "are not 0 at a larger scale that fits, or at 1 or less where they overflow."
)


@dataclasses.dataclass(frozen=True)
class First:
    """The first trouble that `explain` found.

    Attributes:
      kind: "input", "forward overflow", "forward nan", "backward overflow", "backward
        nan", "underflow", or None if nothing is wrong.
      layer: str, the name of the innermost layer that computed the bad value, or that
        received a bad gradient from the loss. None if the trouble is in the data or in the
        loss, or if nothing is wrong.
      path: str, the names of the outer layers and of `layer`, such as "outer/inner". None if
        `layer` is None.
      message: str, a text that describes the trouble and says what to do.
    """

    kind: str | None
    layer: str | None
    path: str | None
    message: str

    @property
    def title(self) -> str:
        """A short description of the trouble, such as "forward overflow in layer 'dense'"."""
        where = f" in layer '{self.layer}'" if self.layer else ""
        return (self.kind or "nothing is wrong") + where


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a report: statistics of one call of a layer, or of one variable.

    Attributes:
      name: str, the path of the layer, such as "outer/inner", or the path of the variable.
      layer: str, the path of the layer. For a variable, the path of the innermost layer
        that has this variable.
      dtype: str, the dtype of the values. None if they are not floating-point.
      inputs: `Values` of all inputs of the layer, after Keras has cast the inputs to the
        layer's dtype. None for a variable.
      values: `Values` of all outputs of the layer, or of the variable.
      gradient: `Values` of the gradient of the scaled loss with respect to the first output
        or the variable. None if training computes no such gradient.
      lost: float, the share of the gradient's nonzero values that become 0 at the loss
        scale. A value counts as nonzero if it is not 0 at a larger loss scale that fits. If
        gradients overflow at the loss scale, a scale of at most 1 is used instead.
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
    """The result of `explain`. Print it, call its `plot`, or read its attributes.

    Attributes:
      first: `First`, the first trouble.
      loss: float, the loss before scaling.
      loss_scale: float, the loss scale of the backward pass.
      fitting_scale: float, approximately the largest loss scale at which the gradients of
        this batch fit into float16, computed from the largest gradient. None if unknown.
      layers: list of a `Row` for each call of a layer, in the order of the forward pass.
      variables: list of a `Row` for each trainable variable.
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
        """Draw the magnitudes of all values next to the range of float16.

        The plot has a row for each call of a layer and for each variable. The left panel
        shows the range of the log2 magnitudes of the layer's outputs or the variable's
        values. The right panel shows this range for the gradient of the scaled loss. The
        column "inf, NaN" shows the share of values that are not finite.

        Args:
          path: str or path, the file to write, with a suffix that matplotlib knows, such as
            ".png". Defaults to None, which writes no file.

        Returns:
          The figure of matplotlib if `path` is None, otherwise None.

        Raises:
          ImportError: if matplotlib is not installed.

        Source: figure 3 of Micikevicius et al., "Mixed Precision Training", 2018.
        """
        from tf_lso.debugging import plot

        return plot.draw(self, path)


def _cells(row):
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
