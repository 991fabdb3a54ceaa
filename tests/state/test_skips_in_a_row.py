"""No format contains the number of consecutive skipped steps, as the page on files says."""

import pathlib

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, takes_optimizers
from tests.state import formats

PAGES = pathlib.Path(__file__).parents[2] / "compat_docs"


@takes_optimizers
@pytest.mark.parametrize("optimizer_format", formats.OPTIMIZER_FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_restored_optimizer_counts_skipped_steps_from_zero(
    family, optimizer_format, tmp_path
):
    variable = tf.Variable(1.0)

    def make_optimizer():
        inner = FAMILIES[family].SGD(0.5)
        optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8, hysteresis=2)
        optimizer.build([variable])
        return optimizer

    def scale_after_skipped_step(optimizer):
        optimizer.apply_gradients([(tf.constant(float("nan")), variable)])
        return float(optimizer.loss_scale)

    saved = make_optimizer()
    assert scale_after_skipped_step(saved) == 8
    save_and_restore = formats.OPTIMIZER_FORMATS[optimizer_format]
    restored = save_and_restore(saved, make_optimizer, tmp_path)
    assert float(restored.loss_scale) == 8
    assert int(restored.iterations) == 1
    # With a hysteresis of 2, the second consecutive skipped step halves the scale.
    assert scale_after_skipped_step(saved) == 4
    assert scale_after_skipped_step(restored) == 8
    assert scale_after_skipped_step(restored) == 4


def test_the_page_on_files_says_so():
    page = (PAGES / "reference/files.md").read_text(encoding="utf-8")
    assert "restores how many steps were skipped in a row" in page
