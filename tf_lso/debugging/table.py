"""A report as text that fits a terminal."""

import shutil
import textwrap
from html import escape

from tf_lso.debugging import advice

_NARROWEST_NAME = 14


def text(report):
    """Return a report as lines no longer than the terminal is wide."""
    # The last column stays free: some terminals wrap a line that fills it.
    width = max(36, shutil.get_terminal_size().columns - 1)
    blocks = ["\n".join(textwrap.fill(part, width) for part in _head(report))]
    if report.layers:
        rows = [_layer(row) for row in report.layers]
        blocks.append(_table(_LAYERS, _LAYER_COLUMNS, rows, width))
    if report.variables:
        rows = _without_common_part([_variable(row) for row in report.variables])
        blocks.append(_table(_VARIABLES, _VARIABLE_COLUMNS, rows, width))
        blocks.append(textwrap.fill(_KEY, width))
    return "\n\n".join(blocks)


def html(report):
    """Return a report as HTML, for notebooks."""
    blocks = [f"<p>{escape(part)}</p>" for part in _head(report)]
    if report.layers:
        rows = [_layer(row) for row in report.layers]
        blocks.append(_html_table(_LAYERS, _LAYER_COLUMNS, rows))
    if report.variables:
        rows = _without_common_part([_variable(row) for row in report.variables])
        blocks.append(_html_table(_VARIABLES, _VARIABLE_COLUMNS, rows))
        blocks.append(f"<p>{escape(_KEY)}</p>")
    return "\n".join(blocks)


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


_LAYERS, _VARIABLES = "Output of layer", "Gradient of variable"
_KEY = (
    'Gradients are unscaled but for the column "scaled". "0 without" and "0 with": the '
    "share that is 0 in float16 without and with the loss scale, with those that are 0 "
    "already, as behind a ReLU that is off, which no scale changes. "
    '"room": the power of two by which it could still be scaled.'
)

# Heading -> the order in which a narrow terminal leaves columns out, 0 is never.
_LAYER_COLUMNS = {"dtype": 1, "largest": 0, "nonfinite": 0}
_VARIABLE_COLUMNS = {
    "largest": 0,
    "scaled": 1,
    "nonfinite": 0,
    "0 without": 2,
    "0 with": 3,
    "room": 4,
}


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


def _table(title, columns, rows, width):
    columns = dict(columns)
    rows = [dict(zip(["", *columns], row)) for row in rows]
    widths = {
        name: max([len(name), *(len(row[name]) for row in rows)]) for name in columns
    }
    while sum(widths.values()) + 2 * len(widths) + _NARROWEST_NAME > width:
        soonest = [name for name in widths if columns[name]]
        if not soonest:
            break
        del widths[min(soonest, key=columns.get)]
    longest = max([len(title), *(len(row[""]) for row in rows)])
    room = width - sum(widths.values()) - 2 * len(widths)
    name_width = min(longest, max(_NARROWEST_NAME, room))
    head = {"": title, **{name: name for name in widths}}
    return "\n".join(_line(row, name_width, widths) for row in [head, *rows])


def _line(row, name_width, widths):
    cells = [shortened(row[""], name_width).ljust(name_width)]
    cells += [row[key].rjust(width) for key, width in widths.items()]
    return "  ".join(cells).rstrip()


def shortened(name, room):
    """Return the end of a path, which says more than its beginning."""
    return name if len(name) <= room else f"...{name[len(name) - room + 3 :]}"
