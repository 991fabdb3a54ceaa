"""Draw the magnitudes of all values in a report next to the range of float16."""

import math

from tf_lso.frameworks import environment

_BAR = {"height": 0.6, "color": "#0072B2", "alpha": 0.55, "zorder": 3}
_TROUBLE = "#B00020"
# The horizontal axis shows exponents of two. In float16, values from 2**16 overflow, values
# below 2**-25 become 0, and other values below 2**-14 are subnormal.
OVERFLOW = 16
_ZERO, _NORMAL = -25, -14
_LOWEST, _HIGHEST = -40, 24
_NONFINITE = _HIGHEST + 6
_RANGES = (
    ("0 in float16", _LOWEST, _ZERO, "#d9d9d9"),
    ("subnormal", _ZERO, _NORMAL, "#f0f0f0"),
    ("normal", _NORMAL, OVERFLOW, "#ffffff"),
    ("overflow", OVERFLOW, _HIGHEST, "#f7d9d0"),
    ("inf, NaN", _HIGHEST, _NONFINITE, "#f0b8a8"),
)


def draw(report, path=None):
    """Draw a report into the file `path`, or return the figure if `path` is None."""
    environment.require(
        "matplotlib",
        "A plot needs the package matplotlib, which is not installed: "
        "`pip install matplotlib`, or `pip install 'tf-lso[plot]'`.",
    )
    # `pyplot` has global state and may open a window.
    from matplotlib import figure

    rows = [*report.layers, *report.variables]
    # Limit the height, because matplotlib cannot draw 2**16 pixels.
    size = (13, 2 + min(0.4 * len(rows), 100))
    picture = figure.Figure(figsize=size, layout="constrained")
    picture.suptitle(f"First: {report.first.title}", x=0.01, ha="left")
    left, right = picture.subplots(1, 2, sharey=True)
    _draw_panel(left, [row.values for row in rows])
    left.set_xlabel("log2 of the magnitude of outputs and variables")
    _draw_panel(right, [row.gradient for row in rows])
    scale = f"{report.loss_scale:g}"
    right.set_xlabel(f"log2 of the magnitude of gradients at the loss scale {scale}")
    left.set_yticks(range(len(rows)), [row.name for row in rows])
    for label, row in zip(left.get_yticklabels(), report.layers):
        if row.layer == report.first.path:
            label.set(color=_TROUBLE, weight="bold")
    left.invert_yaxis()
    if path is None:
        return picture
    picture.savefig(path, dpi=120)
    return None


def _draw_panel(axes, rows):
    for name, begin, end, color in _RANGES:
        axes.axvspan(begin, end, color=color, zorder=0)
        top = axes.get_xaxis_transform()
        axes.text((begin + end) / 2, 1.01, name, transform=top, ha="center", fontsize=9)
    for position, values in enumerate(rows):
        if values and values.smallest:
            begin, end = math.log2(values.smallest), math.log2(values.largest)
            # Without the 0.3, a bar for a single magnitude would be invisible.
            axes.barh(position, end - begin + 0.3, left=begin - 0.3, **_BAR)
        if values and values.nonfinite:
            width = (_NONFINITE - _HIGHEST) * values.nonfinite
            axes.barh(position, width, left=_HIGHEST, **_BAR)
    axes.set_xlim(_LOWEST, _NONFINITE)
