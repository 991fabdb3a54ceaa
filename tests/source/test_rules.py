"""Rules: each has an id, an example, and a way to choose or to silence it."""

import json

import pytest

from tests.source.programs import checked, example, migrated, run, write
from tf_lso import help
from tf_lso.names.targets import TARGETS
from tf_lso.source import rules

pytestmark = pytest.mark.core


@pytest.mark.parametrize("rule", rules.RULES)
def test_the_example_of_a_rule(rule):
    """What stands as its example fires it, and becomes what stands there."""
    before, after = example(rule)
    assert rule in [one["rule"] for one in checked(before)["findings"]]
    new, document = migrated(before, prefer="least")
    assert new == (after or before)
    if not after and rule != rules.SAME:
        assert [one["rule"] for one in document["left"]] == [rule]


def test_the_page_of_the_rules_has_each():
    assert [entry.name for entry in help.entries("rules.md")] == list(rules.RULES)


@pytest.mark.parametrize("rule", rules.RULES)
def test_explain(rule):
    code, printed = run("check", "--explain", rule)
    assert code == 0
    assert printed.startswith(f"{rule}: ")
    assert f"{example(rule)[0].splitlines()[0]}\n" in printed


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--select", "LSO9"], "LSO101"),
        (["--ignore", "E501"], "LSO101"),
        (["--explain", "LSO1"], "LSO101"),
        *(
            (["--like", like], "from 2.0 to 2.21")
            for like in ("1.15", "2.99", "2", "new")
        ),
        *(
            ([f"--target={version}"], f"{version!r}; use one of {', '.join(TARGETS)}")
            for version in ("2.11", "2.22", "1.15", "3", "newest", "")
        ),
    ],
)
def test_an_unknown_value_is_refused_with_those_that_are_known(flags, words, capsys):
    with pytest.raises(SystemExit) as end:
        run("check", *flags, "a.py")
    assert end.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("like", [None, "2.4"])
def test_the_reports_name_the_keras(like):
    flags = ["--target", "2.21", *(["--like", like] if like else [])]
    document = checked("import keras\n", *flags)
    assert document["target"] == ("2.21, like 2.4" if like else "2.21")


def test_fix_is_another_name_of_migrate_write_in_each_format(tmp_path):
    old = "from tensorflow.keras.mixed_precision import experimental\n"
    paths = [write(tmp_path / name, old) for name in ("a.py", "b.py")]
    code, printed = run("check", "--fix", paths[0])
    assert (code, "1 changed, in 1 place" in printed) == (0, True)
    code, printed = run("check", "--fix", "--format", "json", paths[1])
    document = json.loads(printed)
    assert (code, document["written"], len(document["changed"])) == (0, True, 1)
    for path in paths:
        assert path.read_text() == old.replace("tensorflow", "tf_lso")
