"""Each rule has an id, an example and an explanation, and can be selected or silenced."""

import pytest

from tests.migrate.programs import (
    checked,
    example,
    migrated,
    reported_problems,
    run,
    write,
)
from tf_lso.migrate import findings


def rules_found_in(program, *flags):
    """Return the rules of all findings in a program, in the order of the findings."""
    return [finding["rule"] for finding in checked(program, *flags)["findings"]]


@pytest.mark.parametrize("rule", findings.RULES)
def test_the_example_of_a_rule(rule):
    """The rule finds the example on its page, and `migrate` gives the result on the page."""
    before, after = example(rule)
    assert rule in rules_found_in(before)
    new, file = migrated(before)
    assert new == (after or before)
    if not after and rule != findings.SAME:
        left = [finding.rule for finding in file.findings if finding.why_not]
        assert left == [rule]


@pytest.mark.parametrize("command", ["check", "migrate"])
@pytest.mark.parametrize("name", ["LSO105", "lso105"])
def test_explain_prints_the_example_of_a_rule(name, command):
    code, printed = run(command, "--explain", name)
    assert code == 0
    assert printed.startswith("LSO105: ")
    assert f"{example('LSO105')[0].splitlines()[0]}\n" in printed


# What a program of 2020 means for the Keras of each version.
OF_2020 = """\
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(lr=1))
loss = opt.get_scaled_loss(loss)
tf.keras.mixed_precision.experimental.set_policy('mixed_float16')
class A(tf.keras.optimizers.Adam):
    def _resource_apply_dense(self, grad, var): 1
"""
KERAS_3 = [
    "2:7 LSO102 breaks",
    "2:75 LSO109 breaks",
    "3:12 LSO105 breaks",
    "4:1 LSO101 breaks",
    "6:9 LSO110 unsure",
]


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], KERAS_3),
        (["--like", "2.4"], ["4:1 LSO101 breaks"]),
        (["--like", "2.10"], ["4:1 LSO101 breaks"]),
        (["--like", "2.11"], ["4:1 LSO101 breaks", "6:9 LSO110 unsure"]),
        (["--like", "2.16"], KERAS_3),
    ],
)
def test_with_like_the_report_is_about_the_keras_of_that_version(flags, found):
    assert reported_problems(OF_2020, *flags) == found


@pytest.mark.parametrize(
    ("flags", "found"), [([], ["2:1 LSO102 breaks"]), (["--like", "2.4"], [])]
)
def test_with_like_plain_keras_is_the_keras_of_tf_keras(flags, found):
    program = "import keras\nkeras.mixed_precision.LossScaleOptimizer(o)\n"
    assert reported_problems(program, *flags) == found


# Why `migrate` leaves a use to a person, or adds the line that installs tf_lso.
REASONS = [
    ("from tensorflow.keras.mixed_precision.experimental import *\n", "star import"),
    (
        "import keras\nkeras = f()\nkeras.mixed_precision.Policy\n",
        "may refer to something",
    ),
    (
        "tf.keras.mixed_precision.Policy\n",
        "Write tf_lso.keras.mixed_precision.Policy by",
    ),
    (
        "import keras\n(keras).src.mixed_precision.policy\n",
        "a comment or parentheses",
    ),
    (
        "try:\n    import keras.mixed_precision.experimental\nexcept ImportError: 0\n",
        "An `except` clause",
    ),
    (
        "import keras\nif hasattr(keras, 'x'):\n    keras.mixed_precision.experimental\n",
        "A test around it",
    ),
    (
        "from keras.mixed_precision import LossScaleOptimizer as X\n"
        "X(o, 8).get_scaled_loss(x)\n",
        "Only Keras 3 accepts a number",
    ),
    ("import tensorflow.keras\nopt.get_scaled_loss(x)\n", "Nothing in this file makes"),
    (
        "import keras\nkeras.mixed_precision.experimental\nkeras.optimizers.SGD().lr(1)\n",
        "Call the schedule itself",
    ),
]


@pytest.mark.parametrize(("program", "words"), REASONS)
def test_the_report_says_why_a_use_is_left_to_a_person(program, words):
    found = checked(program)["findings"]
    assert any(words in (finding["why_not"] or "") for finding in found), found


@pytest.mark.parametrize(
    ("flags", "known_values"),
    [
        (["--select", "LSO9"], "LSO101"),
        (["--explain", "LSO1"], "LSO101"),
        (["--like", "1.15"], "from 2.0 to 2.21"),
        (["--like", "2.99"], "from 2.0 to 2.21"),
    ],
)
def test_an_unknown_value_is_refused_and_known_values_are_shown(
    flags, known_values, capsys
):
    with pytest.raises(SystemExit) as end:
        run("check", *flags, "a.py")
    assert end.value.code == 2
    assert known_values in capsys.readouterr().err


PROGRAM = """\
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)
tf.keras.mixed_precision.experimental.set_policy('mixed_float16')
"""


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        (["--select", "LSO101"], ["LSO101"]),
        (["--select", "lso101"], ["LSO101"]),
        (["--select", "lso102,LSO101"], ["LSO102", "LSO101"]),
        (["--select", "lso10"], ["LSO102", "LSO101"]),
        (["--select", "LSO101", "--select", "lso102"], ["LSO102", "LSO101"]),
    ],
)
def test_select_accepts_ids_and_beginnings_of_ids_in_any_case(flags, rules):
    assert rules_found_in(PROGRAM, *flags) == rules


@pytest.mark.parametrize(
    ("comment", "silences"),
    [
        ("# tf-lso: ignore", True),
        ("# tf-lso: ignore[LSO101]", True),
        ("# tf-lso: ignore[LSO109, LSO101]  # why", True),
        ("# tf-lso: ignore[LSO102]", False),
        ("# noqa # tf-lso: ignore [lso101] why", True),
        ("# tf-lso: ignore [LSO999]", False),
        ("# tf-lso: ignored by the team", False),
    ],
)
def test_a_comment_silences_a_rule_on_its_line(comment, silences):
    program = PROGRAM.replace("16')\n", f"16')  {comment}\n")
    assert comment in program
    new, _ = migrated(program)
    if silences:
        assert rules_found_in(program) == ["LSO102"]
        assert "tf.keras.mixed_precision.experimental" in new
    else:
        assert rules_found_in(program) == ["LSO102", "LSO101"]
        assert "tf.keras.mixed_precision.experimental" not in new


def test_the_text_of_such_a_comment_in_a_string_silences_nothing():
    program = PROGRAM.replace("'mixed_float16'", "'# tf-lso: ignore'")
    assert rules_found_in(program) == ["LSO102", "LSO101"]


@pytest.mark.parametrize("version", ["2.0", "2.21"])
def test_the_report_contains_the_value_of_like(version):
    assert checked("import keras\n", "--like", version)["like"] == version


def test_with_exit_zero_findings_are_no_failure_but_a_missing_file_is(tmp_path):
    path = write(tmp_path / "a.py", PROGRAM)
    assert run("check", path)[0] == 1
    code, printed = run("check", "--exit-zero", path)
    assert code == 0
    assert printed.count(": LSO10") == 2
    assert run("check", "--exit-zero", path, tmp_path / "missing.py")[0] == 2
