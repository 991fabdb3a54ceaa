"""What `--target` names: the TensorFlow that a program is checked for."""

import importlib.metadata
import importlib.util
import json

import pytest

from tests.check.programs import outcome_of, rows, run
from tf_lso.commands import check as command
from tf_lso.names.targets import NEWEST, TARGETS, TODAY

pytestmark = pytest.mark.core

STABLE = "tf.keras.mixed_precision"
KERAS_2 = ("2.12", "2.13", "2.14", "2.15")
KERAS_3 = ("2.16", "2.18", "2.21")
PROGRAM = """\
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(), False, 8)
loss = opt.get_scaled_loss(loss)
tf.keras.mixed_precision.set_global_policy("mixed_float16")
tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
"""


@pytest.mark.parametrize("target", TARGETS)
def test_what_breaks_depends_on_the_target(target):
    with_keras_3 = "breaks" if target not in KERAS_2 else "works"
    assert rows(PROGRAM, target=TARGETS[target]) == [
        f"2 {STABLE}.LossScaleOptimizer {with_keras_3}",
        f"3 LossScaleOptimizer.get_scaled_loss {with_keras_3}",
        f"4 {STABLE}.set_global_policy {with_keras_3}",
        f"5 {STABLE}.experimental.set_policy breaks",
    ]


# line -> target -> its status, and words of what is said of it. A line without a finding
# has None.
LINES = {
    "from keras.mixed_precision.policy import Policy": {
        "2.12": ("works", ""),
        "2.13": ("breaks", "TensorFlow 2.13 has no keras.mixed_precision.policy"),
        "2.21": ("breaks", "2.16 and later have no"),
    },
    "from keras.src.mixed_precision.policy import Policy": {
        "2.12": ("breaks", "ModuleNotFoundError"),
        "2.15": ("works", ""),
        "2.21": ("breaks", "ModuleNotFoundError"),
    },
    "from tensorflow.compat.v1.keras.mixed_precision import LossScaleOptimizer": {
        "2.15": ("works", ""),
        "2.21": ("breaks", "as an attribute only"),
    },
    "tf.compat.v1.keras.mixed_precision.Policy('float32')": {
        "2.15": ("breaks", "TensorFlow 2.16 and later have it"),
        "2.21": None,
    },
    "tf.keras.mixed_precision.DTypePolicy('mixed_float16')": {
        "2.15": ("breaks", "tf_lso.keras.mixed_precision.Policy works in all versions"),
        "2.21": None,
    },
    "tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite(opt)": {
        "2.15": ("breaks", "those of tf.keras.optimizers.legacy"),
        "2.21": ("breaks", "optimizers of Keras 3"),
    },
    "from tensorflow.python.keras.mixed_precision.policy import Policy": {
        "2.15": ("breaks", "own copy"),
        "2.21": ("breaks", "own copy"),
    },
    "tf.keras.mixed_precision.experimental.Policy('mixed_float16')": {
        "2.12": ("breaks", "TensorFlow 2.12 has no"),
        "2.21": ("breaks", "TensorFlow 2.0-2.8 had it"),
    },
}


@pytest.mark.parametrize(
    ("line", "target"), [(line, target) for line in LINES for target in LINES[line]]
)
def test_what_a_target_has(line, target):
    found = outcome_of(f"import tensorflow as tf\n{line}\n", target=TARGETS[target])
    if LINES[line][target] is None:
        assert found.findings == []
        return
    (finding,) = found.findings
    status, words = LINES[line][target]
    assert finding.verdict.status == status
    assert words in finding.verdict.today + finding.verdict.tf_lso


# call -> what Keras 2 raises, "" where it takes it.
CALLS = {
    "LossScaleOptimizer(opt, False, 128)": "",
    "LossScaleOptimizer(opt, dynamic=flag)": "",
    "LossScaleOptimizer(opt, True, 128, 5)": "",
    "LossScaleOptimizer(opt, 'dynamic')": "TypeError",
    "LossScaleOptimizer(opt, 128)": "TypeError",
    "LossScaleOptimizer(opt, tf.compat.v1.mixed_precision.FixedLossScale(8))": (
        "TypeError"
    ),
    "LossScaleOptimizer(opt, loss_scale='dynamic')": "TypeError",
    "LossScaleOptimizer(optimizer=opt)": "TypeError",
    "Policy('mixed_float16', loss_scale='dynamic')": "TypeError",
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_the_stable_classes_on_keras_2(call):
    name = call.partition("(")[0]
    program = f"import tensorflow as tf\nz = {STABLE}.{call}\n"
    outcome = outcome_of(program, target=TARGETS["2.15"])
    (finding,) = [f for f in outcome.findings if f.verdict.name == f"{STABLE}.{name}"]
    assert finding.verdict.error == CALLS[call]
    assert finding.fails == bool(CALLS[call])


# use -> its status with Keras 2
METHODS = {
    "opt.get_unscaled_gradients(g)": "works",
    "opt.loss_scale": "works",
    "opt.loss_scale()": "breaks",
    "opt._optimizer": "works",
    "opt.lr": "works",
    "opt.beta_1": "unsure",
    "opt.get_slot(x, 'm')": "unsure",
    "opt.compute_gradients(f, v)": "unsure",
    "opt.set_weights(w)": "works",
    "opt.variables()": "works",
}


@pytest.mark.parametrize("use", METHODS)
def test_methods_of_the_optimizer_on_keras_2(use):
    program = (
        "import tensorflow as tf\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam())\n"
        f"{use}\n"
    )
    found = outcome_of(program, target=TARGETS["2.15"]).findings
    assert [f.verdict.status for f in found if f.line == 3] == [METHODS[use]]


SILENT = (
    'if hasattr(opt, "get_scaled_loss"):\n    opt.get_scaled_loss(loss)\n',
    "try:\n    x = getattr(opt, 'get_scaled_loss')\nexcept AttributeError:\n    x = 1\n",
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", SILENT)
def test_keras_2_has_no_silent_guards(program, target):
    found = outcome_of(program, target=TARGETS[target]).findings
    expected = "works" if target in KERAS_2 else "wrong"
    assert found[0].verdict.status == expected


@pytest.mark.parametrize("target", ["2.12", "2.15", "2.18", "2.21"])
def test_a_test_of_the_version_is_decided_by_the_target(target):
    program = """\
        import tensorflow as tf
        if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 18):
            tf.keras.mixed_precision.experimental.Policy
        else:
            tf.keras.mixed_precision.experimental.set_policy
        """
    found = outcome_of(program, target=TARGETS[target]).findings
    assert [f.guarded for f in found] == [target in KERAS_3, target in KERAS_2]


def test_a_fallback_that_the_target_does_not_need_is_guarded():
    program = """\
        try:
            from keras.src.mixed_precision.policy import Policy
        except ImportError:
            from tensorflow.keras.mixed_precision.experimental import Policy
        """
    on_2_15 = rows(program, target=TARGETS["2.15"])
    assert on_2_15[1] == f"4 {STABLE}.experimental.Policy (breaks)"
    assert rows(program)[1] == f"4 {STABLE}.experimental.Policy breaks"


# --- The option.


@pytest.mark.parametrize("target", ["2.15", "2.15.1", "2.15.0rc1"])
def test_the_reports_name_the_target(target, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    code, text = run(path, target=target)
    assert code == 1
    assert "    2.15:   AttributeError: TensorFlow 2.15 has no" in text
    assert (
        "1 file read, for TensorFlow 2.15: 4 legacy uses, 1 would break, 3 works."
        in text
    )
    document = json.loads(run("--format", "json", path, target=target)[1])
    assert document["target"] == "2.15"
    assert (
        "breaks on TensorFlow 2.15" in run("--format", "github", path, target="2.15")[1]
    )


@pytest.mark.parametrize("target", ["2.11", "2.22", "1.15", "3", "newest", ""])
def test_an_unknown_target_is_refused_with_those_that_are_known(target, capsys):
    with pytest.raises(SystemExit) as exit:
        run("program.py", f"--target={target}", target=None)
    assert exit.value.code == 2
    said = capsys.readouterr().err
    assert repr(target) in said
    assert all(version in said for version in TARGETS)


class Metadata:
    """Stands for the metadata of installed packages: name -> version."""

    def __init__(self, monkeypatch, **versions):
        self.versions = {k.replace("_", "-"): v for k, v in versions.items()}
        monkeypatch.setattr(importlib.metadata, "version", self.version)
        owners = {"tensorflow": list(self.versions)} if versions else {}
        monkeypatch.setattr(
            importlib.metadata, "packages_distributions", lambda: owners
        )
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: object() if versions else None
        )

    def version(self, name):
        if name not in self.versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return self.versions[name]


@pytest.mark.parametrize(
    ("versions", "target"),
    [
        ({"tensorflow": "2.15.1"}, "2.15"),
        ({"tensorflow_cpu": "2.18.0"}, "2.18"),
        ({"tensorflow_of_a_vendor": "2.12.0+v1"}, "2.12"),
        ({"tensorflow": "2.8.4"}, "2.21"),
        ({"tensorflow": "2.99.0"}, "2.21"),
        ({}, "2.21"),
    ],
)
def test_the_default_is_the_installed_tensorflow(
    versions, target, monkeypatch, tmp_path
):
    Metadata(monkeypatch, **versions)
    assert (
        json.loads(run("--format", "json", tmp_path, target=None)[1])["target"]
        == target
    )


def test_the_installed_tensorflow_is_found():
    import tensorflow as tf

    assert command.installed() is TARGETS[".".join(tf.__version__.split(".")[:2])]


def test_the_newest_is_the_last_of_those_with_keras_3():
    assert NEWEST is TARGETS["2.21"]
    assert NEWEST.modules == TODAY.modules
