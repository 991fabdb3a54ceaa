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
MODULES = {}
for _module, _namespace in names.MODULES.items():
    _uses = names.mirror_names(_namespace)
    if _uses:
        MODULES[_module] = [
            name for name, use in _uses.items() if not use.versions.startswith("2.16")
        ]
ALIASES = ("tf", "tf2", "keras", "K", "mp", "mixed_precision", "prec", "lso", "policy")


@st.composite
def uses_of_old_names(draw):
    """Draw an old name. Return a list of statements that import it, and its expression."""
    module = draw(st.sampled_from(sorted(MODULES)))
    name = draw(st.sampled_from(MODULES[module]))
    forms = FORMS
    if {"python", "src", "api"} & set(module.split(".")):
        # Private modules must be imported, because they are not attributes of their packages.
        forms = [form for form in FORMS if form not in BY_ATTRIBUTE]
    alias = draw(st.sampled_from(ALIASES))
    imports, expression = spelled(draw(st.sampled_from(forms)), module, name, alias)
    return imports.split("; "), expression


# Templates of programs. `imports` stands for the statements at the beginning of lines,
# `indented` for the same statements in an indented block, and `in_one_line` for the same
# statements in one line.
PLACES = {
    "module": """\
{imports}
FOUND.append({expression})
""",
    "function": """\
def f():
    {indented}
    return {expression}


FOUND.append(f())
""",
    "closure": """\
def f():
    {indented}

    def g():
        return {expression}

    return g()


FOUND.append(f())
""",
    "class": """\
class C:
    {indented}
    FOUND.append({expression})
""",
    "try": """\
try:
    {indented}
except ImportError:
    pass
FOUND.append({expression})
""",
    "if": """\
if FOUND is not None:
    {indented}
FOUND.append({expression})
""",
    "lambda": """\
{imports}
FOUND.append((lambda: {expression})())
""",
    "line": """\
{in_one_line}; FOUND.append({expression})
""",
}


@st.composite
def programs(draw):
    """Draw a program that uses one to five old names. Return the program and their number."""
    parts = []
    uses = draw(st.lists(uses_of_old_names(), min_size=1, max_size=5))
    for imports, expression in uses:
        place = PLACES[draw(st.sampled_from(sorted(PLACES)))]
        part = place.format(
            expression=expression,
            imports="\n".join(imports),
            indented="\n    ".join(imports),
            in_one_line="; ".join(imports),
        )
        parts.append(part)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join(parts).replace("\n", newline), len(parts)


def found_by(program):
    """Run a program. Return the list of objects that it has found by the old names."""
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
        expected = found_by(program)
    assert len(expected) == count
    new, file = migrated(program)
    if any(finding.why_not for finding in file.findings) or file.new == file.old:
        # `migrate` leaves a name that has two meanings or that a guard tests for. It also
        # leaves a program that has only names that still work.
        return
    for found, wanted in zip(found_by(new), expected, strict=True):
        assert found is wanted
