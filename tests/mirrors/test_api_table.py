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


def test_the_page_says_which_modules_install_does_not_change():
    pytest.importorskip("tf_keras")
    assert "does not change `tf_keras.src.…`" in PAGE
    modules = [
        spelled
        for spelled, namespace in names.TF_KERAS_MODULES.items()
        if "LossScaleOptimizer" in names.mirror_names(namespace)
    ]
    assert len(modules) > 3  # the loop below would pass without any module
    with tf_lso.install():
        for spelled in modules:
            wrapper = None
            with contextlib.suppress(ImportError):
                module = importlib.import_module(spelled)
                wrapper = getattr(module, "LossScaleOptimizer", None)
            is_ours = wrapper is not None and wrapper.__module__.startswith("tf_lso")
            assert is_ours == (not spelled.startswith("tf_keras.src."))
