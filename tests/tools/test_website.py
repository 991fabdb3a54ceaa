"""The site is built without a warning, and contains all public names and tests."""

import importlib
import re
import types
from pathlib import Path

import pytest

import tf_lso
from tests.processes import ROOT, start

REFERENCE = ROOT / "compat_docs" / "reference"
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


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "compat_docs" / "_site"))
    return importlib.import_module


def test_the_reference_shows_every_public_name(site):
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.glob("api/*.md")]
    text = site("members").expand("\n".join(pages))
    shown = re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.MULTILINE)
    assert "tf_lso.callbacks.LossScaleMonitor" in public_names()
    assert set(public_names()) <= set(shown)


@pytest.mark.parametrize(
    "name", ["LossScaleOptimizer", "LossScale", "DynamicLossScale", "FixedLossScale"]
)
def test_the_page_of_a_class_has_each_member_once(site, name):
    hyphenated = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    page = (REFERENCE / "api" / f"{hyphenated}.md").read_text(encoding="utf-8")
    (groups,) = re.findall(r"^```\{members\} \S+\n(.*?)^```$", page, re.M | re.S)
    listed = []
    for members in site("members").groups_of(groups).values():
        listed += members
    public = [n for n in dir(getattr(tf_lso, name)) if not n.startswith("_")]
    assert sorted(listed) == public


def test_a_block_of_members_becomes_a_table_and_directives(site):
    block = "```{members} tf_lso.FixedLossScale\nUse: update\nNumber: dtype\n```\n"
    text = site("members").expand(f"before\n{block}after")
    assert text.startswith("before\n| | What it is |\n")
    assert "| **Use** | |\n| <a href" in text
    assert ".. automethod:: tf_lso.FixedLossScale.update\n" in text
    assert ".. autoproperty:: tf_lso.FixedLossScale.dtype\n" in text


def test_links_to_files_become_links_to_their_pages(site, tmp_path):
    source_links = site("source_links")
    line = source_links.line_of(Path(__file__), "public_names")
    text = "[t](../../tests/tools/test_website.py#public_names) [p](../start.md)"
    shown = set()
    page = "../_files/tests/tools/test_website.py.html"
    expected = f'<a href="{page}#L-{line}">t</a> [p](../start.md)'
    assert source_links.to_files(REFERENCE, text, shown) == expected
    assert shown == {Path(__file__)}
    source_links.write(Path(__file__), tmp_path)
    shown_text = (tmp_path / page.removeprefix("../")).read_text(encoding="utf-8")
    assert f'id="L-{line}"' in shown_text and "public_names" in shown_text


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    for module in ("furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(module, reason="the extra tf-lso[docs] is not installed")
    command = "-m sphinx -W --keep-going --quiet compat_docs".split()
    done = start([*command, tmp_path / "site"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr

    def text(path):
        return (tmp_path / "site" / path).read_text(encoding="utf-8")

    page = "".join(map(text, (tmp_path / "site/reference/api").glob("*.html")))
    for name in ("tf_lso.LossScaleOptimizer.get_scaled_loss", *public_names()):
        assert f'id="{name}"' in page
    assert "usage: tf-lso run" in text("reference/command-line.html")
    page = text("reference/differences.html")
    links = re.findall(r'href="\.\./(_files/tests/[\w/]+\.py\.html)#(L-\d+)"', page)
    assert len(links) > 50
    assert all(f'id="{line}"' in text(path) for path, line in links)
