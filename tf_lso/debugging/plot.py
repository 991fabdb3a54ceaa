"""The picture of a report: the magnitudes of all values, against the range of float16."""

import io

from tf_lso import environment
from tf_lso.debugging import advice, statistics

# Colors that people with a color vision deficiency can tell apart.
_AREA = {"color": "#0072B2", "zorder": 3, "fill": True, "alpha": 0.55}
_LINE = {"color": "#D55E00", "zorder": 4, "fill": False, "linewidth": 1.6}
_TROUBLE = "#B00020"

OVERFLOW = 16  # the power of two at which float16 ends
_LOWEST, _HIGHEST = statistics.SMALLEST_SUBNORMAL - 6, OVERFLOW + 6  # always shown
_COLUMN = 6  # the width, in powers of two, of the column for inf and NaN at the right
_ZERO = statistics.SMALLEST_SUBNORMAL - 1  # what is smaller is rounded to 0
_RANGES = (  # name, the powers of two between which it lies, color of the background
    ("0 in float16", None, _ZERO, "#d9d9d9"),
    ("subnormal", _ZERO, statistics.SMALLEST_NORMAL, "#f0f0f0"),
    ("normal", statistics.SMALLEST_NORMAL, OVERFLOW, "#ffffff"),
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
    from matplotlib import figure, patches

    class Picture(figure.Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self):
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=self.dpi)
            return file.getvalue()

    names, held, gradients, in_trouble = zip(*_rows(report))
    size = (13, 2 + min(0.5 * len(names), 100))  # matplotlib refuses 2**16 pixels
    picture = Picture(figsize=size, layout="constrained")
    picture.suptitle(f"First: {advice.place_of(report.first)}", x=0.01, ha="left")
    left, right = picture.subplots(1, 2, sharey=True)
    _draw_panel(left, [(held, _AREA)])
    left.set_xlabel("log2 of the magnitude of outputs and variables")
    unscaled = [gradient and gradient.unscaled for gradient in gradients]
    at_scale = [gradient and gradient.at_scale for gradient in gradients]
    _draw_panel(right, [(unscaled, _AREA), (at_scale, _LINE)])
    right.set_xlabel("log2 of the magnitude of gradients")
    left.set_yticks(range(len(names)), map(_end, names), va="bottom")
    for label, is_marked in zip(left.get_yticklabels(), in_trouble):
        if is_marked:
            label.set(color=_TROUBLE, weight="bold")
    left.set_ylim(len(names) - 0.9, -1)
    scaled = f"gradients with the loss scale {report.loss_scale:g}"
    shown = [
        patches.Patch(label="gradients without scaling", **_AREA),
        patches.Patch(label=scaled, **_LINE),
    ]
    picture.legend(handles=shown, loc="outside lower right", ncols=2)
    if path is None:
        return picture
    picture.savefig(path, dpi=120)
    return None


def _rows(report):
    """Return for each row its name, `Values`, `Gradient`, and whether the trouble is there."""
    path = report.first.path
    layers = [(c.title, c.outputs, c.gradient, c.path == path) for c in report.layers]
    return layers + [(v.name, v.values, v.gradient, False) for v in report.variables]


def _draw_panel(axes, layers):
    """Draw pairs of a list, for each row its `Values` or None, and a style."""
    drawn = [
        power
        for rows, _ in layers
        for values in rows
        if values
        for power in values.exponents
    ]
    low, high = min([_LOWEST, *drawn]) - 1, max([_HIGHEST, *drawn]) + 2
    _draw_ranges(axes, low, high)
    for rows, style in layers:
        for position, values in enumerate(rows):
            if values is None or not values.size:
                axes.annotate("none", (low + 1, position - 0.1), color=style["color"])
            elif not (values.exponents or values.nonfinite):
                axes.annotate("all 0", (low + 1, position - 0.1), color=style["color"])
            else:
                _draw_row(axes, position, values, high, style)
    axes.set_xlim(low, high + _COLUMN)


def _draw_row(axes, position, values, high, style):
    """Draw the finite values of one row, and at the right the share of inf and NaN."""
    if exponents := values.exponents:
        edges = range(min(exponents), max(exponents) + 2)
        most = max(exponents.values())
        heights = [position - 0.85 * exponents.get(p, 0) / most for p in edges[:-1]]
        axes.stairs(heights, edges, baseline=position, **style)
    if values.nonfinite:
        edges = (high + 1, high + _COLUMN - 1)
        height = position - 0.85 * values.nonfinite
        axes.stairs([height], edges, baseline=position, **style)


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
