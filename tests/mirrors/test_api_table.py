"""compat_docs/reference/old-names.md is what its tool makes of the table of names."""

import contextlib
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.core

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "tools" / "api_table"
PAGE = (ROOT / "compat_docs/reference/old-names.md").read_text(encoding="utf-8")


def tool():
    loader = importlib.machinery.SourceFileLoader("api_table", str(TOOL))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("api_table", loader)
    )
    loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_check_sees_a_page_that_is_not(monkeypatch, tmp_path):
    module = tool()
    monkeypatch.setattr(module, "PAGE", tmp_path / "api.md")
    monkeypatch.setattr(sys, "argv", ["api_table", "--check"])
    assert module.main() == 1
    monkeypatch.setattr(sys, "argv", ["api_table"])
    assert module.main() == 0
    monkeypatch.setattr(sys, "argv", ["api_table", "--check"])
    assert module.main() == 0
    module.PAGE.write_text(module.PAGE.read_text().replace("gone", "there", 1))
    assert module.main() == 1


def test_the_page_has_every_name_and_every_spelling():
    from tf_lso import names

    for namespace, uses in names.NAMESPACES.items():
        if not namespace.startswith("compat.v2"):
            section = PAGE.split(f"\n## tf.{namespace}\n")[1].split("\n## ")[0]
            assert f"In `tf_lso.{namespace}`:" in section
            for name in uses:
                assert f"| `{name}` | " in section
    for spelled in names.MODULES:
        assert f"| `{spelled}` |" in PAGE
    for symbol in names.SYMBOLS.values():
        assert symbol.keras_2 in PAGE


def test_the_page_says_what_install_leaves():
    pytest.importorskip("tf_keras")
    import tf_lso
    from tf_lso import names

    seen = 0
    with tf_lso.install():
        for spelled, namespace in names.TF_KERAS_MODULES.items():
            wrapper = None
            with contextlib.suppress(ImportError):
                module = importlib.import_module(spelled)
                wrapper = getattr(module, "LossScaleOptimizer", None)
            left = wrapper is None or not wrapper.__module__.startswith("tf_lso")
            row = f"| `{spelled}` | `tf_lso.{namespace}`"
            if "LossScaleOptimizer" in names.mirror_names(namespace):
                seen += 1
                assert (f"{row} (`install()` leaves it as it is) |" in PAGE) == left
    assert seen > 3
