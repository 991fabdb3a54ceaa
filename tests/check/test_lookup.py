"""`check` finds every old name, by any import and alias, at any place in a program."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.migrate.programs import checked
from tf_lso import names

pytestmark = pytest.mark.core

NAMES = sorted(
    (module, namespace, name)
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    for name, use in names.mirror_names(namespace).items()
    if not use.versions.startswith("2.16")
)
# Pairs of an import and the expression that then leads to an old name. The forms in
# `BY_ATTRIBUTE` work only for modules that are attributes of their packages.
BY_ATTRIBUTE = (
    ("import {module}", "{module}.{name}"),
    ("import {top}", "{module}.{name}"),
    ("import {top} as {alias}", "{alias}.{rest}.{name}"),
    ("import {top} as {alias}; y = {alias}.{rest}", "y.{name}"),
    ("import {top} as {alias}; y = {alias}.{first}", "y.{more}.{name}"),
)
FORMS = (
    *BY_ATTRIBUTE,
    ("import {module} as {alias}", "{alias}.{name}"),
    ("import {module} as m; {alias} = m", "{alias}.{name}"),
    ("import {module} as {alias}; x = {alias}.{name}", "x"),
    ("from {parent} import {last}", "{last}.{name}"),
    ("from {parent} import {last} as {alias}", "{alias}.{name}"),
    ("from {module} import {name}", "{name}"),
    ("from {module} import {name} as {alias}", "{alias}"),
)


def spelled(form, module, name, alias):
    """Return the import and the expression of a form, for a name in a module.

    Args:
      form: an item of `FORMS`.
      module: the full name of the module, such as "tensorflow.train.experimental".
      name: the old name in this module.
      alias: the name that the program gives to what it imports.
    """
    (top, _, rest), (parent, _, last) = module.partition("."), module.rpartition(".")
    first, _, more = rest.partition(".")
    parts = dict(top=top, rest=rest, parent=parent, last=last, first=first, more=more)
    parts |= dict(module=module, name=name, alias=alias)
    return [text.format(**parts).replace("..", ".") for text in form]


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
    st.sampled_from([form for form in FORMS if "." in form[1]]),
    st.sampled_from(PLACES),
    st.integers(0, 5),
    st.booleans(),
)
@hypothesis.settings(deadline=None, max_examples=150)
def test_any_name_in_any_place_is_found(known, form, place, blank, inside):
    module, namespace, name = known
    setup, use = spelled(form, module, name, "alias")
    use = use.replace('"', "'") if 'f"' in place else use
    lines = [setup, *["pass"] * blank, *place.format(use).split("\n")]
    line = inside + next(n for n, text in enumerate(lines[1:], 2) if use in text)
    if inside:
        lines = ["def outer():", *("    " + text for text in lines)]
    found = checked("\n".join(lines))["findings"]
    root = "tf"
    if module.startswith("tf_keras"):
        root = "tf_keras"
        namespace = namespace.removeprefix("compat.v1.").removeprefix("keras.")
    here = [one["name"] for one in found if one["line"] == line]
    assert f"{root}.{namespace}.{name}" in here
    assert all(one["line"] == line or one["line"] <= 1 + inside for one in found)
    assert found[-1]["replacement"].startswith("tf_lso.")
    assert found[-1]["today"]
