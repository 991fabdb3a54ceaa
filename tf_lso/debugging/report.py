"""The report of one pass: what users read, print and plot."""

import dataclasses
import html
import os
import textwrap
from typing import Any

from tf_lso.debugging import advice, statistics

_WIDTH = 79  # of the paragraphs; a row of a table is one line

# The headings of the tables. The name of a row is its first cell and is printed last.
_LAYERS = ("Layer", "dtype", "input", "output", "inf, NaN")
_GRADIENTS = ("gradient", "scaled", "inf, NaN", "lost at 1", "lost")
_VARIABLES = ("Variable", "value", *_GRADIENTS)
_KEY = (
    'The numbers are the largest finite magnitudes, or "-" where no value is finite. '
    '"lost" is the share of the gradient\'s values that become 0 at the loss scale, but '
    'are not 0 at the largest scale that fits; "lost at 1" is the same in float16 without '
    "a loss scale."
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


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """One call of a layer.

    Attributes:
      layer: str, its name.
      path: str, the names of the layers around it and its own, "outer/inner".
      call: int, which call of this layer it is; 1 is the first.
      dtype: str, of its first floating-point output; None if it has none.
      inputs: `Values` of all its floating-point inputs, in the layer's dtype.
      outputs: `Values` of all its floating-point outputs.
      gradient: `Gradient` with respect to its first output; None where training computes
        none.
    """

    layer: str
    path: str
    call: int
    dtype: str | None
    inputs: statistics.Values
    outputs: statistics.Values
    gradient: statistics.Gradient | None

    @property
    def title(self) -> str:
        """The path, with the number of the call from the second call on."""
        return self.path if self.call == 1 else f"{self.path} (call {self.call})"


@dataclasses.dataclass(frozen=True)
class VariableGradient:
    """One variable.

    Attributes:
      name: str, its path.
      layer: str, the path of the innermost called layer that has it, or None.
      values: `Values` of the variable itself.
      gradient: `Gradient`, None where the loss does not depend on the variable.
    """

    name: str
    layer: str | None
    values: statistics.Values
    gradient: statistics.Gradient | None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """What `explain` found. Print it, or let a notebook show it.

    Attributes:
      first: `First`, the first place of trouble.
      loss: float, before scaling.
      loss_scale: float, the scale of the backward pass.
      fitting_scale: float, the largest scale, `loss_scale` times a power of two, at which
        all gradients of this batch are finite. None if there is none.
      layers: list of `LayerCall`, in the order of the pass.
      variables: list of `VariableGradient`.
    """

    first: First
    loss: float
    loss_scale: float
    fitting_scale: float | None
    layers: list[LayerCall]
    variables: list[VariableGradient]

    def __str__(self) -> str:
        blocks = ["\n".join(textwrap.fill(part, _WIDTH) for part in self._head())]
        blocks.append(_table(_LAYERS, map(_layer_row, self.layers)))
        if self.variables:  # there are none where all layers are frozen
            blocks.append(_table(_VARIABLES, map(_variable_row, self.variables)))
        return "\n\n".join([*blocks, textwrap.fill(_KEY, _WIDTH)])

    def _head(self):
        """Return the paragraphs above the tables."""
        scale = f"Loss {self.loss:.4g}. Loss scale {self.loss_scale:g}."
        if self.fitting_scale is not None:
            scale += f" Up to {self.fitting_scale:g} fits this batch."
        return f"First: {advice.place_of(self.first)}.", self.first.message, scale

    def __repr__(self) -> str:
        return (
            f"<Report: {advice.place_of(self.first)}, loss scale {self.loss_scale:g}, "
            f"{len(self.layers)} layer calls, {len(self.variables)} variables>"
        )

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the magnitudes of all values against the range of float16.

        Each layer and each variable is a row. The left panel shows the log2 magnitudes of
        a layer's outputs or a variable's values, the right panel those of the gradient,
        without and with the loss scale. The column "inf, NaN" shows the share of these.

        Args:
          path: str or path, a file whose suffix matplotlib knows, such as ".png".

        Returns:
          Without a path the figure of matplotlib, which a notebook shows. Else None.

        Raises:
          ImportError: if matplotlib is not installed.

        Source: figure 3 of Micikevicius et al., "Mixed Precision Training", 2018.
        """
        from tf_lso.debugging import plot

        return plot.draw(self, path)


def _table(heading, rows):
    """Return a table as text. With the name last, no name is cut or moves a column."""
    return "\n".join(
        "".join(f"{cell:>10} " for cell in cells) + name
        for name, *cells in (heading, *rows)
    )


def _layer_row(row):
    dtype, nonfinite = row.dtype or "", _share(row.outputs.nonfinite)
    return row.title, dtype, _largest(row.inputs), _largest(row.outputs), nonfinite


def _variable_row(row):
    gradient = row.gradient
    if gradient is None:
        return row.name, _largest(row.values), "none", "", "", "", ""
    return (
        row.name,
        _largest(row.values),
        _largest(gradient.unscaled),
        _largest(gradient.at_scale),
        _share(gradient.at_scale.nonfinite),
        _share(gradient.lost_without_scaling),
        _share(gradient.lost),
    )


def _largest(values):
    return "-" if values.nonfinite == 1 else f"{values.largest:.3g}"


def _share(share):
    return f"{100 * share:.3g} %"
