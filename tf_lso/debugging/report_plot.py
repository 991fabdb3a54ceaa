"""The picture of a report: gradient magnitudes against the range of float16."""

import collections
import io
import itertools
import math

from tf_lso import environment
from tf_lso.debugging import advice, statistics

# The unscaled gradients are an area, the scaled ones a line over it, in colors that people
# with a color vision deficiency can tell apart.
_AREA = {"color": "#0072B2", "zorder": 3, "fill": True, "alpha": 0.55}
_LINE = {"color": "#D55E00", "zorder": 4}
_LOWEST, _HIGHEST = statistics.SMALLEST_SUBNORMAL - 5, 20  # shown also without values
_RANGES = (  # begin in powers of two, name, color of the ground
    (-math.inf, "0 in float16", "#d9d9d9"),
    (statistics.SMALLEST_SUBNORMAL - 1, "subnormal", "#f0f0f0"),
    (statistics.SMALLEST_NORMAL, "normal", "#ffffff"),
    (16, "overflow", "#f7d9d0"),
    (math.inf, None, None),
)


def draw(report, path=None):
    """Draw a report into a file or a figure, see `Report.plot`."""
    environment.require(
        "matplotlib",
        "A plot needs the package matplotlib, which is not installed: "
        "`pip install matplotlib`, or `pip install 'tf-lso[plot]'`.",
    )
    # Not by pyplot, which has state and may want a window.
    from matplotlib import figure

    class Picture(figure.Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self):
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=self.dpi)
            return file.getvalue()

    rows = _rows(report)
    if not rows:
        raise ValueError("The report has no gradients, so there is nothing to plot.")
    picture = Picture(figsize=(9, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = picture.add_subplot()
    styles = {0.0: {"label": "without scaling", **_AREA}}
    if shift := math.log2(report.loss_scale):
        scaled = f"with the loss scale {advice.number(report.loss_scale)}"
        styles[shift] = {"label": scaled, **_LINE}
    shown = [_LOWEST, _HIGHEST]
    for position, exponents in enumerate(rows.values()):
        if not exponents:
            axes.annotate("no value that is finite and not 0", (-10, position - 0.1))
            continue
        powers = range(min(exponents), max(exponents) + 1)
        highest = max(exponents.values())
        heights = [position - 0.85 * exponents[power] / highest for power in powers]
        for by, style in styles.items():
            edges = [power + by for power in (*powers, powers.stop)]
            axes.stairs(heights, edges, baseline=position, linewidth=1.6, **style)
            shown += edges
    _draw_ranges(axes, min(shown) - 1, max(shown) + 1)
    axes.set_yticks(range(len(rows)), [_end(name) for name in rows], va="bottom")
    axes.set_ylim(len(rows) - 0.9, -1)
    axes.set_xlabel("log2 of the magnitude of gradients that are not 0")
    axes.set_title(f"First: {advice.place(report.first)}", loc="left", pad=22)
    handles, labels = axes.get_legend_handles_labels()
    if unique := dict(zip(labels, handles)):
        outside = "outside lower right"  # where it hides nothing
        picture.legend(unique.values(), unique.keys(), loc=outside, ncols=2)
    if path is None:
        return picture
    picture.savefig(path, dpi=120)
    return None


def _end(name):
    """Return the end of a path, which says more than its beginning."""
    return name if len(name) <= 32 else f"...{name[-29:]}"


def _rows(report):
    """Return {name of a layer: exponents of its gradients together}."""
    rows = collections.defaultdict(collections.Counter)
    named = [(layer.path, layer.gradient) for layer in report.layers]
    named += [(one.layer or one.name, one.gradient) for one in report.variables]
    for name, gradient in named:
        if gradient is not None:
            rows[name].update(gradient.exponents)
    return rows


def _draw_ranges(axes, low, high):
    for (begin, name, color), (end, *_) in itertools.pairwise(_RANGES):
        begin, end = max(begin, low), min(end, high)
        axes.axvspan(begin, end, color=color, zorder=0)
        top = axes.get_xaxis_transform()
        axes.text((begin + end) / 2, 1.01, name, transform=top, ha="center", fontsize=9)
    axes.set_xlim(low, high)
