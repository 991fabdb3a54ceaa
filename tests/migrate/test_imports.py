"""Names taken out of an import: no comment is lost, and the layout of the rest stays."""

import ast
import re
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.migrate.programs import migrated

# program -> its migration
LAYOUTS = {
    "a comment before the comma": (
        """\
from tensorflow.keras import (
    layers,
    mixed_precision as mp  # the policy
    ,
    optimizers,
)
""",
        """\
from tensorflow.keras import (
    layers,
    optimizers,
)
from tf_lso.keras import mixed_precision as mp  # the policy
""",
    ),
    "a comment behind the last name": (
        """\
from tensorflow.keras import (
    layers,
    # about
    mixed_precision  # the policy
)
""",
        """\
from tensorflow.keras import (
    layers,
    # about
)
from tf_lso.keras import mixed_precision  # the policy
""",
    ),
    "a comment of the next name": (
        """\
from tensorflow.keras import (
    mixed_precision,  # the policy
    # what is trained
    layers,
)
""",
        """\
from tensorflow.keras import (
    # what is trained
    layers,
)
from tf_lso.keras import mixed_precision  # the policy
""",
    ),
    "a name over several lines": (
        """\
from tensorflow.keras import (layers, mixed_precision
    as mp)
""",
        """\
from tensorflow.keras import (layers)
from tf_lso.keras import mixed_precision as mp
""",
    ),
    "statements behind it": (
        """\
from tensorflow.keras import (layers,
    mixed_precision)  # the policy
from tensorflow.keras import (mixed_precision,  # again
    models); x = 1  # end
""",
        """\
from tensorflow.keras import (layers)  # the policy
from tf_lso.keras import mixed_precision
from tensorflow.keras import (models); from tf_lso.keras import (mixed_precision  # again
); x = 1  # end
""",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_stays(name):
    program, expected = LAYOUTS[name]
    assert migrated(program) == expected


def _gaps(least):
    """White space within parentheses, with comments in it."""
    return st.sampled_from(
        [
            least,
            " ",
            "  ",
            "\n",
            "\n      ",
            "  # c\n    ",
            "\n    # c\n    ",
            " # c\n\n  # c\n\t",
        ]
    )


NAMES = ("layers", "mixed_precision", "models", "mixed_precision as mp", "utils as u")


@st.composite
def imports(draw):
    """An import of some names in parentheses, its comments numbered."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    text = "from tensorflow.keras import (" + draw(_gaps(""))
    for number, name in enumerate(names, 1):
        for part in name.partition(" as "):
            gap = f"{draw(_gaps(' '))}as{draw(_gaps(' '))}" if part == " as " else part
            text += gap
        text += draw(_gaps(""))
        if number < len(names) or draw(st.booleans()):
            text += "," + draw(_gaps(""))
    text += ")" + draw(st.sampled_from(["", "  # c", "; x = 1", "; x = 2  # c"]))
    if draw(st.booleans()):
        text = f"def f():\n    {text}\n    return 1"
    count = iter(range(1000))
    return re.sub("# c", lambda _: f"# c{next(count)}", text) + "\n"


def _bound(program):
    nodes = [n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.ImportFrom)]
    return sorted((a.name, a.asname or "") for node in nodes for a in node.names)


@hypothesis.given(imports())
@hypothesis.settings(deadline=None, max_examples=300)
def test_no_comment_and_no_name_is_lost(program):
    new = migrated(program)
    assert sorted(re.findall(r"# c\d+", new)) == sorted(re.findall(r"# c\d+", program))
    assert _bound(new) == _bound(program)
    assert ("mixed_precision" in program) == ("tf_lso" in new)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has this syntax")
def test_type_parameters():
    program = """\
import tensorflow as tf
type Opt = tf.keras.mixed_precision.LossScaleOptimizer
def f[T: tf.keras.mixed_precision.Policy](x: T) -> T: return x
class A[T: tf.keras.mixed_precision.Policy]: x: T
print(f"{tf.keras.mixed_precision.Policy("é")} {f"{tf.keras.mixed_precision}"}")
"""
    moved = program.replace("as tf", "").replace("tf.", "tf_lso.")
    assert migrated(program) == moved.replace("import tensorflow ", "import tf_lso")
