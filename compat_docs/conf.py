"""How Sphinx builds the site from these pages: run tools/docs."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_site")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tf_lso  # noqa: E402  the checkout's own, found by the line above

project = "tf_lso"
author = "tf_lso contributors"
version = release = tf_lso.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    # Ours, in the folder _site.
    "command_help",
    "docstrings",
    "members",
    "source_links",
]
exclude_patterns = ["_site"]

# Anchors as GitHub makes them, so that a link serves on both.
myst_heading_anchors = 4

# The docstrings are Google's, with single backticks around code.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # so that names are short in "On this page"
autodoc_typehints = "none"
nitpicky = True
# Napoleon takes what stands before a colon in "Returns:" for a type, and links it.
nitpick_ignore_regex = [("py:class", ".*")]

copybutton_exclude = ".linenos, .gp, .go"  # no prompts, no output

html_theme = "furo"
html_title = f"tf_lso {release}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_copyright = False
