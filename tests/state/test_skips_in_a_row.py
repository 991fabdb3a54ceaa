"""No format holds how many steps were skipped in a row, as the page on files says."""

import pathlib

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, takes_optimizers
from tests.state import formats

PAGES = pathlib.Path(__file__).parents[2] / "compat_docs"


@takes_optimizers
@pytest.mark.parametrize("way", formats.ALONE)
@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_counted_anew(family, way, tmp_path):
    variable = tf.Variable(1.0)

    def make():
        inner = FAMILIES[family].SGD(0.5)
        opt = tf_lso.LossScaleOptimizer(inner, initial_scale=8, hysteresis=2)
        opt.build([variable])
        return opt

    def skip(opt):
        opt.apply_gradients([(tf.constant(float("nan")), variable)])
        return float(opt.loss_scale)

    opt = make()
    assert skip(opt) == 8
    new = formats.ALONE[way](opt, make, tmp_path)
    assert float(new.loss_scale) == 8 and int(new.iterations) == 1
    assert skip(opt) == 4  # the second in a row
    assert skip(new) == 8  # counts as the first
    assert skip(new) == 4


def test_the_page_on_files_says_so():
    page = (PAGES / "reference/files.md").read_text(encoding="utf-8")
    assert "restores how many steps were skipped in a row" in page
