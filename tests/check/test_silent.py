"""Guards that let today's program train wrong are the worst that there is to tell."""

import json
import textwrap

import pytest

from tests.check.programs import outcome_of, rows, run

pytestmark = pytest.mark.core

LOSS = "LossScaleOptimizer.get_scaled_loss"
GRADIENTS = "LossScaleOptimizer.get_unscaled_gradients"

# What takes the silent path on Keras 3: program -> its findings.
WRONG = {
    "hasattr": (
        """
        def train_step(opt, loss, grads):
            if hasattr(opt, "get_scaled_loss"):
                loss = opt.get_scaled_loss(loss)
            if hasattr(opt, "get_unscaled_gradients"):
                grads = opt.get_unscaled_gradients(grads)
        """,
        [
            f"3 {LOSS} wrong",
            f"4 {LOSS} (breaks)",
            f"5 {GRADIENTS} wrong",
            f"6 {GRADIENTS} (breaks)",
        ],
    ),
    "hasattr in a value": (
        "loss = opt.get_scaled_loss(x) if hasattr(opt, 'get_scaled_loss') else x",
        [f"1 {LOSS} (breaks)", f"1 {LOSS} wrong"],
    ),
    "hasattr and more": (
        """
        if fp16 and hasattr(self.optimizer, "get_scaled_loss"):
            loss = self.optimizer.get_scaled_loss(loss)
        """,
        [f"2 {LOSS} wrong", f"3 {LOSS} (breaks)"],
    ),
    "hasattr is kept": (
        """
        class Trainer:
            def __init__(self, opt):
                self.scales = hasattr(opt, "get_scaled_loss")
        """,
        [f"4 {LOSS} wrong"],
    ),
    "not hasattr": (
        """
        if not hasattr(opt, "get_scaled_loss"):
            scaled = loss
        else:
            scaled = opt.get_scaled_loss(loss)
        """,
        [f"2 {LOSS} wrong", f"5 {LOSS} (breaks)"],
    ),
    "getattr with a default": (
        """
        scale = getattr(opt, "get_scaled_loss", None)
        loss = getattr(opt, "get_scaled_loss", lambda x: x)(loss)
        """,
        [f"2 {LOSS} wrong", f"3 {LOSS} wrong"],
    ),
    "except": (
        """
        try:
            loss = opt.get_scaled_loss(loss)
        except AttributeError:
            pass
        try:
            loss = opt.get_scaled_loss(loss)
        except:
            loss = loss
        try:
            scale = getattr(opt, "get_scaled_loss")
        except (TypeError, AttributeError):
            scale = None
        """,
        [f"3 {LOSS} wrong", f"7 {LOSS} wrong", f"11 {LOSS} wrong"],
    ),
    "suppress": (
        """
        import contextlib
        with contextlib.suppress(AttributeError):
            loss = opt.get_scaled_loss(loss)
        """,
        [f"4 {LOSS} wrong"],
    ),
    "isinstance of a class that is gone": (
        """
        try:
            from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer
        except ImportError:
            LossScaleOptimizer = None
        def scale(opt, loss):
            if LossScaleOptimizer and isinstance(opt, LossScaleOptimizer):
                return opt.get_scaled_loss(loss)
            return loss
        """,
        [
            "3 tf.keras.mixed_precision.experimental.LossScaleOptimizer (breaks)",
            f"8 {LOSS} wrong",
        ],
    ),
    "a branch for Keras 3 in another function": (
        """
        def right(opt, loss):
            if hasattr(opt, "get_scaled_loss"):
                return opt.get_scaled_loss(loss)
            return opt.scale_loss(loss)
        def wrong(opt, loss):
            if hasattr(opt, "get_scaled_loss"):
                return opt.get_scaled_loss(loss)
            return loss
        """,
        [
            f"3 {LOSS} works",
            f"4 {LOSS} (breaks)",
            f"7 {LOSS} wrong",
            f"8 {LOSS} (breaks)",
        ],
    ),
    "to ask whether it scales is not to scale": (
        """
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        elif hasattr(opt, "scale_loss"):
            pass
        """,
        [f"2 {LOSS} wrong", f"3 {LOSS} (breaks)"],
    ),
}

# What does not.
OTHERS = {
    "a branch for Keras 3": (
        """
        class Model(tf.keras.Model):
            def train_step(self, data):
                with tf.GradientTape() as tape:
                    loss = self.loss(data)
                    if hasattr(self.optimizer, "get_scaled_loss"):
                        scaled = self.optimizer.get_scaled_loss(loss)
                    elif hasattr(self.optimizer, "scale_loss"):
                        scaled = self.optimizer.scale_loss(loss)
                    else:
                        scaled = loss
                grads = tape.gradient(scaled, self.trainable_variables)
                if hasattr(self.optimizer, "get_unscaled_gradients"):
                    grads = self.optimizer.get_unscaled_gradients(grads)
        """,
        [
            f"6 {LOSS} works",
            f"7 {LOSS} (breaks)",
            f"13 {GRADIENTS} works",
            f"14 {GRADIENTS} (breaks)",
        ],
    ),
    "an except clause for Keras 3": (
        """
        def scaled(opt, loss):
            try:
                return opt.get_scaled_loss(loss)
            except AttributeError:
                return getattr(opt, "scale_loss")(loss)
        """,
        [f"4 {LOSS} (breaks)"],
    ),
    "what the answer is kept for serves Keras 3": (
        """
        class Trainer:
            def __init__(self, opt):
                self.old = hasattr(opt, "get_scaled_loss")
            def step(self, loss):
                scale = self.opt.get_scaled_loss if self.old else self.opt.scale_loss
        """,
        [f"4 {LOSS} works", f"6 {LOSS} breaks"],
    ),
    "a guard that raises": (
        """
        if not hasattr(opt, "get_scaled_loss"):
            raise TypeError(opt)
        assert hasattr(opt, "get_unscaled_gradients")
        try:
            loss = opt.get_scaled_loss(loss)
        except AttributeError as error:
            raise RuntimeError("wrap it") from error
        """,
        [f"2 {LOSS} works", f"4 {GRADIENTS} works", f"6 {LOSS} (breaks)"],
    ),
    "versions": (
        """
        import tensorflow as tf
        if tf.__version__.startswith("2.4.") and hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        """,
        [f"3 {LOSS} (wrong)", f"4 {LOSS} (breaks)"],
    ),
    "install": (
        """
        import tf_lso
        tf_lso.install()
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        """,
        [f"4 {LOSS} unsure", f"5 {LOSS} unsure"],
    ),
    "tf_lso": (
        """
        import tf_lso
        opt = tf_lso.LossScaleOptimizer(opt)
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        """,
        [],
    ),
    "other methods": (
        "x = hasattr(opt, 'dynamic_counter')",
        ["1 LossScaleOptimizer.dynamic_counter works"],
    ),
    "another library": ("import torch\nx = hasattr(opt, 'get_scaled_loss')", []),
    "its own": (
        """
        class Mine:
            def get_scaled_loss(self, loss):
                return loss if hasattr(self, "get_scaled_loss") else 0
        """,
        [],
    ),
    "a text": ("x = 'get_scaled_loss' in source_code", []),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_guard_that_trains_wrong(case):
    program, expected = case
    assert rows(program) == expected
    assert outcome_of(program).exit_code == 1


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_one_that_does_not(case):
    program, expected = case
    assert rows(program) == expected
    fails = any(row.endswith(" breaks") for row in expected)
    assert outcome_of(program).exit_code == fails


def test_the_report_says_it_in_words(tmp_path):
    program = tmp_path / "library.py"
    program.write_text(textwrap.dedent(WRONG["hasattr"][0]))
    code, said = run(program)
    assert code == 1
    assert "trains wrong, silently  LossScaleOptimizer.get_scaled_loss" in said
    assert "4 legacy uses, 2 would train wrong, silently, 0 would break" in said
    assert "tf-lso run" in said.splitlines()[-1]
    _, said = run("--format", "json", program)
    document = json.loads(said)
    assert document["findings"][0]["status"] == "wrong"
    assert (document["summary"]["wrong"], document["summary"]["exit_code"]) == (2, 1)
