"""Errors of programs under `install()` on Keras 3: prints which of them get the hint.

The programs are in keras3_errors.txt, with empty lines between them: first those that
worked in TensorFlow 2.0-2.15, which get it, then mistakes in any TensorFlow.
"""

import json
import linecache
import os
import pathlib
import re
import tempfile

import numpy as np
import tensorflow as tf

import tf_lso
from tf_lso.patches import hints

_, *SECTIONS = re.split(
    "^===.*\n",
    pathlib.Path(__file__).with_suffix(".txt").read_text("utf-8"),
    flags=re.M,
)

K = tf.keras
x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")


def network():
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def build(own):
    class Own(K.layers.Layer):
        build = own

    Own()(x)


def error_of(case):
    name = f"<{case}>"
    linecache.cache[name] = len(case), None, case.splitlines(keepends=True), name
    try:
        exec(compile(case, name, "exec"), dict(globals()))
    except Exception as error:
        return error
    raise AssertionError(f"{case} raises nothing")


if __name__ == "__main__":  # not where pytest imports it
    tf_lso.install()
    os.chdir(tempfile.mkdtemp())
    for section, wanted in zip(SECTIONS, (True, False), strict=True):
        cases = section.strip().split("\n\n")
        errors = {case: error_of(case) for case in cases}
        wrong = {
            case: f"{type(error).__name__}: {error}"
            for case, error in errors.items()
            if (hints.hint(error) is not None) != wanted
        }
        print(len(cases), json.dumps(wrong))
