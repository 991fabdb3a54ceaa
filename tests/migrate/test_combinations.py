"""After `migrate`, names by any imports and aliases lead to what `install()` would give."""

import hypothesis
import pytest
from hypothesis import strategies as st

import tf_lso
from tests.check.test_lookup import BY_ATTRIBUTE, FORMS, spelled
from tests.generation import HAS_KERAS3
from tests.migrate.programs import migrated
from tf_lso import names

# Maps each old module to the names that it had before TensorFlow 2.16.
MODULES = {
    spelled: tuple(
        name
        for name, use in names.mirror_names(namespace).items()
        if not use.versions.startswith("2.16")
    )
    for spelled, namespace in names.MODULES.items()
    if names.mirror_names(namespace)
}
ALIASES = ("tf", "tf2", "keras", "K", "mp", "mixed_precision", "prec", "lso", "policy")


@st.composite
def reached(draw):
    """Draw an old name. Return a list of statements that import it, and its expression."""
    module = draw(st.sampled_from(sorted(MODULES)))
    name = draw(st.sampled_from(MODULES[module]))
    # Private modules must be imported, because they are not attributes of their packages.
    only = {"python", "src", "api"} & set(module.split("."))
    forms = [form for form in FORMS if not (only and form in BY_ATTRIBUTE)]
    alias = draw(st.sampled_from(ALIASES))
    binds, expression = spelled(draw(st.sampled_from(forms)), module, name, alias)
    return binds.split("; "), expression


PLACES = {
    "module": "{binds}\nFOUND.append({expression})\n",
    "function": "def f():\n    {inner}\n    return {expression}\n\n\nFOUND.append(f())\n",
    "closure": (
        "def f():\n    {inner}\n\n    def g():\n        return {expression}\n\n"
        "    return g()\n\n\nFOUND.append(f())\n"
    ),
    "class": "class C:\n    {inner}\n    FOUND.append({expression})\n",
    "try": "try:\n    {inner}\nexcept ImportError:\n    pass\nFOUND.append({expression})\n",
    "if": "if FOUND is not None:\n    {inner}\nFOUND.append({expression})\n",
    "lambda": "{binds}\nFOUND.append((lambda: {expression})())\n",
    "line": "{line}; FOUND.append({expression})\n",
}


@st.composite
def programs(draw):
    """Draw a program that uses one to five old names. Return the program and their number."""
    parts = []
    for binds, expression in draw(st.lists(reached(), min_size=1, max_size=5)):
        place = PLACES[draw(st.sampled_from(sorted(PLACES)))]
        ways = {"binds": "\n", "inner": "\n    ", "line": "; "}
        joined = {name: between.join(binds) for name, between in ways.items()}
        parts.append(place.format(expression=expression, **joined))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join(parts).replace("\n", newline), len(parts)


def found(program):
    namespace = {"FOUND": [], "__name__": "generated"}
    exec(compile(program, "generated", "exec"), namespace)
    return namespace["FOUND"]


@pytest.mark.slow
@pytest.mark.skipif(
    not HAS_KERAS3, reason="Keras 2 has its private modules at their old paths"
)
@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(programs())
def test_every_name_is_the_object_that_install_gives(generated):
    program, count = generated
    with tf_lso.install():
        expected = found(program)
    assert len(expected) == count
    new, file = migrated(program)
    reasons = [one.why_not for one in file.findings if one.why_not]
    if reasons or file.new == file.old:
        # `migrate` leaves a name that has two meanings or that a guard tests for. It also
        # leaves a program that has only names that still work.
        return
    assert [id(thing) for thing in found(new)] == [id(thing) for thing in expected]


@hypothesis.given(programs())
@hypothesis.settings(deadline=None, max_examples=40)
def test_what_is_left_is_told_and_the_rest_parses(generated):
    program, _ = generated
    # `migrated` asserts that the new program is Python.
    new, file = migrated(program)
    breaks = [one for one in file.findings if one.is_problem]
    assert "tf_lso" in new or all(one.why_not for one in breaks)
    newline = "\r\n" if "\r\n" in program else "\n"
    assert new.replace(newline, "").isprintable()
