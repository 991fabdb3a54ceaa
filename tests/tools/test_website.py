"""The site is built without a warning, and contains all public names and tests."""

import importlib
import re
import types

import pytest

import tf_lso
from tests.processes import ROOT, start

MIRRORS = {"compat", "keras", "mixed_precision", "train"}


def public_names():
    """Return a sorted list of all public names of tf_lso that are not old names."""
    names = []
    for name in {n for n in dir(tf_lso) if not n.startswith("_")} - MIRRORS:
        value = getattr(tf_lso, name)
        if not isinstance(value, types.ModuleType):
            names.append(f"tf_lso.{name}")
            continue
        public = getattr(value, "__all__", None) or [
            n
            for n, v in vars(value).items()
            if not n.startswith("_") and getattr(v, "__module__", "") == value.__name__
        ]
        names += [f"tf_lso.{name}.{n}" for n in public]
    return sorted(names)


def test_the_reference_shows_every_public_name_and_member(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "compat_docs" / "_site"))
    members = importlib.import_module("members")
    pages = (ROOT / "compat_docs" / "reference" / "api").glob("*.md")
    text = members.expand("\n".join(page.read_text(encoding="utf-8") for page in pages))
    shown = re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.MULTILINE)
    assert "tf_lso.callbacks.LossScaleMonitor" in public_names()
    wanted = public_names()
    for name in ("LossScaleOptimizer", "DynamicLossScale", "FixedLossScale"):
        public = [n for n in dir(getattr(tf_lso, name)) if not n.startswith("_")]
        wanted += [f"tf_lso.{name}.{n}" for n in public]
    assert set(wanted) <= set(shown)
    assert len(shown) == len(set(shown))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for module in ("furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(module, reason="the extra tf-lso[docs] is not installed")
    command = "-m sphinx -W --keep-going --quiet compat_docs".split()
    done = start([*command, tmp_path / "site"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
