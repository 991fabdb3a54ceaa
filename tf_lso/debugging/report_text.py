"""A report as text and as HTML."""

import textwrap
from html import escape

from tf_lso.debugging import advice

_WIDTH = 79  # of the paragraphs; a row of a table is one line

_LAYERS, _VARIABLES = "Output of layer", "Gradient of variable"
_LAYER_COLUMNS = ("dtype", "largest", "nonfinite")
_VARIABLE_COLUMNS = ("largest", "scaled", "nonfinite", "0 without", "0 with", "room")
_KEY = (
    'Gradients are unscaled but for the column "scaled". "0 without" and "0 with": the '
    "share that is 0 in float16 without and with the loss scale, with those that are 0 "
    "already, as behind a ReLU that is off, which no scale changes. "
    '"room": the power of two by which it could still be scaled.'
)


def text(report):
    """Return a report as text."""
    blocks = ["\n".join(textwrap.fill(part, _WIDTH) for part in _head(report))]
    blocks += [_text_table(*table) for table in _tables(report)]
    if report.variables:
        blocks.append(textwrap.fill(_KEY, _WIDTH))
    return "\n\n".join(blocks)


def html(report):
    """Return a report as HTML, for notebooks."""
    blocks = [f"<p>{escape(part)}</p>" for part in _head(report)]
    blocks += [_html_table(*table) for table in _tables(report)]
    if report.variables:
        blocks.append(f"<p>{escape(_KEY)}</p>")
    return "\n".join(blocks)


def _text_table(title, columns, rows):
    # The names come last: no name is cut, and a long one moves no column.
    lines = [[*columns, title], *([*cells, name] for name, *cells in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)][:-1]
    return "\n".join(
        "  ".join([*map(str.rjust, cells, widths), name]) for *cells, name in lines
    )


def _html_table(title, columns, rows):
    lines = ["".join(f"<th>{escape(one)}</th>" for one in (title, *columns))]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


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
    """Yield a title, the headings of the columns, and rows that begin with a name."""
    if report.layers:
        yield _LAYERS, _LAYER_COLUMNS, [_layer(row) for row in report.layers]
    if report.variables:
        rows = _without_common_part([_variable(row) for row in report.variables])
        yield _VARIABLES, _VARIABLE_COLUMNS, rows


def _layer(row):
    name = row.path if row.call == 1 else f"{row.path} (call {row.call})"
    values = row.outputs
    largest = _largest(values.largest, values)
    return [name, row.dtype or "", largest, _share(values.nonfinite)]


def _variable(row):
    gradient = row.gradient
    if gradient is None:
        return [row.name, "none", "", "", "", "", ""]
    return [
        row.name,
        _largest(gradient.largest, gradient.at_scale),
        _largest(gradient.largest_at_scale, gradient.at_scale),
        _share(gradient.at_scale.nonfinite),
        _share(gradient.zero_without_scaling),
        _share(gradient.zero_with_scaling),
        "" if gradient.headroom is None else f"2**{gradient.headroom}",
    ]


def _largest(magnitude, values):
    # No value is finite, at this scale or any other.
    return f"{magnitude:.3g}" if magnitude or not values.nan + values.infinite else "-"


def _without_common_part(rows):
    """Leave out the name of the model, with which all paths of Keras 3 begin."""
    first = rows[0][0].partition("/")[0] + "/"
    if not all(row[0].startswith(first) and row[0].count("/") > 1 for row in rows):
        return rows
    return [[row[0].removeprefix(first), *row[1:]] for row in rows]


def _share(share):
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{100 * share:.3g} %"
