"""`check` finds an old name by any import, at any place. `test_today.py` has all names."""

import textwrap

import pytest

from tests.migrate.programs import checked

NAME = "tf.keras.mixed_precision.experimental.Policy"
# Pairs of an import and the expression that then leads to the old name.
FORMS = [
    ("import tensorflow", f"tensorflow{NAME.removeprefix('tf')}"),
    ("import tensorflow as tf", NAME),
    ("import tensorflow as x", f"x{NAME.removeprefix('tf')}"),
    ("import tensorflow as tf; x = tf.keras", "x.mixed_precision.experimental.Policy"),
    ("import tensorflow as tf; x = tf.keras.mixed_precision.experimental", "x.Policy"),
    (
        "import tensorflow.keras.mixed_precision.experimental",
        "tensorflow.keras.mixed_precision.experimental.Policy",
    ),
    ("import tensorflow.keras.mixed_precision.experimental as mp", "mp.Policy"),
    ("import tensorflow.keras.mixed_precision.experimental as m; x = m", "x.Policy"),
    (
        "from tensorflow.keras.mixed_precision import experimental",
        "experimental.Policy",
    ),
    ("from tensorflow.keras.mixed_precision import experimental as x", "x.Policy"),
]
PLACES = [
    "{}",
    "x = f({}, 1)",
    "class A({}): pass",
    "def f(x={}): pass",
    "def f(x: {} = None): pass",
    "def f() -> {}: pass",
    "x: {} = f()",
    "def f():\n    return [{} for i in y]",
    "@{}\ndef f(): pass",
    "lambda: {}",
    "with {} as z: pass",
    'f"{{ {} }}"',
    "async def f():\n    await {}",
]


def assert_found(program, line):
    """Assert that `check` finds the old name at a line, and says what it is."""
    (found,) = [f for f in checked(program)["findings"] if f["line"] == line]
    assert (found["name"], found["replacement"]) == (NAME, NAME.replace("tf", "tf_lso"))
    assert found["today"]


@pytest.mark.parametrize(("imports", "expression"), FORMS)
def test_a_name_is_found_by_any_import(imports, expression):
    assert_found(f"{imports}\nprint({expression})\n", 2)


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_found_at_any_place(place):
    program = f"import tensorflow as tf\n{place.format(NAME)}\n"
    (line,) = [n for n, text in enumerate(program.splitlines(), 1) if NAME in text]
    assert_found(program, line)
    assert_found("def outer():\n" + textwrap.indent(program, "    "), line + 1)
