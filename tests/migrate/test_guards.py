"""Guards that pass over today's optimizer are seen to, or told of."""

import pytest

from tests.migrate.programs import migrated, outcome_of
from tf_lso.commands import migrate

TF = "import tensorflow as tf\n"
GUARD = (
    "def scaled(opt, loss):\n"
    "    if hasattr(opt, 'get_scaled_loss'):\n"
    "        return opt.get_scaled_loss(loss)\n"
    "    return loss\n"
)
INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"
GUARDS = {
    "hasattr": GUARD,
    "getattr": "scale = getattr(opt, 'get_unscaled_gradients', None)\n",
    "except": "try:\n    x = opt.get_scaled_loss(x)\nexcept AttributeError:\n    pass\n",
    # It is Keras 3's own optimizer that is no instance of tf_lso's class.
    "isinstance": (
        "if isinstance(opt, tf.keras.mixed_precision.LossScaleOptimizer):\n"
        "    loss = opt.get_scaled_loss(loss)\n"
    ),
}


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_file_that_wraps_nothing_gets_install(guard):
    outcome = outcome_of(TF + guard)
    assert len(outcome.installs) == 1
    assert outcome.installs[0].startswith("a guard that asks for `get_")
    assert (outcome.left, outcome.changes) == ([], 1)
    assert migrated(TF + guard).startswith(INSTALL + TF)


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
@pytest.mark.parametrize(
    "wrapping", ["set_global_policy('mixed_float16')", "LossScaleOptimizer(o)"]
)
def test_one_that_wraps_by_tf_lso_does_not(guard, wrapping):
    program = f"{TF}x = tf.keras.mixed_precision.{wrapping}\n{guard}"
    outcome = outcome_of(program)
    assert (outcome.installs, outcome.left) == ([], [])
    assert "tf_lso.keras.mixed_precision." in migrated(program)


def test_a_policy_that_stays_with_keras_wraps_by_keras():
    program = (
        "from tensorflow.keras import mixed_precision as mp\n"
        f"mp.set_global_policy('mixed_float16')\n{GUARD}"
    )
    assert outcome_of(program).installs == []
    assert outcome_of(program, prefer="keras").installs != []


@pytest.mark.parametrize(
    "program", [TF + GUARD, GUARD], ids=["no install", "no import"]
)
def test_where_it_cannot_be_installed_the_place_is_told_of(program):
    outcome = outcome_of(program, install=program == GUARD)
    (item,) = outcome.left
    assert item.line == 2 + program.startswith(TF)
    assert item.name.endswith("get_scaled_loss")
    assert "Trains wrong, silently" in item.why
    assert "migrate what sets the policy" in item.do
    assert (outcome.installs, outcome.texts) == ([], {})


@pytest.mark.parametrize(
    "program",
    [
        f"{INSTALL}{TF}{GUARD}",
        f"{TF}{GUARD.replace('return loss', 'return opt.scale_loss(loss)')}",
        f"{TF}from tf_lso.keras.mixed_precision import set_policy\n"
        f"set_policy('mixed_float16')\n{GUARD}",
        f"import torch\n{GUARD}",
        f"{TF}# get_scaled_loss\n",
    ],
    ids=["installed", "served", "wrapped", "torch", "word"],
)
def test_what_needs_nothing_gets_nothing(program):
    outcome = outcome_of(program)
    assert (outcome.installs, outcome.left, outcome.texts) == ([], [], {})


def test_a_directory_is_searched_for_guards_too(tmp_path):
    """The file has no old name, and no part of one that other files are found by."""
    (tmp_path / "library.py").write_text(TF + GUARD)
    (file,) = migrate.migrate([str(tmp_path)], write=True).files
    assert file.installs and file.changes == 1
    assert (tmp_path / "library.py").read_text() == INSTALL + TF + GUARD
    assert migrate.migrate([str(tmp_path)]).changed == []
