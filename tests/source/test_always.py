"""What check finds, migrate changes or lists: in all programs of the other tests."""

import textwrap

import pytest

from tests.check import test_silent, test_uses
from tests.migrate import test_left
from tests.migrate.programs import cases
from tests.source import test_guards
from tf_lso.source import reasons
from tf_lso.source.diagnose import diagnose
from tf_lso.source.renaming import Options

pytestmark = pytest.mark.core

PROGRAMS = {
    **{f"case {name}": program for name, (program, _) in cases().items()},
    **{f"left {name}": program for name, (program, _) in test_left.LEFT.items()},
    **{f"use {name}": program for name, (program, _) in test_uses.METHODS.items()},
    **{f"silent {name}": p for name, (p, _) in test_silent.WRONG.items()},
    **{f"other {name}": p for name, (p, _) in test_silent.OTHERS.items()},
    **{f"guard {name}": p for name, (p, _) in test_guards.PROGRAMS.items()},
}


@pytest.mark.parametrize("options", [Options(), Options(install=False)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_fails_is_changed_or_listed(name, options):
    done = diagnose([(None, textwrap.dedent(PROGRAMS[name]))], options=options)
    told = {one.why for one in done.left}
    if told & {reasons.KERAS_3.why, reasons.GENERATED.why}:
        return  # told of once, for the whole file
    lost = [
        one
        for one in done.diagnostics
        if one.seen and one.fails and not (one.fix or one.why_not)
    ]
    assert [(one.line, one.rule, one.name) for one in lost] == []
