"""If names move out of an import, no comment and no name is lost.

`rules/test_layout.py` has examples.
"""

import ast
import itertools
import re
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.migrate.programs import migrated
from tf_lso.migrate.consequences import MODULES


def gaps(least):
    """Draw white space and comments, as they may stand within parentheses.

    `least` is the shortest text that may be drawn.
    """
    with_comments = ("  # c\n    ", "\n    # c\n    ", " # c\n\n  # c\n\t")
    return st.sampled_from([least, " ", "  ", "\n", "\n      ", *with_comments])


# Names in an import from one module. The second and the fourth are old names.
NAMES = (
    "PythonState",
    "DynamicLossScale",
    "MaxPooling",
    "FixedLossScale as Fixed",
    "utils as u",
)


@st.composite
def imports(draw):
    """Draw a program that imports some names in parentheses. Its comments are numbered."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    text = "from tensorflow.train.experimental import (" + draw(gaps(""))
    for number, name in enumerate(names, 1):
        imported, _, alias = name.partition(" as ")
        text += imported
        if alias:
            text += draw(gaps(" ")) + "as" + draw(gaps(" ")) + alias
        text += draw(gaps(""))
        if number < len(names) or draw(st.booleans()):  # the last comma may be absent
            text += "," + draw(gaps(""))
    text += ")" + draw(st.sampled_from(["", "  # c", "; x = 1", "; x = 2  # c"]))
    if draw(st.booleans()):
        text = f"def f():\n    {text}\n    return 1"
    numbers = itertools.count()
    return re.sub("# c", lambda _: f"# c{next(numbers)}", text) + "\n"


def imported_names(program):
    """Return a sorted list of pairs (imported name, alias or "")."""
    pairs = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            pairs += [(alias.name, alias.asname or "") for alias in node.names]
    return sorted(pairs)


@pytest.mark.slow
@hypothesis.given(imports())
@hypothesis.settings(deadline=None, max_examples=150)
def test_no_comment_and_no_name_is_lost(program):
    new, _ = migrated(program)
    assert sorted(re.findall(r"# c\d+", new)) == sorted(re.findall(r"# c\d+", program))
    assert imported_names(new) == imported_names(program)
    assert ("LossScale" in program) == ("tf_lso" in new)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has this syntax")
def test_names_in_type_parameters_and_nested_f_strings_are_migrated():
    program = """\
import tensorflow as tf
type Opt = tf.keras.mixed_precision.LossScaleOptimizer
def f[T: tf.keras.mixed_precision.Policy](x: T) -> T: return x
class A[T: tf.keras.mixed_precision.Policy]: x: T
print(f"{tf.keras.mixed_precision.Policy("é")} {f"{tf.keras.mixed_precision}"}")
"""
    moved = program.replace("tf.", "tf_lso.")
    expected = moved.replace("as tf\n", "as tf\nimport tf_lso\n")
    assert migrated(program)[0] == expected


def test_all_old_names_of_a_module_have_one_new_module():
    """So one new import is enough for all names that move out of an old import."""
    for parent in {module.rpartition(".")[0] for module in MODULES}:
        new_modules = {MODULES[parent]} if parent in MODULES else set()
        for module, new_module in MODULES.items():
            if module.rpartition(".")[0] == parent:
                new_modules.add(new_module.rpartition(".")[0])
        assert len(new_modules) == 1, parent
