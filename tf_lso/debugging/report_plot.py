"""The picture of a report: gradient magnitudes against the range of float16."""

import collections
import io
import math

from tf_lso.debugging import advice, statistics

# Colors that people with a color vision deficiency can tell apart.
_UNSCALED, _SCALED = "#0072B2", "#D55E00"
_RANGES = (  # end in powers of two, name, color of the ground
    (statistics.SMALLEST_SUBNORMAL - 1, "0 in float16", "#d9d9d9"),
    (statistics.SMALLEST_NORMAL, "subnormal", "#f0f0f0"),
    (16, "normal", "#ffffff"),
    (math.inf, "overflow", "#f7d9d0"),
)


def draw(report, path=None):
    """Draw a report into a file or a figure, see `Report.plot`."""
    try:
        # Not by pyplot, which has state and may want a window.
        from matplotlib import figure
    except ImportError as error:
        raise ImportError(
            "A plot needs the package matplotlib, which is not installed: "
            "`pip install matplotlib`, or `pip install 'tf-lso[plot]'`.",
            name="matplotlib",
        ) from error
    rows = _rows(report)
    if not rows:
        raise ValueError("The report has no gradients, so there is nothing to plot.")
    shift = math.log2(report.loss_scale)
    low, high = _limits(rows, shift)

    class Picture(figure.Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self):
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=self.dpi)
            return file.getvalue()

    canvas = Picture(figsize=(9, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = canvas.add_subplot()
    _draw_ranges(axes, low, high)
    for position, (_, exponents) in enumerate(reversed(rows)):
        scaled = report.loss_scale != 1
        _draw(axes, position, exponents, 0, _UNSCALED, "without scaling", fill=True)
        if scaled:
            label = f"with the loss scale {advice.number(report.loss_scale)}"
            _draw(axes, position, exponents, shift, _SCALED, label, fill=False)
    names = [_short(name) for name, _ in reversed(rows)]
    axes.set_yticks(range(len(rows)), names, va="bottom")
    axes.set(xlim=(low, high), ylim=(-0.1, len(rows) + 0.15))
    axes.set_xlabel("log2 of the magnitude of gradients that are not 0")
    title = f"First: {report.first.kind or 'nothing is wrong'}"
    if report.first.layer:
        title += f", in {_short(report.first.layer)}"
    axes.set_title(title, loc="left", pad=22)
    handles, labels = axes.get_legend_handles_labels()
    if unique := dict(zip(labels, handles)):
        # Outside, where it hides nothing.
        place = "outside lower right"
        canvas.legend(unique.values(), unique.keys(), loc=place, ncols=2)
    if path is None:
        return canvas
    canvas.savefig(path, dpi=120)
    return None


def _short(name):
    """Return the end of a path, which says more than its beginning."""
    return name if len(name) <= 32 else f"...{name[-29:]}"


def _rows(report):
    """Return pairs of a layer's name and the exponents of its gradients together."""
    rows = collections.defaultdict(collections.Counter)
    named = [(layer.path, layer.gradient) for layer in report.layers]
    named += [(one.layer or one.name, one.gradient) for one in report.variables]
    for name, gradient in named:
        if gradient is not None:
            rows[name].update(gradient.exponents)
    return list(rows.items())


def _limits(rows, shift):
    found = [exponent for _, exponents in rows for exponent in exponents]
    ends = [*found, *(exponent + shift for exponent in found)]
    low = min([statistics.SMALLEST_SUBNORMAL - 4, *ends])
    return low - 1, max([18, *ends]) + 2


def _draw_ranges(axes, low, high):
    begin = low
    for end, name, color in _RANGES:
        end = min(end, high)
        axes.axvspan(begin, end, color=color, zorder=0)
        axes.annotate(
            name,
            ((begin + end) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color="#444444",
        )
        if end < high:
            axes.axvline(end, color="#888888", linewidth=0.8, zorder=1)
        begin = end


def _draw(axes, position, exponents, shift, color, label, fill):
    if not exponents:
        axes.annotate("no value that is finite and not 0", (-10, position + 0.1))
        return
    powers = range(min(exponents), max(exponents) + 1)
    highest = max(exponents.values())
    axes.stairs(
        [position + 0.85 * exponents[power] / highest for power in powers],
        [power + shift for power in (*powers, powers.stop)],
        baseline=position,
        color=color,
        fill=fill,
        alpha=0.55 if fill else 1,
        linewidth=1.6,
        label=label,
        zorder=3 if fill else 4,
    )
