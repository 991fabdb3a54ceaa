"""What is not certain is left as it is, and told of with its reason."""

import pytest

from tests.migrate.programs import diff_of, migrated, outcome_of

TF = "import tensorflow as tf\n"
# name -> (program, [(line, words of the reason or remedy)]); nothing of it changes.
LEFT = {
    "a name asked for by a variable": (
        f"{TF}module = getattr(tf.keras, name)\n",
        [(2, "known only when it runs"), (2, "Ask tf_lso.keras.mixed_precision")],
    ),
    "the same of a module that stays": (
        f"{TF}scale = getattr(tf.train.experimental, name)\n",
        [(2, "tf_lso.train.experimental")],
    ),
    "a star": (
        "from tensorflow.keras.mixed_precision.experimental import *\n"
        "set_policy('mixed_float16')\n",
        [(1, "star import")],
    ),
    "what a star brings": (
        "from tensorflow.keras import *\nmixed_precision.set_global_policy('x')\n",
        [(2, "star import")],
    ),
    "a name bound again": (
        f"{TF}tf = wrap(tf)\ntf.keras.mixed_precision.Policy('x')\n",
        [(3, "something else too"), (3, "tf_lso.keras.mixed_precision.Policy")],
    ),
    "a name deleted": (
        f"{TF}tf.keras.mixed_precision.Policy('x')\ndel tf\n",
        [(2, "something else too")],
    ),
    "a parameter of the same name": (
        f"{TF}def f(tf):\n    return tf.keras.mixed_precision.Policy('x')\n",
        [(3, "something else too")],
    ),
    "a loop variable": (
        f"{TF}for tf in modules:\n    tf.keras.mixed_precision.Policy('x')\n",
        [(3, "something else too")],
    ),
    "one of two libraries": (
        "try:\n    import tensorflow.keras as K\nexcept ImportError:\n"
        "    import other as K\nK.mixed_precision.Policy('x')\n",
        [(5, "several things")],
    ),
    "two generations": (
        f"{TF}x = tf.train if old else tf.keras\nx.experimental.FixedLossScale(1)\n",
        [(3, "several things")],
    ),
    "nothing binds it": (
        "tf.keras.mixed_precision.Policy('x')\n",
        [(1, "Nothing in the file binds")],
    ),
    "bound where it is not seen": (
        "class A:\n    import tensorflow as tf\n\n    def f(self):\n"
        "        return tf.keras.mixed_precision.Policy('x')\n",
        [(5, "Nothing in the file binds")],
    ),
    "from another module": (
        "from .compat import tf\ntf.keras.mixed_precision.Policy('x')\n",
        [(2, "comes from another module")],
    ),
    "an attribute of an object": (
        f"{TF}def f(self):\n    self.tf.keras.mixed_precision.Policy('x')\n",
        [(3, "cannot be seen")],
    ),
    "a module that stays, handed on": (
        f"{TF}class A:\n    te = tf.train.experimental\n\n    def f(self):\n"
        "        return self.te.DynamicLossScale()\n",
        [(6, "cannot be seen"), (6, "tf_lso")],
    ),
    "a module that stays, as a default": (
        f"{TF}def f(te=tf.train.experimental):\n    return te.FixedLossScale(1)\n",
        [(3, "something else too")],
    ),
    "a module of what cannot be seen": (
        f"{TF}def f(tf):\n    mp = tf.keras.mixed_precision\n    return mp.Policy('x')\n",
        [(3, "something else too")],
    ),
    "the new name of a module": (
        f"{TF}for tf in x:\n    hasattr(tf.keras.mixed_precision, 'experimental')\n"
        "    tf.keras.mixed_precision.Policy.from_config({})\ndef f(self):\n"
        "    self.tf.keras.mixed_precision.Policy.from_config({})\n",
        [
            (3, "write tf_lso.keras.mixed_precision by hand"),
            (4, "write tf_lso.keras.mixed_precision.Policy.from_config by hand"),
            (6, "write tf_lso.keras.mixed_precision.Policy by hand"),
        ],
    ),
    "a table of modules": (
        "import sys\nsys.modules['tensorflow'].keras.mixed_precision.Policy('x')\n",
        [(2, "cannot be seen")],
    ),
    "TensorFlow by a call": (
        "policy = __import__('tensorflow').keras.mixed_precision.Policy('x')\n",
        [(1, "It starts with a call")],
    ),
    "one of two kinds of Keras": (
        f"{TF}if tf.__version__.startswith('2.16'):\n    import tf_keras as keras\n"
        "else:\n    import tensorflow.keras as keras\n"
        "opt = keras.mixed_precision.experimental.LossScaleOptimizer(inner, 1)\n",
        [(6, "several things"), (6, "Write tf_lso.keras.mixed_precision.experimental")],
    ),
    "an annotation in two parts": (
        f'{TF}x: "tf.keras" ".mixed_precision.Policy" = None\n'
        'y: """\ntf.keras.mixed_precision.Policy""" = None\n',
        [(3, "Write tf_lso"), (2, "Write tf_lso")],
    ),
    "tf.contrib": (
        f"{TF}from tensorflow.contrib.mixed_precision import FixedLossScaleManager\n"
        "tf.contrib.mixed_precision.LossScaleOptimizer(opt, manager)\n",
        [
            (2, "tf.mixed_precision.experimental.FixedLossScale does"),
            (3, "tf.keras.mixed_precision.LossScaleOptimizer does"),
        ],
    ),
    "Keras 3's own optimizer": (
        "import keras\nkeras.optimizers.LossScaleOptimizer(opt)\n"
        "keras.mixed_precision.set_global_policy('x')\n",
        [(3, "Keras 3's own")],
    ),
    "Keras 3's form of the constructor": (
        "from keras.mixed_precision import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(inner, 1024.0)\n",
        [(1, "Keras 3's own")],
    ),
    "Keras 3's protocol": (
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "loss = opt.scale_loss(loss)\n",
        [(2, "Keras 3's own")],
    ),
    "Keras 3's policies": (
        "from keras import mixed_precision\nmixed_precision.set_dtype_policy('x')\n",
        [(1, "Keras 3's own")],
    ),
    "tf_keras": (
        "import tf_keras\nfrom tf_keras.mixed_precision import LossScaleOptimizer\n"
        "tf_keras.mixed_precision.set_global_policy('x')\n",
        [(2, "--tf-keras"), (3, "--tf-keras")],
    ),
    "policies of another Keras": (
        "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n"
        "from keras.mixed_precision import Policy\n",
        [(3, "another than this one")],
    ),
    "an assignment to the name": (
        f"{TF}tf.keras.mixed_precision.LossScaleOptimizer = Mine\n"
        "del tf.keras.mixed_precision\n",
        [(2, "in the place of"), (3, "in the place of")],
    ),
    "code in a string": (
        'exec("from tensorflow.keras import mixed_precision")\n',
        [(1, "looks like code")],
    ),
    "code in an f-string": (
        'exec(f"tf.keras.mixed_precision.{name}()")\n'
        'exec(f"from {tf} import mixed_precision")\n',
        [(2, "looks like code")],
    ),
    "a name in a string": (
        'patch("tensorflow.keras.mixed_precision.LossScaleOptimizer")\n',
        [(1, "Write tf_lso.keras.mixed_precision.LossScaleOptimizer in it")],
    ),
    "an example in a docstring": (
        '"""A policy.\n\n>>> tf.keras.mixed_precision.Policy("x")\n"""\n',
        [(1, "looks like code")],
    ),
    "a name that never was": (
        f"{TF}from tensorflow.keras.mixed_precision import Polizy\n"
        "tf.keras.mixed_precision.LossScaleOptimiser\n",
        [(2, "No version"), (3, "No version")],
    ),
    "a comment within a name": (
        "import keras\nx = (keras.src.  # why\n  mixed_precision.policy)\n"
        "y = (keras.  # why\n  src.mixed_precision.policy.Policy)\n",
        [(4, "comment")],
    ),
    "parentheses within a name": (
        "import keras\ny = (keras).src.mixed_precision.policy.Policy\n",
        [(2, "parentheses")],
    ),
    "a generated file": (
        f"# Generated by a tool. DO NOT EDIT.\n{TF}tf.keras.mixed_precision.Policy\n",
        [(1, "Change what generates it")],
    ),
    "an import whose result is the package": (
        "m = __import__('tensorflow.keras.mixed_precision')\n",
        [(1, "known only when it runs")],
    ),
}
# The first of these names is in a form that moves: a comment stands behind it.
MOVES_IN_PART = {"a comment within a name"}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_and_told_of(name):
    program, expected = LEFT[name]
    outcome = outcome_of(program)
    if name not in MOVES_IN_PART:
        assert outcome.texts == {}
        assert outcome.changes == 0
    lines = program.splitlines()
    assert {item.line for item in outcome.left} == {line for line, _ in expected}
    for line, words in expected:
        said = [f"{i.why} {i.do}" for i in outcome.left if i.line == line]
        assert any(words in text for text in said), said
    for item in outcome.left:
        assert lines[item.line - 1].strip().startswith(item.code.rstrip("."))


MESSAGE = "use tf.keras.mixed_precision instead"
SILENT = {
    "a message": f"print({MESSAGE!r})\n",
    "a docstring": '"""Of tf.keras.mixed_precision.Policy."""\n',
    "torch": "import torch\ntorch.mixed_precision.Policy('x')\n",
    "other names of a shared module": f"{TF}tf.train.experimental.PythonState\n",
    "any name of TensorFlow": f"{TF}getattr(tf, name)\n",
    "the program's own module": "from . import mixed_precision\nmixed_precision.Policy\n",
    "today's names": "from keras.mixed_precision import DTypePolicy\n",
    "a custom object's key": 'load({"LossScaleOptimizer": Mine})\n',
}


@pytest.mark.parametrize("name", SILENT)
def test_what_is_no_old_name_is_not_spoken_of(name):
    outcome = outcome_of(SILENT[name])
    assert (outcome.texts, outcome.left) == ({}, [])


def test_a_generated_file_is_told_of_at_the_line_that_says_so():
    program = (
        f"{TF}\n# Generated by a tool. DO NOT EDIT.\ntf.keras.mixed_precision.Policy\n"
    )
    assert [item.line for item in outcome_of(program).left] == [3]


def test_the_rest_of_the_file_moves():
    program = f"{TF}getattr(tf.keras, name)\ntf.keras.mixed_precision.Policy('x')\n"
    assert diff_of(program, migrated(program)) == [
        "+import tf_lso",
        "-tf.keras.mixed_precision.Policy('x')",
        "+tf_lso.keras.mixed_precision.Policy('x')",
    ]
    assert len(outcome_of(program).left) == 1


def test_arguments_that_no_version_took_are_told_of_and_move():
    program = (
        "from tensorflow.keras.mixed_precision import LossScaleOptimizer as LSO\n"
        "a = LSO(inner, 'dynamic')\nb = LSO(inner, True)\nb.get_scaled_loss(loss)\n"
    )
    (item,) = outcome_of(program).left
    assert (item.line, item.do) == (
        2,
        "Write LossScaleOptimizer(optimizer): the scale is dynamic unless told "
        "otherwise. tf_lso.keras.mixed_precision.experimental.LossScaleOptimizer takes "
        "'dynamic'.",
    )
    assert migrated(program).startswith("from tf_lso.keras.mixed_precision import")


def test_old_and_new_protocol_in_one_file_is_an_old_file():
    program = (
        f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "if hasattr(opt, 'get_scaled_loss'):\n    loss = opt.get_scaled_loss(loss)\n"
        "else:\n    loss = opt.scale_loss(loss)\n"
    )
    assert "tf_lso.keras" in migrated(program)


class TestOptions:
    def test_optimizers_of_tf_keras_move_when_asked(self):
        program = (
            "import tf_keras\n"
            "from tf_keras.mixed_precision import LossScaleOptimizer, Policy\n"
            "opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())\n"
            "tf_keras.mixed_precision.set_global_policy('x')\n"
        )
        assert diff_of(program, migrated(program, tf_keras=True)) == [
            "-from tf_keras.mixed_precision import LossScaleOptimizer, Policy",
            "-opt = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())",
            "+import tf_lso",
            "+from tf_keras.mixed_precision import Policy",
            "+from tf_lso.keras.mixed_precision import LossScaleOptimizer",
            "+opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())",
        ]
        left = outcome_of(program, tf_keras=True).left
        assert [item.line for item in left] == [2, 4]

    def test_install_is_not_added_when_not_asked_for(self):
        program = (
            f"{TF}p = tf.keras.mixed_precision.Policy('x')\n"
            "opt = tf.keras.optimizers.Adam(lr=0.1)\n"
        )
        assert "tf_lso.install()" in migrated(program)
        assert "install" not in migrated(program, install=False)
        (item,) = outcome_of(program, install=False).left
        assert item.line == 3 and "`lr`" in item.why
