"""The report of one pass: what users read, print and plot."""

import dataclasses
import html
import json
import os
import textwrap
from typing import Any

from tf_lso.debugging import advice, statistics

_WIDTH = 79  # of the paragraphs; a row of a table is one line

_LAYERS = ("Output of layer", "dtype", "largest", "nonfinite")
_GRADIENTS = ("largest", "scaled", "nonfinite", "0 without", "0 with", "room")
_VARIABLES = ("Gradient of variable", *_GRADIENTS)
_KEY = (
    'Gradients are unscaled but for the column "scaled". "0 without" and "0 with": the '
    "share that is 0 in float16 without and with the loss scale, with those that are 0 "
    "already, as behind a ReLU that is off, which no scale changes. "
    '"room": the power of two by which it could still be scaled.'
)


@dataclasses.dataclass(frozen=True)
class First:
    """The first place of trouble.

    Attributes:
      kind: "input", "forward overflow", "forward nan", "backward overflow", "backward
        nan", "underflow", or None where nothing is wrong.
      layer: str, the name of the innermost layer that made the value, or got it from the
        loss as a gradient. None in the data, in the loss, or where nothing is wrong.
      path: str, the layer with the layers that it stands in, "outer/inner", or None.
      message: str, what kind of trouble it is and what to do.
    """

    kind: str | None
    layer: str | None
    path: str | None
    message: str


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """One call of a layer.

    Attributes:
      layer: str, its name.
      path: str, with the layers that it stands in, "outer/inner".
      call: int, which call of this layer it is; 1 is the first.
      dtype: str, of its first output of floating point; None if it has none.
      outputs: `Values` of all its outputs of floating point.
      gradient: `Gradient` with respect to its outputs; None where training computes none.
    """

    layer: str
    path: str
    call: int
    dtype: str | None
    outputs: statistics.Values
    gradient: statistics.Gradient | None


@dataclasses.dataclass(frozen=True)
class VariableGradient:
    """One variable.

    Attributes:
      name: str, its path.
      layer: str, the path of the innermost called layer that has it, or None.
      gradient: `Gradient`, None where the loss does not depend on the variable.
    """

    name: str
    layer: str | None
    gradient: statistics.Gradient | None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """What `explain` found. Print it, or let a notebook show it.

    Attributes:
      first: `First`, the first place of trouble.
      loss: float, before scaling; None in a report of gradients alone.
      loss_scale: float, the scale of the backward pass.
      scale_from: str, where this scale comes from.
      fitting_scale: float, the largest scale, `loss_scale` times a power of two, at which
        all gradients of this batch are finite. None if there is none, or of gradients
        alone.
      layers: list of `LayerCall`, in the order of the pass.
      variables: list of `VariableGradient`.
    """

    first: First
    loss: float | None = None
    loss_scale: float
    scale_from: str
    fitting_scale: float | None = None
    layers: list[LayerCall] = dataclasses.field(default_factory=list)
    variables: list[VariableGradient]

    def __str__(self) -> str:
        blocks = ["\n".join(textwrap.fill(part, _WIDTH) for part in self._head())]
        layers = [_LAYERS, *map(_layer_row, self.layers)]
        variables = [_VARIABLES, *map(_variable_row, self.variables)]
        for heading, *rows in (layers, variables):
            if rows:
                # The names come last: no name is cut, and a long one moves no column.
                lines = [
                    "".join(f"{cell:>10} " for cell in row) + name
                    for name, *row in (heading, *rows)
                ]
                blocks.append("\n".join(lines))
        if self.variables:
            blocks.append(textwrap.fill(_KEY, _WIDTH))
        return "\n\n".join(blocks)

    def _head(self):
        """Return the paragraphs above the tables."""
        scale = f"Loss scale {advice.number(self.loss_scale)} ({self.scale_from})."
        if self.fitting_scale is not None:
            scale += f" Up to {advice.number(self.fitting_scale)} fits this batch."
        if self.loss is not None:
            scale = f"Loss {self.loss:.4g}. {scale}"
        return f"First: {advice.place(self.first)}.", self.first.message, scale

    def __repr__(self) -> str:
        return (
            f"<Report: {advice.place(self.first)}, loss scale {self.loss_scale:g}, "
            f"{len(self.layers)} layer calls, {len(self.variables)} variables>"
        )

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dicts, lists, numbers and strings, for JSON.

        Numbers that JSON lacks, inf and NaN, are None.
        """
        # JSON has only strings as keys, and constants for what is not finite.
        text = json.dumps(dataclasses.asdict(self))
        plain: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
        return plain

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw how large the gradients are, against the range of float16.

        For each layer the log2 magnitudes of the gradients of its outputs and weights,
        without the loss scale and with it.

        Args:
          path: str or path, a file whose suffix matplotlib knows, such as ".png".

        Returns:
          Without a path the figure of matplotlib, which a notebook shows. Else None.

        Raises:
          ImportError: if matplotlib is not installed.
          ValueError: if the report has no gradients.

        Source: figure 3 of Micikevicius et al., "Mixed Precision Training", 2018.
        """
        from tf_lso.debugging import report_plot

        return report_plot.draw(self, path)


# The rows of the tables: the name, then a text for each column.


def _layer_row(row):
    name = row.path if row.call == 1 else f"{row.path} (call {row.call})"
    largest = _largest(row.outputs.largest, row.outputs)
    return name, row.dtype or "", largest, _share(row.outputs.nonfinite)


def _variable_row(row):
    gradient = row.gradient
    if gradient is None:
        return row.name, "none", *[""] * 5
    return (
        row.name,
        _largest(gradient.largest, gradient.at_scale),
        _largest(gradient.largest_at_scale, gradient.at_scale),
        _share(gradient.at_scale.nonfinite),
        _share(gradient.zero_without_scaling),
        _share(gradient.zero_with_scaling),
        "" if gradient.headroom is None else f"2**{gradient.headroom}",
    )


def _largest(magnitude, values):
    # "-" where no value is finite, at this scale or any other.
    return f"{magnitude:.3g}" if magnitude or not values.nonfinite else "-"


def _share(share):
    return f"{100 * share:.3g} %"
