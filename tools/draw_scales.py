"""Draws compat_docs/pictures/scales.svg, which shows how the loss scale changes.

A step overflows if the scale is too large for the gradients of the step, or if the batch is
bad.
`python -m tools.draw_scales` needs matplotlib but not TensorFlow.
"""

import pathlib

from tf_lso.scaling.rule import ScaleRule, ScaleState, next_state

PICTURE = pathlib.Path(__file__).parents[1] / "compat_docs" / "pictures" / "scales.svg"
STEPS = range(400)
TRIES = ScaleRule(growth_steps=50)
SINGLE = (60, 170, 280)
# Each run is a tuple: the title, the first scale, the rule, and the steps whose gradients are
# not finite at any scale.
RUNS = (
    ("starts too high, then tries to double every 50 steps", 2.0**15, TRIES, ()),
    ("single bad batches halve it", 2.0**9, ScaleRule(), SINGLE),
    ("NaN from step 150 on: lost", 2.0**9, ScaleRule(), STEPS[150:]),
)


def scales(start, rule, bad):
    """Return the list of scales at each step of a run, and the list of skipped steps."""
    state, seen, skipped = ScaleState(start, 0), [], []
    for step in STEPS:
        # Gradients become smaller while a model learns, so larger scales are possible.
        finite = step not in bad and state.scale <= 2.0 ** (10 + step // 130)
        seen.append(state.scale)
        if not finite:
            skipped.append(step)
        state = next_state(rule, state, finite)
    return seen, skipped


def draw(path):
    """Draw all runs into an SVG file."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tf_lso"})
    figure = Figure(figsize=(5.2, 5.6), layout="constrained")
    panels = figure.subplots(len(RUNS), sharex=True)
    for (title, *run), panel in zip(RUNS, panels):
        seen, skipped = scales(*run)
        panel.step(STEPS, seen, where="post", color="tab:blue", label="scale")
        at = [seen[step] for step in skipped]
        panel.plot(skipped, at, "x", color="tab:red", ms=5, label="skipped step")
        panel.set_yscale("log", base=2)
        panel.set_ylim(min(seen) / 2, max(seen) * 2)
        panel.set_title(title, fontsize="medium", loc="left")
        panel.grid(True, alpha=0.25)
    entries = panels[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside upper center", ncols=2)
    panels[-1].set_xlabel("step")
    figure.supylabel("scale")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(PICTURE)
