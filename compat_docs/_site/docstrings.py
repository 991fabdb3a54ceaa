"""Docstrings: `Example:` is followed by lines that begin with `>>>`, without an indent.

For Sphinx such lines need an empty line before them.
"""


def with_examples(lines):
    """Return the lines of a docstring with a heading above each example."""
    result = []
    for line, following in zip(lines, [*lines[1:], ""]):
        is_heading = line.strip() == "Example:" and following.startswith(">>>")
        result += ["**Example**", ""] if is_heading else [line]
    return result


def _on_docstring(app, what, name, thing, options, lines):
    lines[:] = with_examples(lines)


def setup(app):
    """Connect to Sphinx, before Napoleon."""
    app.connect("autodoc-process-docstring", _on_docstring, priority=100)
    return {"parallel_read_safe": True}
