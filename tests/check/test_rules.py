"""Each rule has an id, an example and an explanation, and can be selected or silenced."""

import re

import pytest

from tests.migrate.programs import checked, example, migrated, run, write
from tf_lso import help
from tf_lso.migrate import findings

pytestmark = pytest.mark.core


@pytest.mark.parametrize("rule", findings.RULES)
def test_the_example_of_a_rule(rule):
    """The rule finds the example on its page, and `migrate` gives the result on the page."""
    before, after = example(rule)
    assert rule in [one["rule"] for one in checked(before)["findings"]]
    new, file = migrated(before)
    assert new == (after or before)
    if not after and rule != findings.SAME:
        left = [one.rule for one in file.findings if one.why_not]
        assert left == [rule]


def test_the_page_of_the_rules_has_each():
    assert [entry.name for entry in help.entries("rules.md")] == list(findings.RULES)


@pytest.mark.parametrize("command", ["check", "migrate"])
@pytest.mark.parametrize("rule", findings.RULES)
def test_explain(rule, command):
    for name in (rule, rule.lower()):
        code, printed = run(command, "--explain", name)
        assert code == 0
        assert printed.startswith(f"{rule}: ")
        assert f"{example(rule)[0].splitlines()[0]}\n" in printed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--select", "LSO9"], "LSO101"),
        (["--select", "E501"], "LSO101"),
        (["--explain", "LSO1"], "LSO101"),
        *(
            (["--like", like], "from 2.0 to 2.21")
            for like in ("1.15", "2.99", "2", "new")
        ),
    ],
)
def test_an_unknown_value_is_refused_with_those_that_are_known(flags, words, capsys):
    with pytest.raises(SystemExit) as end:
        run("check", *flags, "a.py")
    assert end.value.code == 2
    assert words in capsys.readouterr().err


PROGRAM = """\
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)
tf.keras.mixed_precision.experimental.set_policy('mixed_float16')
"""


@pytest.mark.parametrize("chosen", ["LSO101", "lso101", "lso102,LSO101", "lso10"])
def test_ids_are_accepted_in_lower_case(chosen):
    found = {one["rule"] for one in checked(PROGRAM, "--select", chosen)["findings"]}
    wanted = tuple(chosen.upper().split(","))
    assert found == {rule for rule in ("LSO101", "LSO102") if rule.startswith(wanted)}


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("# tf-lso: ignore", True),
        ("# tf-lso: ignore[LSO101]", True),
        ("# tf-lso: ignore[lso101]", True),
        ("# tf-lso: ignore[LSO109, LSO101]  # why", True),
        ("# tf-lso: ignore[LSO102]", False),
        ("# noqa # tf-lso: ignore [lso101] why", True),
        ("# tf-lso: ignore [LSO999]", False),
        ("# tf-lso: ignored by the team", False),
        ("# ignore", False),
    ],
)
def test_a_comment_silences_a_rule_on_its_line(comment, silenced):
    program = PROGRAM.replace("16')\n", f"16')  {comment}\n")
    assert comment in program
    rules = [one["rule"] for one in checked(program)["findings"]]
    assert rules == (["LSO102"] if silenced else ["LSO102", "LSO101"])
    assert ("tf.keras.mixed_precision.exp" in migrated(program)[0]) == silenced


def test_a_string_silences_nothing():
    program = PROGRAM.replace("'mixed_float16'", "'# tf-lso: ignore'")
    rules = [one["rule"] for one in checked(program)["findings"]]
    assert rules == ["LSO102", "LSO101"]


def test_select_given_twice_chooses_both():
    given = ("--select", "LSO101", "--select", "lso102")
    rules = [one["rule"] for one in checked(PROGRAM, *given)["findings"]]
    assert rules == ["LSO102", "LSO101"]


@pytest.mark.parametrize("like", [None, "2.4"])
def test_the_reports_name_the_keras(like):
    assert (
        checked("import keras\n", *(["--like", like] if like else []))["like"] == like
    )


def test_exit_zero(tmp_path):
    path = write(tmp_path / "a.py", PROGRAM)
    assert run("check", path)[0] == 1
    code, printed = run("check", "--exit-zero", path)
    assert (code, len(re.findall("LSO10", printed))) == (0, 2)
    assert run("check", "--exit-zero", path, tmp_path / "missing.py")[0] == 2
