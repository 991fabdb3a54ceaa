"""Every name of the tables, through any spelling of its module, at any place."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.source.programs import checked
from tf_lso import names

pytestmark = pytest.mark.core

NAMES = sorted(
    (module, namespace, name)
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    for name, use in names.mirror_names(namespace).items()
    if not use.versions.startswith("2.16")
)
# What binds, and how the name is reached then.
FORMS = (
    ("import {top} as alias", "alias.{rest}.{name}"),
    ("import {module} as alias", "alias.{name}"),
    ("from {parent} import {last} as alias", "alias.{name}"),
    ("import {top}; alias, n = {module}, 1", "alias.{name}"),
    ("import {module} as m; alias = m", 'getattr(alias, "{name}")'),
    ("import importlib; alias = importlib.import_module('{module}')", "alias.{name}"),
)
PLACES = (
    "{}",
    "x = f({}, 1)",
    "class A({}): pass",
    "def f(x={}): pass",
    "def f():\n    return [{} for i in y]",
    "@{}\ndef f(): pass",
    "lambda: {}",
    "with {} as z: pass",
    'f"{{ {} }}"',
    "async def f():\n    await {}",
)


def test_a_file_with_nothing_but_an_import_is_read():
    for module, _, name in NAMES:
        assert checked(f"from {module} import {name}\n")["findings"], (module, name)


@hypothesis.given(
    st.sampled_from(NAMES),
    st.sampled_from(FORMS),
    st.sampled_from(PLACES),
    st.integers(0, 5),
    st.booleans(),
)
@hypothesis.settings(deadline=None, max_examples=300)
def test_any_name_in_any_place_is_found(known, form, place, blank, inside):
    module, namespace, name = known
    (top, _, rest), (parent, _, last) = module.partition("."), module.rpartition(".")
    parts = dict(module=module, top=top, rest=rest, parent=parent, last=last, name=name)
    setup, use = (text.format(**parts) for text in form)
    if 'f"' in place:
        use = use.replace('"', "'")
    lines = [setup, *["pass"] * blank, *place.format(use).split("\n")]
    line = next(n for n, text in enumerate(lines, 1) if use in text)
    if inside:
        lines = ["def outer():", *("    " + text for text in lines)]
        line += 1
    found = checked("\n".join(lines))["findings"]
    root = "tf"
    if top == "tf_keras":
        root, namespace = (
            top,
            namespace.removeprefix("compat.v1.").removeprefix("keras."),
        )
    expected = f"{root}.{namespace}.{name}"
    assert expected in [one["name"] for one in found if one["line"] == line]
    assert all(one["line"] == line or one["line"] <= 1 + inside for one in found)
    last = found[-1]
    assert (
        last["replacement"].startswith("tf_lso.") and last["today"] and last["tf_lso"]
    )
