"""The programs of `troubleshooting_cases.md`, what they begin with, and how they run.

`python -m tests.troubleshooting_cases FOLDER` runs the programs of a folder one after the
other, and writes beside each what it wrote, TensorFlow's C++ included.
"""

import functools
import os
import re
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

import tf_lso
from tests.families import KERASES, keras, keras2

_HOROVOD = Path(__file__).parent / "horovod" / "stand_in"


class Case(NamedTuple):
    """A program with a trouble."""

    program: str  # with the two marks
    shows: str | None = None  # instead of the heading, where that is no message
    alone: bool = False  # it has to begin in a process of its own
    no_tensorflow: bool = False  # which must not have TensorFlow imported
    workers: int = 1
    stays: bool = False  # the fixed program shows the message too, a warning
    keras3: bool = False  # the trouble is of Keras 3, or of what is made for it


# What the programs begin with that share a process. Two logical CPUs are there.
PRELUDE = """
import os, tempfile
import numpy as np
import tensorflow as tf
import tf_lso
from tests.troubleshooting_cases import *
os.chdir(tempfile.mkdtemp())
variables = [tf.Variable(2.0)]
loss_of = lambda variables: variables[0] ** 2
"""


@functools.cache
def mirrored():
    """The one strategy of this process: two would share collective keys."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def legacy_step(opt, variable):
    """One step of TensorFlow 2.4-2.15."""
    with tf.GradientTape() as tape:
        scaled_loss = opt.get_scaled_loss(variable**2)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [variable]))
    opt.apply_gradients(zip(grads, [variable]))


def old_model(policy="float32", names=("one", "two"), optimizer="legacy"):
    """A model that Keras 2 has trained with a loss scale."""
    layer = keras2.layers.Dense
    model = keras2.Sequential(
        [
            layer(2, input_shape=(2,), name=names[0], dtype=policy),
            layer(2, name=names[1], dtype="float32"),
        ]
    )
    family = keras2.optimizers.legacy if optimizer == "legacy" else keras2.optimizers
    wrapper = keras2.mixed_precision.LossScaleOptimizer
    model.compile(wrapper(family.SGD(0.1, momentum=0.9)), "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 2)), verbose=0)
    return model


def old_checkpoint(path, **options):
    """The path of a checkpoint of such a model, written as in TensorFlow 2.15."""
    model = old_model(**options)
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(path)


def new_model(names=("one", "two"), built=True):
    """The same model in the Keras of TensorFlow."""
    layers = [keras.layers.Dense(2, name=name) for name in names]
    return keras.Sequential([keras.Input((2,)), *layers] if built else layers)


def sections(path):
    """Yield heading, options and program of each section of the page beside a module."""
    text = Path(path).with_suffix(".md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, options, program = re.fullmatch(
            r"(.*?)\n\n((?:- .*\n)*)\n*```py\n(.*?)```\n*", section, re.DOTALL
        ).groups()
        options = re.findall(r"^- (\w+)(?:: (.*))?$", options, re.MULTILINE)
        yield heading, options, program


def _case(options, program):
    given = dict(options)
    return Case(
        program=program.replace("@HOROVOD@", str(_HOROVOD)),
        shows=given.pop("shows", None),
        workers=int(given.pop("workers", 1)),
        **dict.fromkeys(given, True),
    )


CASES = {heading: _case(*case) for heading, *case in sections(__file__)}


def main(folder):
    """Run the programs of a folder in this process."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    for path in sorted(Path(folder).glob("*.py")):
        with path.with_suffix(".txt").open("wb") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        # The traceback must not name the heading, which is what the test looks for.
        code = compile(path.read_text("utf-8"), "<program>", "exec", dont_inherit=True)
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            print("FAILED")
        _take_back()
        sys.stdout.flush()
        sys.stderr.flush()


def _take_back():
    """Take back what programs change for those after them."""
    tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
    tf_lso.uninstall()
    for library in KERASES.values():
        library.mixed_precision.set_global_policy("float32")


if __name__ == "__main__":
    main(sys.argv[1])
