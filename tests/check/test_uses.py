"""Calls, methods and idioms around the optimizer."""

import pytest

from tests.check.programs import outcome_of, rows

pytestmark = pytest.mark.core

STABLE = "tf.keras.mixed_precision"
HEAD = "from tensorflow.keras.mixed_precision import LossScaleOptimizer, Policy\n"

# call -> words of what is said of it; () where the arguments add nothing.
STABLE_CALLS = {
    "LossScaleOptimizer(opt)": (),
    "LossScaleOptimizer(inner_optimizer=opt)": (),
    "LossScaleOptimizer(opt, dynamic=True)": (),
    "LossScaleOptimizer(opt, initial_scale=2.0**10)": (),
    "LossScaleOptimizer(*args)": (),
    "LossScaleOptimizer(opt, 'dynamic')": (
        "fails when it is built",
        "error everywhere",
        "Write LossScaleOptimizer(optimizer)",
    ),
    "LossScaleOptimizer(opt, 128)": (
        "TypeError",
        "dynamic=False, initial_scale=128)",
    ),
    "LossScaleOptimizer(opt, 2.5)": ("dynamic=False, initial_scale=2.5)",),
    "LossScaleOptimizer(opt, True)": ("scales by 1.", "Takes it for `dynamic`"),
    "LossScaleOptimizer(opt, False, 128)": ("scales by 0.",),
    "LossScaleOptimizer(opt, True, scale, steps)": ("ValueError", "`name`"),
    "LossScaleOptimizer(opt, loss_scale='dynamic')": (
        "ValueError",
        "tf_lso.keras.mixed_precision.experimental.LossScaleOptimizer",
    ),
    "LossScaleOptimizer(opt, tf.train.experimental.FixedLossScale(8))": (
        "fails when it is built",
    ),
    "LossScaleOptimizer(opt, dynamic=False, initial_scale=128)": (
        "ValueError",
        "a fixed scale",
    ),
    "LossScaleOptimizer(opt, dynamic=flag)": ("where `dynamic` is False",),
    "LossScaleOptimizer(optimizer=opt)": ("TypeError", "either name"),
    "Policy('mixed_float16')": (),
    "Policy('mixed_float16', loss_scale='dynamic')": (
        "TypeError",
        "tf_lso.keras.mixed_precision.experimental.Policy",
    ),
}


@pytest.mark.parametrize("call", STABLE_CALLS)
@pytest.mark.parametrize("form", ["name", "attribute", "alias"])
def test_constructor_forms(call, form):
    name, dot = call.partition("(")[0], "tf.keras.mixed_precision."
    before, called = {
        "name": (HEAD, call),
        "attribute": ("", dot + call),
        "alias": (f"X = {dot}{name}\n", call.replace(name, "X", 1)),
    }[form]
    program = f"import tensorflow as tf\n{before}z = {called}\n"
    last = program.count("\n")
    found = [f for f in outcome_of(program).findings if f.line == last]
    found = [f for f in found if f.verdict.name == f"{STABLE}.{name}"]
    words = STABLE_CALLS[call]
    if not words:
        assert [f.kind for f in found] == ["attribute"] * (form == "attribute")
        return
    (finding,) = found  # one for the place, not one for the name and one for the form
    assert finding.verdict.status == "breaks"
    said = finding.verdict.today + finding.verdict.tf_lso
    assert [word for word in words if word not in said] == []


def test_experimental_calls_are_not_said_twice():
    program = """\
        from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer
        LossScaleOptimizer(opt, "dynamic")
        LossScaleOptimizer(opt, 128)
        """
    assert rows(program) == [
        "1 tf.keras.mixed_precision.experimental.LossScaleOptimizer breaks"
    ]


def test_a_subclass_has_arguments_of_its_own():
    program = """\
        import tensorflow as tf
        class Mine(tf.keras.mixed_precision.LossScaleOptimizer):
            pass
        Mine(opt, 128)
        """
    assert rows(program) == [f"2 {STABLE}.LossScaleOptimizer breaks"]


@pytest.mark.parametrize(
    "policy, status",
    {
        "'mixed_float16'": "unsure",
        "policy": "unsure",
        "'float32'": "works",
        "'mixed_bfloat16'": "works",
    }.items(),
)
def test_only_mixed_float16_scales_losses(policy, status):
    program = f"import keras\nkeras.mixed_precision.set_global_policy({policy})\n"
    assert rows(program) == [f"2 {STABLE}.set_global_policy {status}"]


LSO = "LossScaleOptimizer"
# program -> findings
METHODS = {
    "anywhere": (
        """
        def step(opt, tape, loss):
            scaled = opt.get_scaled_loss(loss)
            grads = (self.model.optimizer
                     .get_unscaled_gradients(tape.gradient(scaled, v)))
            return opt.dynamic_counter
        """,
        [
            f"3 {LSO}.get_scaled_loss breaks",
            f"5 {LSO}.get_unscaled_gradients breaks",
            f"6 {LSO}.dynamic_counter breaks",
        ],
    ),
    "called": (
        """
        import tensorflow as tf
        a = opt.loss_scale().numpy()
        b = opt._decayed_lr(tf.float32)
        c = self.loss_scale
        d = config.loss_scale
        e = model.optimizer.loss_scale
        f = opt.dynamic_growth_steps
        """,
        [
            f"3 {LSO}.loss_scale breaks",
            f"4 {LSO}._decayed_lr breaks",
            f"7 {LSO}.loss_scale unsure",
            f"8 {LSO}.dynamic_growth_steps works",
        ],
    ),
    "known": (
        """
        from tensorflow.keras import mixed_precision as mp
        opt = mp.LossScaleOptimizer(inner)
        a = "%g" % opt.loss_scale
        opt.variables, opt.variables()
        opt.minimize(loss, v, tape=tape)
        opt.iterations.assign(3)
        opt.lr, opt._optimizer, opt.dynamic, opt.inner_optimizer
        """,
        [
            f"2 {STABLE} works",
            f"3 {STABLE}.LossScaleOptimizer breaks",
            f"4 {LSO}.loss_scale breaks",
            f"5 {LSO}.variables breaks",
            f"6 {LSO}.minimize breaks",
            f"8 {LSO}.lr breaks",
            f"8 {LSO}._optimizer breaks",
            f"8 {LSO}.dynamic breaks",
        ],
    ),
    "isinstance": (
        """
        import tensorflow as tf
        def f(model):
            opt = model.optimizer
            if isinstance(opt, (A, tf.keras.mixed_precision.LossScaleOptimizer)):
                opt = opt._optimizer
        """,
        [f"5 {STABLE}.LossScaleOptimizer works", f"6 {LSO}._optimizer breaks"],
    ),
    "subclass": (
        """
        import tensorflow as tf
        class Mine(tf.keras.mixed_precision.LossScaleOptimizer):
            def get_scaled_loss(self, loss):
                return super().get_scaled_loss(loss) * self.loss_scale
            def f(self, loss):
                return self.get_scaled_loss(loss)
        """,
        [
            f"3 {STABLE}.LossScaleOptimizer breaks",
            f"5 {LSO}.get_scaled_loss breaks",
            f"5 {LSO}.loss_scale breaks",
        ],
    ),
    "hasattr": (
        """
        if hasattr(opt, "get_scaled_loss"):
            loss = opt.get_scaled_loss(loss)
        elif hasattr(opt, "scale_loss"):
            loss = opt.scale_loss(loss)
        scale = getattr(opt, "get_scaled_loss", None)
        while hasattr(opt, "_optimizer"):
            opt = opt._optimizer
        if hasattr(opt, "get_scaled_loss") or legacy:
            loss = opt.get_scaled_loss(loss)
        """,
        [
            f"2 {LSO}.get_scaled_loss works",
            f"3 {LSO}.get_scaled_loss (breaks)",
            f"6 {LSO}.get_scaled_loss works",
            f"9 {LSO}.get_scaled_loss works",
            f"10 {LSO}.get_scaled_loss breaks",
        ],
    ),
    "tf_keras": (
        """
        import tf_keras
        opt = tf_keras.mixed_precision.LossScaleOptimizer(inner)
        opt.get_scaled_loss(loss)
        opt.lr
        """,
        [
            "3 tf_keras.mixed_precision.LossScaleOptimizer works",
            f"4 {LSO}.get_scaled_loss works",
        ],
    ),
    "migrated": (
        """
        import tf_lso
        opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)
        opt.get_scaled_loss(loss)
        opt.loss_scale()
        def f(other):
            other.get_scaled_loss(loss)
        """,
        [f"7 {LSO}.get_scaled_loss unsure"],
    ),
    "another framework": (
        """
        import torch
        scaled = self.get_scaled_loss(loss)
        opt.loss_scale()
        """,
        [],
    ),
    "own methods": (
        """
        import tensorflow as tf
        class Trainer:
            def get_scaled_loss(self, loss):
                return loss
            def loss_scale(self):
                return 1
            def f(self):
                return self.get_scaled_loss(self.loss_scale())
        Trainer().loss_scale()
        """,
        [f"10 {LSO}.loss_scale unsure"],
    ),
    "policies": (
        """
        from tensorflow.keras.mixed_precision import experimental as mp
        mp.global_policy().loss_scale()
        """,
        [
            f"2 {STABLE}.experimental breaks",
            f"3 {STABLE}.experimental.global_policy breaks",
        ],
    ),
    "custom objects": (
        """
        import tensorflow as tf
        load(path, custom_objects={"LossScaleOptimizer": Mine, "Other": 1})
        load(path, custom_objects={
            "LossScaleOptimizer": tf.keras.mixed_precision.experimental.LossScaleOptimizer})
        with custom_object_scope({"LossScaleOptimizerV1": Mine}):
            pass
        """,
        [
            f"3 {STABLE}.LossScaleOptimizer works",
            f"5 {STABLE}.experimental.LossScaleOptimizer breaks",
            f"6 {STABLE}.LossScaleOptimizerV1 works",
        ],
    ),
}


@pytest.mark.parametrize("case", METHODS.values(), ids=METHODS)
def test_methods(case):
    program, expected = case
    assert rows(program) == expected


def test_a_method_is_reported_where_its_name_stands():
    program = "é = 1; (opt\n   .get_scaled_loss(x)); 'é'; opt.get_scaled_loss(x)\n"
    places = [(f.line, f.column) for f in outcome_of(program).findings]
    assert places == [(2, 5), (2, 35)]
