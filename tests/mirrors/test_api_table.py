"""The page old-names.md lists every old name, and the names that `install()` leaves."""

import contextlib
import importlib
import pathlib

import pytest

import tf_lso
from tf_lso import names

pytestmark = pytest.mark.core

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "compat_docs/reference/old-names.md").read_text(encoding="utf-8")


def test_the_page_has_every_name():
    for namespace, uses in names.NAMESPACES.items():
        if not namespace.startswith("compat.v2"):
            section = PAGE.split(f"\n### tf.{namespace}\n")[1].split("\n##")[0]
            assert f"In `tf_lso.{namespace}`:" in section
            for name in uses:
                assert f"`{name}`" in section
    for symbol in names.SYMBOLS.values():
        assert symbol.keras_2 in PAGE


def test_the_page_says_what_install_leaves():
    pytest.importorskip("tf_keras")
    assert "does not change `tf_keras.src.…`" in PAGE
    seen = 0
    with tf_lso.install():
        for spelled, namespace in names.TF_KERAS_MODULES.items():
            wrapper = None
            with contextlib.suppress(ImportError):
                module = importlib.import_module(spelled)
                wrapper = getattr(module, "LossScaleOptimizer", None)
            left = wrapper is None or not wrapper.__module__.startswith("tf_lso")
            if "LossScaleOptimizer" in names.mirror_names(namespace):
                seen += 1
                assert spelled.startswith("tf_keras.src.") == left
    assert seen > 3
