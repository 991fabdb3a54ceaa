"""Rules: each has an id, an example, and a way to choose or to silence it."""

import json

import pytest

from tests.check.programs import outcome_of, rows, run
from tests.migrate.programs import diff_of
from tests.migrate.programs import outcome_of as diagnosed
from tf_lso import cli
from tf_lso.source import rules

pytestmark = pytest.mark.core

TF = "import tensorflow as tf\n"
# program -> the rules that fire, in order
FIRES = {
    "from tensorflow.keras.mixed_precision import experimental as mp": ["LSO101"],
    TF + "tf.keras.mixed_precision.LossScaleOptimizer(opt)": ["LSO102"],
    TF + "tf.keras.mixed_precision.global_policy()": ["LSO103"],
    TF + "tf.keras.mixed_precision.LossScaleOptimizer(opt, dynamic=False)": ["LSO104"],
    "loss = opt.get_scaled_loss(loss)": ["LSO105"],
    "scale = getattr(opt, 'get_scaled_loss', None)": ["LSO106"],
    "import tensorflow.contrib.mixed_precision": ["LSO107"],
    TF + "getattr(tf.keras.mixed_precision, name)": ["LSO108"],
    TF
    + "o = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(lr=1))": [
        "LSO102",
        "LSO109",
    ],
    TF
    + "class A(tf.keras.optimizers.Adam):\n    def _resource_apply_dense(self, g, v): 1": [
        "LSO110"
    ],
    TF + "tf.keras.mixed_precision.LossScaleOptimizer(o)\nm.load_weights(p)": [
        "LSO102",
        "LSO111",
    ],
    TF + "opt._loss_scale = 3": ["LSO112"],
}


@pytest.mark.parametrize("program", FIRES)
def test_each_rule_fires(program):
    assert [f.rule for f in outcome_of(program).findings] == FIRES[program]


def test_every_rule_is_among_them():
    assert set(rules.RULES) == {rule for found in FIRES.values() for rule in found}


@pytest.mark.parametrize("rule", rules.RULES)
def test_the_example_of_a_rule(rule):
    """What stands as its example fires it, and becomes what stands there."""
    entry = rules.RULES[rule]
    found = outcome_of(entry.before)
    assert rule in [one.rule for one in found.findings]
    done = diagnosed(entry.before, prefer="least")
    assert done.texts.get(None, "") == entry.after
    if not entry.after and rule != rules.SAME:
        assert [one.rule for one in done.left] == [rule]


@pytest.mark.parametrize("rule", rules.RULES)
def test_explain(rule, capsys):
    assert cli.main(["check", "--explain", rule]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{rule}: {rules.RULES[rule].title}\n\n")
    assert f"    {rules.RULES[rule].before.splitlines()[0]}\n" in printed


PROGRAM = (
    "import tensorflow as tf\n"
    "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
    "tf.keras.mixed_precision.experimental.set_policy('mixed_float16')\n"
)


@pytest.mark.parametrize(
    ("flags", "found", "code"),
    [
        ([], ["LSO102", "LSO101"], 1),
        (["--select", "LSO101"], ["LSO101"], 1),
        (["--ignore", "LSO101"], ["LSO102"], 1),
        (["--select", "LSO", "--ignore", "LSO101,LSO102"], [], 0),
    ],
)
def test_select_and_ignore(flags, found, code, tmp_path):
    path = tmp_path / "a.py"
    path.write_text(PROGRAM)
    done, printed = run("--format", "json", *flags, path)
    assert done == code
    assert [one["rule"] for one in json.loads(printed)["findings"]] == found


def test_an_unknown_rule_is_refused_with_those_that_are_known(capsys):
    for flags in (["--select", "LSO9"], ["--ignore", "E501"], ["--explain", "LSO1"]):
        with pytest.raises(SystemExit) as end:
            run(*flags, "a.py")
        assert end.value.code == 2
        assert "LSO101" in capsys.readouterr().err


def test_migrate_applies_the_selected_rules_only():
    new = diagnosed(PROGRAM, select=("LSO101",)).texts[None]
    assert diff_of(PROGRAM, new) == [
        "+import tf_lso",
        "-tf.keras.mixed_precision.experimental.set_policy('mixed_float16')",
        "+tf_lso.keras.mixed_precision.experimental.set_policy('mixed_float16')",
    ]


@pytest.mark.parametrize(
    ("comment", "counts"),
    [
        ("tf-lso: ignore", False),
        ("tf-lso: ignore[LSO102]", False),
        ("tf-lso: ignore[LSO101, LSO102]", False),
        ("tf-lso: ignore[LSO101]", True),
        ("ignore[LSO102]", True),
    ],
)
def test_a_comment_silences_a_line(comment, counts):
    lines = PROGRAM.splitlines()
    lines[1] += f"  # {comment}"
    program = "\n".join(lines) + "\n"
    found = [one.line for one in outcome_of(program).findings]
    assert found == ([2, 3] if counts else [3])
    assert (lines[1] in diagnosed(program).texts[None]) is not counts


def test_a_silenced_import_stays_and_so_do_its_uses():
    program = (
        "from tensorflow.keras import mixed_precision as mp  # tf-lso: ignore\n"
        "opt = mp.LossScaleOptimizer(opt)\n"
    )
    assert diagnosed(program).texts[None] == (
        program.split("\n")[0]
        + "\nimport tf_lso\nopt = tf_lso.keras.mixed_precision.LossScaleOptimizer(opt)\n"
    )


def test_fix_is_another_name_of_migrate_write(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("from tensorflow.keras.mixed_precision import experimental\n")
    code, printed = run("--fix", path)
    assert (code, "1 changed, in 1 place" in printed) == (0, True)
    assert path.read_text() == "from tf_lso.keras.mixed_precision import experimental\n"


class TestLike:
    """What `tf-lso run --like` gives a program."""

    PROGRAM = (
        "import tensorflow as tf\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(lr=1))\n"
        "loss = opt.get_scaled_loss(loss)\n"
        "tf.keras.mixed_precision.experimental.set_policy('mixed_float16')\n"
        "class A(tf.keras.optimizers.Adam):\n"
        "    def _resource_apply_dense(self, grad, var): 1\n"
    )

    def found(self, like, tmp_path):
        path = tmp_path / "a.py"
        path.write_text(self.PROGRAM)
        printed = run("--format", "json", *(["--like", like] if like else []), path)[1]
        document = json.loads(printed)
        return [
            (one["rule"], one["line"], one["status"]) for one in document["findings"]
        ], document["target"]

    def test_the_legacy_optimizers(self, tmp_path):
        assert self.found("2.4", tmp_path) == (
            [
                ("LSO103", 2, "works"),
                ("LSO105", 3, "works"),
                ("LSO101", 4, "breaks"),
            ],
            "2.21, like 2.4",
        )

    def test_the_newer_optimizers_of_keras_2(self, tmp_path):
        found, _ = self.found("2.12", tmp_path)
        assert ("LSO109", 2, "unsure") in found and ("LSO105", 3, "works") in found

    def test_plain_keras_is_the_package_that_is_installed(self, tmp_path):
        path = tmp_path / "a.py"
        path.write_text("import keras\nkeras.mixed_precision.LossScaleOptimizer(o)\n")
        printed = run("--format", "json", "--like", "2.4", path)[1]
        assert json.loads(printed)["findings"][0]["status"] == "breaks"

    def test_keras_3(self, tmp_path):
        assert self.found("2.16", tmp_path)[0] == self.found(None, tmp_path)[0]

    @pytest.mark.parametrize("like", ["1.15", "2.99", "2", "new"])
    def test_another_version_is_refused(self, like, capsys):
        with pytest.raises(SystemExit):
            run("--like", like, "a.py")
        assert "from 2.0 to 2.21" in capsys.readouterr().err

    def test_migrate_installs_it(self):
        new = diagnosed(self.PROGRAM, like="2.4").texts[None]
        assert new.startswith('import tf_lso\n\ntf_lso.install(like="2.4")\n\nimport')
        assert "tf_lso.keras.mixed_precision.LossScaleOptimizer" in new


class TestFindings:
    """What real code showed: program -> its findings."""

    def test_a_policy_alone_breaks_nothing(self):
        line = "tf.keras.mixed_precision.set_global_policy('mixed_float16')\n"
        name = "tf.keras.mixed_precision.set_global_policy"
        assert rows(TF + line) == [f"2 {name} unsure"]
        with_replicas = f"{TF}s = tf.distribute.MirroredStrategy()\n{line}"
        assert rows(with_replicas) == [f"3 {name} breaks"]

    def test_nothing_is_silent_below_an_import_that_fails(self):
        program = (
            "from tensorflow.keras.mixed_precision import experimental\n"
            "x = hasattr(opt, 'get_scaled_loss')\n"
        )
        assert [row.split()[-1] for row in rows(program)] == ["breaks", "works"]

    def test_nothing_is_silent_behind_a_test_that_fails(self):
        """As in tf-models-official 2.4: the class that isinstance is given is gone."""
        program = (
            f"{TF}def scale(opt, loss):\n"
            "    mp = tf.keras.mixed_precision.experimental\n"
            "    if isinstance(opt, mp.LossScaleOptimizer):\n"
            "        loss = opt.get_scaled_loss(loss)\n"
            "    return loss\n"
        )
        assert [row.split()[-1] for row in rows(program)] == ["breaks"] * 3

    @pytest.mark.parametrize("base", ["tf.keras.optimizers.Adam", "Optimizer"])
    def test_a_class_s_own_decayed_lr(self, base):
        program = (
            f"{TF}class Mine({base}):\n"
            "    def update(self, v):\n"
            "        return self._decayed_lr(v.dtype)\n"
        )
        assert rows(program) == []

    def test_the_inner_optimizer_by_its_old_name(self):
        program = f"{TF}x = self.model.optimizer._optimizer\ny = self._optimizer\n"
        assert rows(program) == ["2 LossScaleOptimizer._optimizer unsure"]

    def test_tf_keras_has_no_other_name_today(self):
        program = "import tf_keras\ntf_keras.mixed_precision.LossScaleOptimizer(o)\n"
        (found,) = outcome_of(program).findings
        assert found.verdict.current == ""

    def test_an_optimizer_of_tf_keras_beside_the_rewrite(self):
        program = (
            "import tensorflow as tf, tf_keras\n"
            "o = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Adam())\n"
            "tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite(o)\n"
            "def step(optimizer, loss):\n"
            "    return optimizer.get_scaled_loss(loss)\n"
        )
        assert rows(program)[-1] == "5 LossScaleOptimizer.get_scaled_loss unsure"

    def test_the_private_state_of_a_loss_scale(self):
        program = (
            "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as l\n"
            "State = l._DynamicLossScaleState\n"
            "class Revised(State):\n    pass\n"
            "opt._loss_scale = Revised()\n"
        )
        found = [one for one in diagnosed(program).diagnostics if one.rule == "LSO112"]
        assert [one.line for one in found] == [3, 5]
        assert all("tf_lso.LossScale" in one.do for one in found)

    @pytest.mark.parametrize(
        "base",
        [
            "tf.keras.optimizers.legacy.Adam",
            "tf.compat.v1.train.Optimizer",
            "tf_keras.optimizers.Adam",
            "object",
        ],
    )
    def test_the_protocol_of_other_classes(self, base):
        program = (
            f"import tensorflow as tf, tf_keras\nclass A({base}):\n"
            "    def _resource_apply_dense(self, g, v): 1\n"
        )
        assert rows(program) == []

    def test_the_protocol_by_another_class(self):
        program = (
            "from tensorflow.keras.optimizers import Adam\n"
            "class A(Adam):\n    pass\n"
            "class B(A):\n    def _create_slots(self, v): 1\n"
        )
        assert [one.rule for one in outcome_of(program).findings] == ["LSO110"]

    COPY = (
        "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as lso\n"
        "def step(model, loss):\n"
        "    if isinstance(model.optimizer, lso.LossScaleOptimizer):\n"
        "        loss = model.optimizer.get_scaled_loss(loss)\n"
        "    opt = lso.LossScaleOptimizer(model.optimizer)\n"
        "    return opt.get_scaled_loss(loss)\n"
    )

    def test_a_program_of_tensorflow_s_copy_of_keras_alone_works(self):
        """As in that copy itself: its optimizers and its layers are the copy's, too."""
        program = f"from tensorflow.python.keras import layers\n{self.COPY}"
        assert {row.split()[-1] for row in rows(program)} == {"works"}
        assert diagnosed(program).texts == {}

    @pytest.mark.parametrize(
        "line", ["import tensorflow as tf\n", "from keras import layers\n"]
    )
    def test_one_of_another_keras_does_not(self, line):
        program = f"from tensorflow.python.keras import layers\n{line}{self.COPY}"
        assert "8 LossScaleOptimizer.get_scaled_loss breaks" in rows(program)
        assert "tf_lso.keras" in diagnosed(program).texts[None]

    def test_weights_by_name_are_those_of_layers(self):
        head = f"{TF}tf.keras.mixed_precision.LossScaleOptimizer(o)\n"
        found = outcome_of(f"{head}m.load_weights(p, by_name=True)\n").findings
        assert [one.rule for one in found] == ["LSO102"]

    def test_what_check_finds_is_changed_or_left(self):
        """gradient-accumulator: methods of an optimizer that another file makes."""
        program = (
            f"{TF}class Model(tf.keras.Model):\n"
            "    def train_step(self, data):\n"
            "        loss = self.optimizer.get_scaled_loss(self.loss(data))\n"
            "        return self.optimizer.get_unscaled_gradients(grads(loss))\n"
        )
        for more in (
            "",
            "x = tf.keras.mixed_precision.experimental.Policy('float32')\n",
        ):
            done = diagnosed(program + more)
            assert [one.line for one in done.left] == [4, 5]
            assert all("wraps the optimizer" in one.do for one in done.left)


class TestLeast:
    """By default what works in all versions stays."""

    STAYS = (
        f"{TF}p = tf.keras.mixed_precision.global_policy()\n",
        "from tensorflow.keras.mixed_precision import Policy, global_policy\n",
        "from keras import mixed_precision as mp\nmp.Policy('float32')\n",
        f"{TF}mp = tf.keras.mixed_precision\nmp.global_policy()\n",
        f"{TF}tf.keras.mixed_precision.set_global_policy('float32')\n",
    )
    MOVES = (
        f"{TF}tf.keras.mixed_precision.set_global_policy('mixed_float16')\n",
        "from tensorflow.keras.mixed_precision import Policy, LossScaleOptimizer\n",
        "from keras import mixed_precision as mp\nmp.Policy('x')\nmp.experimental\n",
        "from keras import mixed_precision\n",  # for whoever imports it from here
        "from tensorflow.compat.v2.keras.mixed_precision import Policy\n",
        # Its methods may use it, by `self.mp`.
        f"{TF}class A:\n    mp = tf.keras.mixed_precision\n    p = mp.Policy('x')\n",
    )

    @pytest.mark.parametrize("program", STAYS)
    def test_it_stays(self, program):
        done = diagnosed(program, prefer="least")
        assert (done.texts, done.left) == ({}, [])
        assert diagnosed(program).texts != {}

    @pytest.mark.parametrize("program", MOVES)
    def test_it_moves(self, program):
        new = diagnosed(program, prefer="least").texts[None]
        assert new == diagnosed(program).texts[None]

    def test_the_smaller_diff(self):
        program = (
            f"{TF}a = tf.keras.mixed_precision.global_policy()\n"
            "b = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
        )
        assert diff_of(program, diagnosed(program, prefer="least").texts[None]) == [
            "+import tf_lso",
            "-b = tf.keras.mixed_precision.LossScaleOptimizer(opt)",
            "+b = tf_lso.keras.mixed_precision.LossScaleOptimizer(opt)",
        ]
