"""The picture of a report: the magnitudes of all values, against the range of float16."""

import io

from tf_lso.frameworks import environment

_BARS = {"color": "#0072B2", "zorder": 3, "fill": True, "alpha": 0.55}
_TROUBLE = "#B00020"

OVERFLOW = 16  # the power of two at which float16 ends
_ZERO, _NORMAL = -25, -14  # what is smaller is rounded to 0, or is subnormal
_LOWEST, _HIGHEST = -30, OVERFLOW + 6  # always shown
_COLUMN = 6  # the width, in powers of two, of the column for inf and NaN at the right
_RANGES = (  # name, the powers of two between which it lies, color of the background
    ("0 in float16", None, _ZERO, "#d9d9d9"),
    ("subnormal", _ZERO, _NORMAL, "#f0f0f0"),
    ("normal", _NORMAL, OVERFLOW, "#ffffff"),
    ("overflow", OVERFLOW, None, "#f7d9d0"),
)


def draw(report, path=None):
    """Draw a report into a file or a figure, see `Report.plot`."""
    environment.require(
        "matplotlib",
        "A plot needs the package matplotlib, which is not installed: "
        "`pip install matplotlib`, or `pip install 'tf-lso[plot]'`.",
    )
    # A figure without pyplot has no global state and opens no window.
    from matplotlib import figure

    class Picture(figure.Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self):
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=self.dpi)
            return file.getvalue()

    rows = [*report.layers, *report.variables]
    size = (13, 2 + min(0.5 * len(rows), 100))  # matplotlib refuses 2**16 pixels
    picture = Picture(figsize=size, layout="constrained")
    picture.suptitle(f"First: {report.first.title}", x=0.01, ha="left")
    left, right = picture.subplots(1, 2, sharey=True)
    _draw_panel(left, [row.values for row in rows])
    left.set_xlabel("log2 of the magnitude of outputs and variables")
    _draw_panel(right, [row.gradient for row in rows])
    scale = f"{report.loss_scale:g}"
    right.set_xlabel(f"log2 of the magnitude of gradients at the loss scale {scale}")
    left.set_yticks(range(len(rows)), [_end(row.name) for row in rows], va="bottom")
    for label, row in zip(left.get_yticklabels(), report.layers):
        if row.layer == report.first.path:
            label.set(color=_TROUBLE, weight="bold")
    left.set_ylim(len(rows) - 0.9, -1)
    if path is None:
        return picture
    picture.savefig(path, dpi=120)
    return None


def _draw_panel(axes, rows):
    """Draw for each row its `Values`, which are None for a gradient that does not exist."""
    drawn = [power for values in rows if values for power in values.exponents]
    low, high = min([_LOWEST, *drawn]) - 1, max([_HIGHEST, *drawn]) + 2
    _draw_ranges(axes, low, high)
    for position, values in enumerate(rows):
        if values is None or not values.size:
            axes.annotate("none", (low + 1, position - 0.1))
        elif not (values.exponents or values.nonfinite):
            axes.annotate("all 0", (low + 1, position - 0.1))
        else:
            _draw_row(axes, position, values, high)
    axes.set_xlim(low, high + _COLUMN)


def _draw_row(axes, position, values, high):
    """Draw the finite values of one row, and at the right the share of inf and NaN."""
    if exponents := values.exponents:
        edges = range(min(exponents), max(exponents) + 2)
        most = max(exponents.values())
        heights = [position - 0.85 * exponents.get(p, 0) / most for p in edges[:-1]]
        axes.stairs(heights, edges, baseline=position, **_BARS)
    if values.nonfinite:
        edges = (high + 1, high + _COLUMN - 1)
        height = position - 0.85 * values.nonfinite
        axes.stairs([height], edges, baseline=position, **_BARS)


def _draw_ranges(axes, low, high):
    """Draw the ranges of float16 as the background, and the column for inf and NaN."""
    top = axes.get_xaxis_transform()
    column = ("inf, NaN", high, high + _COLUMN, "#f0b8a8")
    for name, begin, end, color in (*_RANGES, column):
        begin = low if begin is None else begin
        end = high if end is None else end
        axes.axvspan(begin, end, color=color, zorder=0)
        axes.text((begin + end) / 2, 1.01, name, transform=top, ha="center", fontsize=9)


def _end(name):
    """Return the end of a path, which says more than its beginning."""
    return name if len(name) <= 32 else f"...{name[-29:]}"
