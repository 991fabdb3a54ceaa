"""A report as text and as HTML."""

import textwrap
from html import escape

from tf_lso.debugging import advice

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


def text(report):
    """Return a report as text."""
    blocks = ["\n".join(textwrap.fill(part, _WIDTH) for part in _head(report))]
    for table in _tables(report):
        # The names come last: no name is cut, and a long one moves no column.
        rows = ["".join(f"{cell:>10} " for cell in row) + name for name, *row in table]
        blocks.append("\n".join(rows))
    if report.variables:
        blocks.append(textwrap.fill(_KEY, _WIDTH))
    return "\n\n".join(blocks)


def html(report):
    """Return a report as HTML, for notebooks."""
    blocks = [f"<p>{escape(part)}</p>" for part in _head(report)]
    for heading, *rows in _tables(report):
        lines = [_html_row("th", heading), *(_html_row("td", row) for row in rows)]
        blocks.append(f"<table>{''.join(lines)}</table>")
    if report.variables:
        blocks.append(f"<p>{escape(_KEY)}</p>")
    return "\n".join(blocks)


def _html_row(tag, row):
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"


def _head(report):
    """Return the paragraphs above the tables."""
    first = report.first
    where = f" in layer '{first.layer}'" if first.layer else ""
    head = f"{first.kind}{where}" if first.kind else "nothing is wrong"
    scale = f"Loss scale {advice.number(report.loss_scale)} ({report.scale_from})."
    if report.fitting_scale is not None:
        scale += f" Up to {advice.number(report.fitting_scale)} fits this batch."
    if report.loss is not None:
        scale = f"Loss {report.loss:.4g}. {scale}"
    return [f"First: {head}.", first.message, scale]


def _tables(report):
    """Return tables: lists of rows, the headings first, that begin with a name."""
    tables = [
        [_LAYERS, *map(_layer, report.layers)],
        [_VARIABLES, *map(_variable, report.variables)],
    ]
    return [table for table in tables if len(table) > 1]


def _layer(row):
    name = row.path if row.call == 1 else f"{row.path} (call {row.call})"
    values = row.outputs
    largest = _largest(values.largest, values)
    return name, row.dtype or "", largest, _share(values.nonfinite)


def _variable(row):
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
    # No value is finite, at this scale or any other.
    return f"{magnitude:.3g}" if magnitude or not values.nonfinite else "-"


def _share(share):
    return f"{100 * share:.3g} %"
