"""`check` finds every old name, by any import and alias, at any place in a program."""

import hypothesis
from hypothesis import strategies as st

from tests.migrate.programs import checked
from tf_lso import names

# The old module, the mirror's name without "tf_lso.", and the name, for all old names.
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
    top, _, rest = module.partition(".")
    first, _, more = rest.partition(".")
    parent, _, last = module.rpartition(".")
    parts = {
        "module": module,  # for instance "tensorflow.keras.mixed_precision"
        "top": top,  # "tensorflow"
        "rest": rest,  # "keras.mixed_precision"
        "first": first,  # "keras"
        "more": more,  # "mixed_precision"
        "parent": parent,  # "tensorflow.keras"
        "last": last,  # "mixed_precision"
        "name": name,
        "alias": alias,
    }
    # If `more` is empty, the expression would contain two dots.
    return [text.format(**parts).replace("..", ".") for text in form]


# Places in a program at which an expression may stand.
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


@hypothesis.given(
    old_name=st.sampled_from(NAMES),
    # In the other forms, the expression is only a variable.
    form=st.sampled_from([form for form in FORMS if "." in form[1]]),
    place=st.sampled_from(PLACES),
    other_lines=st.integers(0, 5),
    is_in_function=st.booleans(),
)
@hypothesis.settings(deadline=None, max_examples=60)
def test_each_name_is_found_at_any_place(
    old_name, form, place, other_lines, is_in_function
):
    module, namespace, name = old_name
    imports, expression = spelled(form, module, name, "alias")
    lines = [imports]
    lines += ["pass"] * other_lines
    lines += place.format(expression).split("\n")
    if is_in_function:
        lines = ["def outer():", *(f"    {line}" for line in lines)]
    findings = checked("\n".join(lines))["findings"]
    import_line = 2 if is_in_function else 1
    (line,) = [number for number, text in enumerate(lines, 1) if expression in text]
    assert {finding["line"] for finding in findings} <= {import_line, line}
    if module.startswith("tf_keras"):
        inside = namespace.removeprefix("compat.v1.").removeprefix("keras.")
        expected = f"tf_keras.{inside}.{name}"
    else:
        expected = f"tf.{namespace}.{name}"
    assert expected in [f["name"] for f in findings if f["line"] == line]
    assert findings[-1]["replacement"].startswith("tf_lso.")
    assert findings[-1]["today"]
