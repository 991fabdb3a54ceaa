"""Imports and aliases in any combination resolve to what `install()` would give."""

import hypothesis
import pytest
from hypothesis import strategies as st

import tf_lso
from tests.check.test_lookup import BY_ATTRIBUTE, FORMS, spelled
from tests.generation import HAS_KERAS3
from tests.migrate.programs import migrated
from tf_lso import names

# Spelled module -> the names that it had, for all modules that migrate moves. A name of
# today's API only stays: no version of that module before TensorFlow 2.16 had it.
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
    """(lines that bind, expression) of one name: some import, some way to it."""
    module = draw(st.sampled_from(sorted(MODULES)))
    name = draw(st.sampled_from(MODULES[module]))
    # TensorFlow's own copies are modules, to be imported; what Keras calls `src` and
    # `api` too.
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
    """A program of one to five such names, and how many there are."""
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
        return  # two meanings of one name, a guard, or only names that work
    assert [id(thing) for thing in found(new)] == [id(thing) for thing in expected]


@hypothesis.given(programs())
@hypothesis.settings(deadline=None, max_examples=40)
def test_what_is_left_is_told_and_the_rest_parses(generated):
    program, _ = generated
    new, file = migrated(program)  # parses, and needs no second run
    breaks = [one for one in file.findings if one.is_problem]
    assert "tf_lso" in new or all(one.why_not for one in breaks)
    newline = "\r\n" if "\r\n" in program else "\n"
    assert new.replace(newline, "").isprintable()
