"""Every spelling of every old name is found, on its line, under its one name."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.check.programs import outcome_of, rows
from tf_lso import names
from tf_lso.source import lookup

pytestmark = pytest.mark.core

EXPERIMENTAL = "tf.keras.mixed_precision.experimental"
STABLE = "tf.keras.mixed_precision"

# program -> what is found, as "line name status"
PROGRAMS = {
    """import tensorflow as tf
    tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
    """: [f"2 {EXPERIMENTAL}.set_policy breaks"],
    """import tensorflow as tf2
    tf2.keras.mixed_precision.LossScaleOptimizer(opt)
    """: [f"2 {STABLE}.LossScaleOptimizer breaks"],
    """import tensorflow
    p = tensorflow.keras.mixed_precision.Policy("mixed_float16")
    """: [f"2 {STABLE}.Policy works"],
    """import tensorflow.compat.v1 as tf
    tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)
    tf.mixed_precision.experimental.DynamicLossScale()
    tf.keras.mixed_precision.experimental.Policy("x")
    """: [
        "2 tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite breaks",
        "3 tf.compat.v1.mixed_precision.experimental.DynamicLossScale works",
        "4 tf.compat.v1.keras.mixed_precision.experimental.Policy breaks",
    ],
    """import tensorflow as tfv1
    tfv1.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer(o, 1)
    tfv1.compat.v2.keras.mixed_precision.experimental.set_policy(p)
    tfv1.compat.v2.mixed_precision.experimental.FixedLossScale(1)
    """: [
        "2 tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer works",
        "3 tf.compat.v2.keras.mixed_precision.experimental.set_policy breaks",
        "4 tf.compat.v2.mixed_precision.experimental.FixedLossScale breaks",
    ],
    """from tensorflow import keras as K
    K.mixed_precision.experimental.Policy
    """: [f"2 {EXPERIMENTAL}.Policy breaks"],
    """import tensorflow.keras as keras
    keras.mixed_precision.experimental.global_policy()
    """: [f"2 {EXPERIMENTAL}.global_policy breaks"],
    """import keras
    keras.mixed_precision.experimental.get_layer_policy(layer)
    """: [f"2 {EXPERIMENTAL}.get_layer_policy breaks"],
    """from tensorflow.keras import mixed_precision as mxp
    mxp.experimental.set_policy("mixed_float16")
    """: [f"1 {STABLE} works", f"2 {EXPERIMENTAL}.set_policy breaks"],
    """from tensorflow.keras.mixed_precision import experimental as prec
    prec.Policy("mixed_float16")
    """: [f"1 {EXPERIMENTAL} breaks", f"2 {EXPERIMENTAL}.Policy breaks"],
    """import tensorflow.keras.mixed_precision.experimental as mp
    opt = mp.LossScaleOptimizer(opt, "dynamic")
    """: [f"1 {EXPERIMENTAL} breaks", f"2 {EXPERIMENTAL}.LossScaleOptimizer breaks"],
    """import tensorflow.keras.mixed_precision.experimental
    """: [f"1 {EXPERIMENTAL} breaks"],
    """from tensorflow.keras.mixed_precision.experimental import (
        Policy as DTypePolicy,
        set_policy,
    )
    set_policy(DTypePolicy("mixed_float16"))
    """: [f"2 {EXPERIMENTAL}.Policy breaks", f"3 {EXPERIMENTAL}.set_policy breaks"],
    """from keras.mixed_precision import LossScaleOptimizer, policy
    policy.Policy("mixed_float16")
    """: [
        f"1 {STABLE}.LossScaleOptimizer breaks",
        f"1 {STABLE}.policy breaks",
        f"2 {STABLE}.policy.Policy breaks",
    ],
    """from keras.src.mixed_precision.loss_scale_optimizer import LossScaleOptimizerV3
    import keras.src.mixed_precision.policy as policy
    """: [
        f"1 {STABLE}.loss_scale_optimizer.LossScaleOptimizerV3 breaks",
        f"2 {STABLE}.policy breaks",
    ],
    """from keras.api._v2.keras import mixed_precision
    mixed_precision.set_global_policy("mixed_float16")
    """: [f"1 {STABLE} breaks", f"2 {STABLE}.set_global_policy breaks"],
    """from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as lso
    from tensorflow.python.keras.mixed_precision.experimental import policy
    lso.LossScaleOptimizer(opt)
    policy.set_policy("mixed_float16")
    """: [
        f"1 {STABLE}.loss_scale_optimizer works",
        f"2 {EXPERIMENTAL}.policy breaks",
        f"3 {STABLE}.loss_scale_optimizer.LossScaleOptimizer breaks",
        f"4 {EXPERIMENTAL}.policy.set_policy breaks",
    ],
    """from tensorflow.python.training.experimental import loss_scale as ls
    ls.DynamicLossScale()
    """: [
        "1 tf.train.experimental.loss_scale works",
        "2 tf.train.experimental.loss_scale.DynamicLossScale works",
    ],
    """from tensorflow.train import experimental
    experimental.FixedLossScale(8)
    experimental.PythonState()
    """: ["2 tf.train.experimental.FixedLossScale breaks"],
    """from tensorflow.train.experimental import DynamicLossScale, PythonState
    """: ["1 tf.train.experimental.DynamicLossScale breaks"],
    """import tensorflow as tf
    tf.contrib.mixed_precision.LossScaleOptimizer(o, m)
    """: ["2 tf.contrib.mixed_precision.LossScaleOptimizer breaks"],
    """from tensorflow.contrib.mixed_precision import FixedLossScaleManager
    """: ["1 tf.contrib.mixed_precision.FixedLossScaleManager breaks"],
    """import tf_keras
    from tf_keras.mixed_precision import Policy
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    """: [
        "2 tf_keras.mixed_precision.Policy works",
        "3 tf_keras.mixed_precision.set_global_policy works",
    ],
    # tf_keras never had the experimental module.
    """from tf_keras.mixed_precision import experimental
    """: ["1 tf_keras.mixed_precision.experimental breaks"],
    # Names of today's API only.
    """import keras
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    keras.config.set_dtype_policy("mixed_float16")
    keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    """: [],
    # --- Aliases.
    """import tensorflow as tf
    mp = tf.keras.mixed_precision
    LSO = mp.LossScaleOptimizer
    opt = LSO(tf.keras.optimizers.SGD())
    """: [f"2 {STABLE} works", f"3 {STABLE}.LossScaleOptimizer breaks"],
    """import tensorflow as tf
    mp, n = tf.keras.mixed_precision.experimental, 1
    mp.Policy
    """: [f"2 {EXPERIMENTAL} breaks", f"3 {EXPERIMENTAL}.Policy breaks"],
    """import tensorflow as tf
    if (mp := tf.keras.mixed_precision.experimental):
        mp.Policy
    """: [f"2 {EXPERIMENTAL} breaks", f"3 {EXPERIMENTAL}.Policy breaks"],
    """import tensorflow as tf
    mp = tf.keras.mixed_precision
    mp = mp.experimental
    mp.Policy
    """: [
        f"2 {STABLE} works",
        f"3 {EXPERIMENTAL} breaks",
        # One finding for a place: the worse of the two that it may be.
        f"4 {EXPERIMENTAL}.Policy breaks",
    ],
    """def f():
        import tensorflow as tf
        def g():
            return [tf.keras.mixed_precision.experimental.Policy(n) for n in names]
        return g
    """: [f"4 {EXPERIMENTAL}.Policy breaks"],
    """def f():
        global tf
        import tensorflow as tf
    def g():
        tf.keras.mixed_precision.experimental.Policy
    """: [f"5 {EXPERIMENTAL}.Policy breaks"],
    """class A:
        import tensorflow as tf
        p = tf.keras.mixed_precision.experimental.Policy
    """: [f"3 {EXPERIMENTAL}.Policy breaks"],
    """from tensorflow.keras import mixed_precision as mp
    class Mine(mp.experimental.LossScaleOptimizer):
        def f(self, p: mp.experimental.Policy = mp.experimental.Policy("a")) -> mp.Policy:
            match p:
                case mp.experimental.Policy():
                    pass
    """: [
        f"1 {STABLE} works",
        f"2 {EXPERIMENTAL}.LossScaleOptimizer breaks",
        f"3 {EXPERIMENTAL}.Policy breaks",
        f"3 {EXPERIMENTAL}.Policy breaks",
        f"3 {STABLE}.Policy works",
        f"5 {EXPERIMENTAL}.Policy breaks",
    ],
    """import tensorflow as tf
    (tf.keras
       .mixed_precision
       .experimental.set_policy("mixed_float16"))
    """: [f"2 {EXPERIMENTAL}.set_policy breaks"],
    """import tensorflow as tf
    [(mp := tf.keras.mixed_precision.experimental) for i in x]
    mp.Policy
    """: [f"2 {EXPERIMENTAL} breaks", f"3 {EXPERIMENTAL}.Policy breaks"],
    """def f():
        tf = 1
        def g():
            global tf
            import tensorflow as tf
    tf.keras.mixed_precision.experimental
    """: [f"6 {EXPERIMENTAL} breaks"],
    # --- By strings.
    """import importlib
    import_module = importlib.import_module
    mp = importlib.import_module("tensorflow.keras.mixed_precision.experimental")
    mp.Policy
    import_module("tensorflow.keras.mixed_precision.experimental")
    __import__("tensorflow.keras.mixed_precision.experimental")
    __import__("tensorflow").keras.mixed_precision.experimental.Policy
    """: [
        f"3 {EXPERIMENTAL} breaks",
        f"4 {EXPERIMENTAL}.Policy breaks",
        f"5 {EXPERIMENTAL} breaks",
        f"6 {EXPERIMENTAL} breaks",
        f"7 {EXPERIMENTAL}.Policy breaks",
    ],
    """import tensorflow as tf
    getattr(tf.keras.mixed_precision, "experimental").Policy
    getattr(tf.keras.mixed_precision, name)
    getattr(tf.keras.mixed_precision.experimental, name)
    getattr(tf.keras.mixed_precision, "experimental", None)
    """: [
        f"2 {EXPERIMENTAL}.Policy breaks",
        f"3 {STABLE}.* unsure",
        f"4 {EXPERIMENTAL} breaks",
        f"5 {EXPERIMENTAL} works",
    ],
    # --- Stars.
    """from tensorflow.keras.mixed_precision import *
    """: [f"1 {STABLE}.* unsure"],
    """from tensorflow.keras.mixed_precision.experimental import *
    """: [f"1 {EXPERIMENTAL} breaks"],
    """from tensorflow.train.experimental import *
    """: ["1 tf.train.experimental.* unsure"],
    """from tensorflow.keras import *
    mixed_precision.experimental.set_policy("mixed_float16")
    """: [f"2 {EXPERIMENTAL}.set_policy breaks"],
    # --- What is likely TensorFlow.
    """from .common import tf
    tf.keras.mixed_precision.experimental.Policy
    """: [f"2 {EXPERIMENTAL}.Policy unsure"],
    """from common import *
    tf.keras.mixed_precision.experimental.Policy
    """: [f"2 {EXPERIMENTAL}.Policy unsure"],
    # --- Names that nobody has.
    """import tensorflow as tf
    tf.keras.mixed_precision.LossScaleOptimizerr(opt)
    tf.keras.mixed_precision.set_policy("mixed_float16")
    tf.keras.mixed_precision.__name__
    """: [
        f"2 {STABLE}.LossScaleOptimizerr breaks",
        f"3 {STABLE}.set_policy breaks",
    ],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_finds_the_old_names_of_a_program(program):
    assert rows(program.replace("\n    ", "\n")) == PROGRAMS[program]


NO_USE = {
    "parameter": """
        import tensorflow as tf
        def f(tf, mp):
            return tf.keras.mixed_precision.experimental.Policy
        """,
    "local": """
        import tensorflow as tf
        def f():
            tf = load()
            return tf.keras.mixed_precision.experimental.Policy
        """,
    "loop": """
        import tensorflow as tf
        def f(xs):
            for tf in xs:
                tf.keras.mixed_precision.experimental.Policy
        """,
    "comprehension": """
        import tensorflow as tf
        [tf.keras.mixed_precision.experimental.Policy for tf in xs]
        """,
    "lambda": """
        import tensorflow as tf
        f = lambda tf: tf.keras.mixed_precision.experimental.Policy
        """,
    "with": """
        from tensorflow.keras import backend as K
        def f():
            with open() as tf:
                tf.keras.mixed_precision.experimental.Policy
        """,
    "except": """
        import tensorflow as tf
        def f():
            try:
                pass
            except E as tf:
                tf.keras.mixed_precision.experimental.Policy
        """,
    "match": """
        import tensorflow as tf
        def f(x):
            match x:
                case [1, *tf]:
                    tf.keras.mixed_precision.experimental.Policy
        """,
    "class attribute": """
        class A:
            import tensorflow as tf
            def f(self):
                return tf.keras.mixed_precision.experimental.Policy
        tf = object()
        """,
    "nested function": """
        import tensorflow as tf
        def f():
            def g():
                return tf.keras.mixed_precision.experimental.Policy
            tf = 1
        """,
    "other libraries": """
        from torch.cuda import amp as mixed_precision
        from my import mixed_precision as mp
        from apex import LossScaleOptimizer
        import jax.mixed_precision
        mixed_precision.experimental.Policy
        mp.experimental.LossScaleOptimizer(o, "dynamic")
        LossScaleOptimizer(o, "dynamic")
        jax.mixed_precision.experimental.Policy
        """,
    "own packages": """
        from . import mixed_precision
        from .keras import mixed_precision as mp
        from .tensorflow.keras.mixed_precision import experimental
        from my.keras.mixed_precision.experimental import Policy
        mixed_precision.experimental.Policy
        mp.experimental.Policy
        experimental.Policy
        """,
    "keras of another": """
        from lib import keras
        keras.mixed_precision.experimental.Policy
        """,
    "text": '''
        """tf.keras.mixed_precision.experimental.Policy"""
        # from tensorflow.keras.mixed_precision import experimental
        s = "tf.keras.mixed_precision.experimental.Policy"
        ''',
    "attribute of an object": """
        import tensorflow as tf
        self.tf.keras.mixed_precision.experimental.Policy
        x.mixed_precision.experimental.Policy
        """,
    "patching": """
        import tensorflow as tf
        tf.keras.mixed_precision.experimental = mine
        """,
    "hidden builtin": """
        import tensorflow as tf
        def f(getattr):
            getattr(tf.keras.optimizers, "mixed_precision")
        """,
}


@pytest.mark.parametrize("program", NO_USE.values(), ids=NO_USE)
def test_finds_nothing_where_nothing_is(program):
    assert rows(program) == []


# --- Every name of the table through every spelling of its module.


def test_the_tokens_are_in_every_name():
    for module, namespace in lookup.MODULES.items():
        for name in names.mirror_names(namespace):
            spelled = f"from {module} import {name}".encode()
            assert any(token in spelled for token in lookup.TOKENS), spelled


NAMES = sorted(
    (module, namespace, name)
    for module, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items()
    for name, use in names.mirror_names(namespace).items()
    if not use.versions.startswith("2.16")
)


# What binds, and how the name is reached then.
FORMS = (
    ("import {top} as alias", "alias.{rest}.{name}"),
    ("import {module} as alias", "alias.{name}"),
    ("from {parent} import {last} as alias", "alias.{name}"),
    ("import {top}; alias, n = {module}, 1", "alias.{name}"),
    ("import {module} as m; alias = m", 'getattr(alias, "{name}")'),
    ("import importlib; alias = importlib.import_module('{module}')", "alias.{name}"),
)
PLACES = (
    "{}",
    "x = f({}, 1)",
    "class A({}): pass",
    "def f(x={}): pass",
    "def f():\n    return [{} for i in y]",
    "@{}\ndef f(): pass",
    "lambda: {}",
    "with {} as z: pass",
    'f"{{ {} }}"',
    "async def f():\n    await {}",
)


@hypothesis.given(
    st.sampled_from(NAMES),
    st.sampled_from(FORMS),
    st.sampled_from(PLACES),
    st.integers(0, 5),
    st.booleans(),
)
@hypothesis.settings(deadline=None, max_examples=300)
def test_any_name_in_any_place_is_found(known, form, place, blank, inside):
    module, namespace, name = known
    (top, _, rest), (parent, _, last) = module.partition("."), module.rpartition(".")
    setup, use = (
        text.format(
            module=module, top=top, rest=rest, parent=parent, last=last, name=name
        )
        for text in form
    )
    if 'f"' in place:
        use = use.replace('"', "'")
    lines = [setup, *["pass"] * blank, *place.format(use).split("\n")]
    line = next(n for n, text in enumerate(lines, 1) if use in text)
    if inside:
        lines = ["def outer():", *("    " + text for text in lines)]
        line += 1
    found = outcome_of("\n".join(lines)).findings
    root = "tf_keras" if module.startswith("tf_keras") else "tf"
    if root == "tf_keras":
        namespace = namespace.removeprefix("compat.v1.").removeprefix("keras.")
    expected = f"{root}.{namespace}.{name}"
    assert expected in [f.verdict.name for f in found if f.line == line]
    assert all(f.line == line or f.line <= 1 + inside for f in found)
    last = found[-1].verdict
    assert last.replacement.startswith("tf_lso.") and last.today and last.tf_lso
