"""Chains of attributes, such as `tf.keras.mixed_precision.Policy`, and their edits."""

import ast
import re

from tf_lso.source import lookup
from tf_lso.source.inference import Value
from tf_lso.source.renaming import New
from tf_lso.source.scopes import Imported, Program
from tf_lso.source.texts import Edit, Text


def free_name(program: Program) -> str:
    """Return the name for `import tf_lso`: another one where the program has that."""
    name = "tf_lso"
    while any(
        not (isinstance(binding.value, Imported) and binding.value.path == name)
        for scope in program.scopes
        for binding in scope.names.get(name, ())
    ):
        name += "_"
    return name


_SPACE = re.compile(r"\\?\s")


def replaced(
    text: Text, chain: list[ast.Attribute], new: New, ref: Value
) -> Edit | None:
    """Return the edit of the shortest beginning of a chain that makes it the new one.

    None where the name does not stand there as plain text.
    """
    steps = new.parts - ref.path.count(".") - 1  # attributes that the module replaces
    module = new.module.split(".")
    while steps > 0 and len(module) > 1 and chain[steps - 1].attr == module[-1]:
        steps -= 1
        module.pop()
    node = chain[steps].value if steps < len(chain) else chain[-1]
    spelled = [part.attr for part in chain[:steps]]
    base = chain[0].value
    if isinstance(base, ast.Name):
        spelled.insert(0, base.id)
    # Before Python 3.12 the parser misplaces names in f-strings of several lines.
    if _SPACE.sub("", text.of(node)) != ".".join(spelled) or len(spelled) != steps + 1:
        return None
    return Edit(text.start(node), text.end(node), ".".join(module))


# Names that only the old API and its modules have.
_TELLING = re.compile(
    r"(^|\.)mixed_precision\.(experimental|LossScaleOptimizer|Policy|global_policy|"
    r"set_global_policy)\b|(^|\.)keras\.mixed_precision\b|"
    r"\.((Dynamic|Fixed)LossScale|enable_mixed_precision_graph_rewrite)$"
)


def is_telling(steps: list[str], base: ast.AST, program: Program) -> bool:
    """Whether a chain looks like an old name, though what it begins with is not seen."""
    usual = getattr(base, "id", "") in ("tf", "tensorflow", "keras")
    # As in `sys.modules["tensorflow"]`.
    texts = (part.value for part in ast.walk(base) if isinstance(part, ast.Constant))
    named = not lookup.FRAMEWORKS.isdisjoint(texts)
    if not (usual or named or program.packages & lookup.FRAMEWORKS):
        return False
    spelled = ".".join([getattr(base, "id", ""), *steps])
    return bool(_TELLING.search(spelled))


def guess(steps: list[str]) -> str:
    """Return the new name that such a chain would have, for people."""
    for start in range(len(steps)):  # `self.tf.keras…` ends as `keras…` does
        parts = ["tensorflow", *steps[start:]]
        for end in range(len(parts), 1, -1):
            module = lookup.MODULES.get(".".join(parts[:end]))
            if module:
                return ".".join(["tf_lso", module, *parts[end : end + 1]])
    return "the name in tf_lso"
