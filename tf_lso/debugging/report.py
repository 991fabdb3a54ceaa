"""The report of one pass: what users read, print and plot."""

import dataclasses
import math
import os
from typing import Any

from tf_lso.debugging import report_text, statistics


@dataclasses.dataclass(frozen=True)
class First:
    """The first place of trouble.

    Attributes:
      kind: "input", "forward overflow", "forward nan", "backward overflow", "backward
        nan", "underflow", or None where nothing is wrong.
      layer: str, the name of the innermost layer through which the value became what
        it is, or None: in the data, in the loss, or nothing is wrong. Where the loss
        gives a nonfinite gradient to the model, it is the layer that gets it.
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
      gradient: `Gradient` with respect to its outputs. None where training computes
        none, for instance below the first layer with weights.
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
      layer: str, the path of the innermost layer that has it; None if no layer that
        was called has it.
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
      fitting_scale: float, the largest scale at which all gradients of this batch are
        finite, `loss_scale` times a power of two. None if there is no such scale,
        or in a report of gradients alone.
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
        return report_text.text(self)

    def __repr__(self) -> str:
        where = f" in layer {self.first.layer!r}" if self.first.layer else ""
        return (
            f"<Report: {self.first.kind or 'nothing is wrong'}{where}, "
            f"loss scale {self.loss_scale:g}, {len(self.layers)} layer calls, "
            f"{len(self.variables)} variables>"
        )

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return report_text.html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dicts, lists, numbers and strings, for JSON.

        Numbers that JSON lacks, inf and NaN, are None.
        """
        return _plain(self)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw how large the gradients are, against the range of float16.

        For each layer the distribution of log2 of the magnitudes of the gradients of its
        outputs and weights, without the loss scale and with it, as in figure 3 of
        Micikevicius et al., "Mixed Precision Training", 2018.

        Args:
          path: str or path, a file whose suffix matplotlib knows, such as ".png".

        Returns:
          Without a path the figure of matplotlib, which a notebook shows. Else None.

        Raises:
          ImportError: if matplotlib is not installed.
          ValueError: if the report has no gradients.
        """
        from tf_lso.debugging import report_plot

        return report_plot.draw(self, path)


def _plain(value):
    if isinstance(value, statistics.Values):
        return {**vars(value), "nonfinite": value.nonfinite}
    if dataclasses.is_dataclass(value):
        return {name: _plain(part) for name, part in vars(value).items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):  # JSON has only strings as keys
        return {str(key): part for key, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
