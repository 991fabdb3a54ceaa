"""`restore` restores the complete state of an optimizer of any class, or raises an error."""

import contextlib
import functools
import re

import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts, helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import assert_equal, model_of, refused, state, trained
from tests.families import (
    CHECKPOINTED,
    FAMILIES,
    KERASES,
    keras,
    needs_keras3,
    numpy,
    wrapped,
)
from tests.generation import HAS_KERAS3, NO_CHECKPOINT
from tf_lso import checkpoints

CLASSES = {
    "Muon": lambda: keras.optimizers.Muon(0.01),
    "ScheduleFreeAdamW": lambda: keras.optimizers.ScheduleFreeAdamW(0.01),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "accumulating": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    **users.OWN,
}


@pytest.mark.parametrize("wraps", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("format_", ["checkpoint", "keras", "weights.h5", "h5"])
@pytest.mark.parametrize("name", CLASSES)
def test_an_optimizer_without_a_row(name, format_, wraps, tmp_path, request):
    if (name, format_) == ("Adafactor", "h5"):
        pytest.skip("Keras itself cannot write it: two variables of one name")
    if (name, wraps) == ("legacy", False) and format_ in ("keras", "weights.h5"):
        pytest.skip("Keras 2 saves no state of legacy optimizers there")
    of = KERASES["keras2"] if name in ("new", "legacy") else keras
    is_lacking = name[0].isupper() and not hasattr(of.optimizers, name)
    if is_lacking or (name == "accumulating" and not HAS_KERAS3):
        pytest.skip("not in this Keras")
    family = "keras3" if of is keras and HAS_KERAS3 else name
    helpers.expect_limits(request, family, format_, wraps)

    def made():
        opt = CLASSES[name]()
        return tf_lso.LossScaleOptimizer(opt) if wraps else opt

    opt = made()
    model = trained(of, opt)
    with tf_lso.install():
        path = helpers.saved(model, opt, format_, tmp_path)
    new, other = model_of(of), made()
    if (name, format_, HAS_KERAS3) == ("Adafactor", "checkpoint", False):
        # Adafactor of Keras 2 has placeholders in its lists of slots. `restore` refuses them.
        with pytest.raises(checkpoints.CheckpointError, match="has no variable for it"):
            checkpoints.restore(path, model=new, optimizer=other)
        return
    helpers.restored(path, new, other)
    assert_equal(state(new, other), state(model, opt))
    assert int(numpy(other.iterations)) == int(numpy(opt.iterations)) > 0


MAKERS = [
    ("SGD", {"momentum": 0.9}, "SGD(0.5, momentum=0.9)"),
    ("RMSprop", {"momentum": 0.9}, "RMSprop(0.5, momentum=0.9)"),
    ("RMSprop", {"centered": True}, "RMSprop(0.5, centered=True)"),
    ("Adam", {"amsgrad": True}, "Adam(0.5, amsgrad=True)"),
    ("Adam", {"use_ema": True}, "Adam(0.5, use_ema=True)"),
]


def skip_what_no_family_has(name, arguments, source, target):
    if "use_ema" in arguments and "legacy" in (source, target):
        pytest.skip("OptimizerV2 has no averages")
    if (name, target) == ("SGD", "new"):
        pytest.skip("the newer SGD of Keras 2 always has the slot")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A function that saves a trained model once, and returns the path of the file."""

    @functools.cache
    def write(family, name, format_, **arguments):
        old = wrapped(family, name, 0.5, **arguments)
        model = trained(KERASES[family], old)
        with tf_lso.install():
            return helpers.saved(
                model, old, format_, tmp_path_factory.mktemp("written")
            )

    return write


@pytest.mark.parametrize(
    "format_", ["checkpoint", pytest.param("keras", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize(
    "source",
    [pytest.param(f, marks=[pytest.mark.slow] * (f != "legacy")) for f in FAMILIES],
)
@pytest.mark.parametrize(("name", "arguments", "remedy"), MAKERS)
def test_hyperparameters_that_make_slots(
    name, arguments, remedy, source, target, format_, written, request
):
    helpers.expect_limits(request, source, format_)
    skip_what_no_family_has(name, arguments, source, target)
    has_rate, model = format_ == "checkpoint", model_of(KERASES[target])
    path = written(source, name, format_, **arguments)
    shown = remedy if has_rate else remedy.split(", ")[1]
    refused(path, model, wrapped(target, name, 0.1), re.escape(shown))
    # The other way round, the optimizer has slots that the file lacks.
    if (name, source) != ("SGD", "new"):  # this SGD always has the slot
        path = written(source, name, format_)
        shown = f"{name}(0.5)" if has_rate else f"{name}("
        refused(path, model, wrapped(target, name, 0.1, **arguments), re.escape(shown))


@needs_keras3
@NO_CHECKPOINT
@pytest.mark.parametrize("of_file", ["Muon", "ScheduleFreeAdamW", "keras3"])
def test_another_class_without_a_row(of_file, tmp_path):
    if of_file != "keras3" and not hasattr(keras.optimizers, of_file):
        pytest.skip("not in this Keras")
    old = CLASSES[of_file]()
    path = helpers.saved(trained(keras, old), old, "checkpoint", tmp_path)
    refused(path, model_of(keras), keras.optimizers.Adam(0.01))


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_another_class_that_the_file_does_not_name(family, tmp_path):
    """If the user named the optimizer, the names of its variables do not show its class."""
    of = KERASES[family]
    old = FAMILIES[family].Adadelta(0.01, name="own")
    if family == "legacy":
        old = tf_lso.LossScaleOptimizer(old)
    path = helpers.saved(trained(of, old), old, "checkpoint", tmp_path)
    new = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    refused(path, model_of(of), new, "this Adam has no variable for it")


@needs_keras3
@NO_CHECKPOINT
def test_another_order_of_building(tmp_path):
    """Two optimizers of one class may have their slots in different orders.

    `restore` knows which attributes of Adam and Adafactor contain the slots, and reorders them.
    It does not know those of Muon, and refuses the file.
    """
    slots = {"Adam": "_momentums", "Adafactor": "_v"}
    if hasattr(keras.optimizers, "Muon"):  # early versions lack it
        slots["Muon"] = None
    for name, attribute in slots.items():
        made = getattr(keras.optimizers, name)
        old = made(0.01)
        path = helpers.saved(trained(keras, old), old, "checkpoint", tmp_path)
        new, opt = model_of(keras), made(0.01)
        opt.build(new.trainable_variables[::-1])
        if attribute is None:
            refused(path, new, opt)
        else:
            helpers.restored(path, new, opt)
            assert_equal(getattr(opt, attribute)[::-1], getattr(old, attribute))


@pytest.mark.parametrize("format_", ["checkpoint", "keras", "h5"])
def test_as_many_slots_of_another_argument_are_refused(
    family, format_, written, request
):
    helpers.expect_limits(request, family, format_)
    path = written(family, "RMSprop", format_, centered=True)
    new = wrapped(family, "RMSprop", 0.5, momentum=0.9)
    refused(path, model_of(KERASES[family]), new, r"Make .*centered=True\)")


@pytest.mark.parametrize("format_", ["checkpoint", "keras", "h5"])
@pytest.mark.parametrize("target", FAMILIES)
def test_the_slots_of_a_newer_sgd_without_momentum_are_no_state(
    target, format_, tmp_path
):
    old = wrapped("new", "SGD", 0.5)
    model = trained(KERASES["keras2"], old)
    path = helpers.saved(model, old, format_, tmp_path)
    other, new = model_of(KERASES[target]), wrapped(target, "SGD", 0.5)
    says_nothing = target != "new" and format_ == "checkpoint"
    if says_nothing:
        remedy = "If it had none, leave them: tf_lso.checkpoints.restore"
        refused(path, other, new, remedy)
    checkpoints.restore(path, model=other, optimizer=new, partial=says_nothing)
    assert int(numpy(new.iterations)) == int(numpy(old.iterations)) > 0
    assert_equal(other.get_weights(), model.get_weights())


@pytest.mark.parametrize(
    "installed", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("built", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", CHECKPOINTED)
@pytest.mark.parametrize(("name", "arguments", "remedy"), MAKERS)
def test_tensorflows_own_restore_refuses_too(
    name, arguments, remedy, family, built, installed, written
):
    """`tests/install/test_restoring.py` tests checkpoints of another family."""
    skip_what_no_family_has(name, arguments, family, family)
    path = written(family, name, "checkpoint", **arguments)
    model, new = model_of(KERASES[family]), wrapped(family, name, 0.1)
    if built:
        new.build(model.trainable_variables)
    before = state(model, new)
    with tf_lso.install() if installed else contextlib.nullcontext():
        checkpoint = tf.train.Checkpoint(model=model, optimizer=new)
        with pytest.raises(ValueError) as raised:
            checkpoint.restore(path)
            assert not built
            new.build(model.trainable_variables)
    assert remedy.split(", ")[1] in str(raised.value)
    if built:
        assert_equal(state(model, new), before)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("ending", ["keras", "weights.h5"])
@needs_keras3
def test_a_fixed_scale_of_keras_3(ending, momentum, tmp_path):
    """The file has a step counter and a rate, which must not pass for a counter and a scale."""

    def made(**scale):
        inner = keras.optimizers.SGD(0.1, momentum=momentum)
        return tf_lso.LossScaleOptimizer(inner, **scale)

    old = made(dynamic=False, initial_scale=8)
    path = helpers.saved(trained(keras, old), old, ending, tmp_path)
    new = made(initial_scale=16)
    helpers.restored(path, model_of(keras), new)
    assert artifacts.scale_of(new) == (16, 0)
    assert int(numpy(new.iterations)) == 3
