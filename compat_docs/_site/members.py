"""The block `members`: a class with its members in the order of use.

    ```{members} tf_lso.LossScaleOptimizer
    Scaling: get_scaled_loss get_unscaled_gradients
    Attributes: loss_scale dynamic
    ```

stands for a table of the members, each with the first sentence of its docstring, then the
constructor, then the members group by group.
"""

import importlib
import inspect
import re

_BLOCK = re.compile(r"^```\{members\} (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def class_of(dotted):
    """Return the class of a dotted name."""
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def groups_of(text):
    """Return {heading: list of names} of the lines of a block."""
    lines = (line.partition(":") for line in text.splitlines() if line.strip())
    return {heading: names.split() for heading, _, names in lines}


def sentence_of(cls, name):
    """Return the first sentence of a member's docstring, in one line."""
    doc = inspect.getdoc(inspect.getattr_static(cls, name)) or ""
    paragraph = doc.partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0].replace("|", "\\|")


def directive_of(cls, name):
    """Return the name of the directive of autodoc that shows a member."""
    is_property = isinstance(inspect.getattr_static(cls, name), property)
    return "autoproperty" if is_property else "automethod"


def expand(text):
    """Return the text of a page with its blocks replaced by tables and directives."""

    def replace(match):
        dotted, groups = match[1], groups_of(match[2])
        cls = class_of(dotted)
        lines = ["| | What it is |", "|---|---|"]
        for heading, names in groups.items():
            lines.append(f"| **{heading}** | |")
            for name in names:
                link = f'<a href="#{dotted}.{name}"><code>{name}</code></a>'
                lines.append(f"| {link} | {sentence_of(cls, name)} |")
        lines += ["", "## Constructor", "", "```{eval-rst}", f".. autoclass:: {dotted}"]
        lines.append("```")
        for heading, names in groups.items():
            lines += ["", f"## {heading}", "", "```{eval-rst}"]
            for name in names:
                lines += [f".. {directive_of(cls, name)}:: {dotted}.{name}", ""]
            lines.append("```")
        return "\n".join(lines)

    return _BLOCK.sub(replace, text)


def _on_read(app, name, source):
    source[0] = expand(source[0])


def setup(app):
    """Connect to Sphinx."""
    app.connect("source-read", _on_read)
    return {"parallel_read_safe": True}
