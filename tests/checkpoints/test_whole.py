"""The state of an optimizer of any class is restored whole, or refused."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints import optimizers_of_users as users
from tests.families import FAMILIES, KERASES, keras, needs_keras3, numpy
from tests.generation import HAS_KERAS3
from tf_lso import checkpoints

FORMATS = ("checkpoint", "keras", "weights.h5", "h5")


def model_of(of, *names):
    return of.Sequential(
        [of.layers.InputLayer((3,)), *(of.layers.Dense(3, name=n) for n in names)]
    )


def everything(opt):
    """All that the optimizer has, but its rate."""
    inner = getattr(opt, "inner_optimizer", opt)
    variables = inner.variables
    variables = variables() if callable(variables) else variables
    extra = [v for n, v in sorted(vars(inner).items()) if n in ("one", "_u_product")]
    return [np.array(numpy(v)) for v in (*variables, *extra)]


def trained(of, opt, *names):
    """A model that was trained for three steps."""
    model = model_of(of, *(names or ("a", "b")))
    wraps = isinstance(opt, tf_lso.LossScaleOptimizer)
    if hasattr(opt, "build"):  # a bare legacy one has none
        opt.build(model.trainable_variables)
    for step in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((4, 3)) * (step + 1.0)) ** 2)
            loss = opt.get_scaled_loss(loss) if wraps else loss
        gradients = tape.gradient(loss, model.trainable_variables)
        if wraps:
            gradients = opt.get_unscaled_gradients(gradients)
        opt.apply_gradients(zip(gradients, model.trainable_variables))
    return model


def saved(model, opt, format_, folder):
    if format_ == "checkpoint":
        return tf.train.Checkpoint(model=model, optimizer=opt).save(str(folder / "c"))
    if tf.__version__.startswith("2.12.") and format_ != "h5":
        pytest.skip("Keras 2.12 writes another format under this name")
    path = str(folder / f"saved.{format_}")
    model.compile(opt, "mse")
    if format_ == "weights.h5":
        model.save_weights(path)
    else:
        model.save(path)
    return path


CLASSES = {
    "Muon": lambda: keras.optimizers.Muon(0.01),
    "ScheduleFreeAdamW": lambda: keras.optimizers.ScheduleFreeAdamW(0.01),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "accumulating": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    "keras3": users.of_keras3,
    "new": users.of_new,
    "legacy": users.of_legacy,
}


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", CLASSES)
def test_an_optimizer_without_a_row(name, format_, wraps, tmp_path):
    if (name, format_) == ("Adafactor", "h5"):
        pytest.skip("Keras itself cannot write it: two variables of one name")
    if (name, wraps) == ("legacy", False) and format_ in ("keras", "weights.h5"):
        pytest.skip("Keras 2 saves no state of legacy optimizers there")
    of = KERASES["keras2"] if name in ("new", "legacy") else keras
    is_lacking = name[0].isupper() and not hasattr(of.optimizers, name)
    if is_lacking or (name == "accumulating" and not HAS_KERAS3):
        pytest.skip("not in this Keras")

    def made():
        opt = CLASSES[name]()
        return tf_lso.LossScaleOptimizer(opt) if wraps else opt

    opt = made()
    model = trained(of, opt)
    with tf_lso.install():
        path = saved(model, opt, format_, tmp_path)
    new, other = model_of(of, "a", "b"), made()
    if (name, format_, HAS_KERAS3) == ("Adafactor", "checkpoint", False):
        # Keras 2 keeps placeholders in its lists, which are none of its variables.
        with pytest.raises(checkpoints.CheckpointError, match="has no variable for it"):
            checkpoints.restore(path, model=new, optimizer=other)
        return
    report = checkpoints.restore(path, model=new, optimizer=other)
    assert report.complete
    for old, now in zip(everything(opt), everything(other), strict=True):
        np.testing.assert_array_equal(old, now)
    assert all(map(np.array_equal, model.get_weights(), new.get_weights()))
    assert int(numpy(other.iterations)) == int(numpy(opt.iterations)) > 0


def refused(path, model, opt, *matches):
    opt.build(model.trainable_variables)
    before = [*model.get_weights(), *everything(opt)]
    inner = getattr(opt, "inner_optimizer", opt)
    momentum = getattr(inner, "momentum", None)
    with pytest.raises(checkpoints.CheckpointError) as raised:
        checkpoints.restore(path, model=model, optimizer=opt)
    for match in matches:
        assert match in str(raised.value)
    assert all(map(np.array_equal, before, [*model.get_weights(), *everything(opt)]))
    assert getattr(inner, "momentum", None) == momentum


MAKERS = [
    ("SGD", {"momentum": 0.9}, "SGD(0.5, momentum=0.9)"),
    ("RMSprop", {"momentum": 0.9}, "RMSprop(0.5, momentum=0.9)"),
    ("RMSprop", {"centered": True}, "RMSprop(0.5, centered=True)"),
    ("Adam", {"amsgrad": True}, "Adam(0.5, amsgrad=True)"),
    ("Adam", {"use_ema": True}, "Adam(0.5, use_ema=True)"),
]


@pytest.mark.parametrize("format_", ["checkpoint", "keras"])
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("source", FAMILIES)
@pytest.mark.parametrize(("name", "arguments", "remedy"), MAKERS)
def test_hyperparameters_that_make_slots(
    name, arguments, remedy, source, target, format_, tmp_path
):
    if "use_ema" in arguments and "legacy" in (source, target):
        pytest.skip("OptimizerV2 has no averages")
    if target == "new" and (name, "momentum" in arguments) == ("SGD", True):
        pytest.skip("the newer SGD of Keras 2 always has the slot")
    old_keras = KERASES["keras3" if source == "keras3" else "keras2"]
    new_keras = KERASES["keras3" if target == "keras3" else "keras2"]
    old = tf_lso.LossScaleOptimizer(getattr(FAMILIES[source], name)(0.5, **arguments))
    model = trained(old_keras, old)
    with tf_lso.install():
        path = saved(model, old, format_, tmp_path)
    new = tf_lso.LossScaleOptimizer(getattr(FAMILIES[target], name)(0.1))
    shown = remedy if format_ == "checkpoint" else remedy.split(", ")[1]
    refused(path, model_of(new_keras, "a", "b"), new, shown)
    # And the other way round: slots that the file lacks.
    if name == "SGD" and source == "new":
        return  # always has the slot
    old = tf_lso.LossScaleOptimizer(getattr(FAMILIES[source], name)(0.5))
    model = trained(old_keras, old)
    with tf_lso.install():
        path = saved(model, old, format_, tmp_path)
    new = tf_lso.LossScaleOptimizer(getattr(FAMILIES[target], name)(0.1, **arguments))
    shown = f"{name}(0.5)" if format_ == "checkpoint" else f"{name}("
    refused(path, model_of(new_keras, "a", "b"), new, shown)


@needs_keras3
@pytest.mark.parametrize("of_file", ["Muon", "ScheduleFreeAdamW", "keras3"])
def test_another_class_without_a_row(of_file, tmp_path):
    old = CLASSES[of_file]()
    path = saved(trained(keras, old), old, "checkpoint", tmp_path)
    refused(path, model_of(keras, "a", "b"), keras.optimizers.Adam(0.01))


@pytest.mark.parametrize("family", FAMILIES)
def test_another_class_that_the_file_does_not_name(family, tmp_path):
    """The names of its variables tell no class if the user named the optimizer."""
    of = KERASES["keras3" if family == "keras3" else "keras2"]
    old = FAMILIES[family].Adadelta(0.01, name="own")
    if family == "legacy":
        old = tf_lso.LossScaleOptimizer(old)
    path = saved(trained(of, old), old, "checkpoint", tmp_path)
    new = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    refused(path, model_of(of, "a", "b"), new, "this Adam has no variable for it")


@needs_keras3
def test_another_order_of_building(tmp_path):
    """Of a class that no table knows, and of two that it knows.

    A checkpoint of Adafactor names no slots: they are in the order of its variables.
    """
    slots = {"Adam": "_momentums", "Adafactor": "_v", "Muon": None}
    for made, attribute in (
        (getattr(keras.optimizers, n), a) for n, a in slots.items()
    ):
        old = made(0.01)
        model = trained(keras, old)
        path = saved(model, old, "checkpoint", tmp_path)
        new, opt = model_of(keras, "a", "b"), made(0.01)
        opt.build(new.trainable_variables[::-1])
        if attribute is None:
            refused(path, new, opt)
            continue
        assert checkpoints.restore(path, model=new, optimizer=opt).complete
        ours, theirs = (getattr(one, attribute) for one in (opt, old))
        for one, other in zip(theirs, reversed(ours), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("format_", ["checkpoint", "keras", "h5"])
@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_slots_of_another_argument_are_refused(family, format_, tmp_path):
    of = KERASES["keras3" if family == "keras3" else "keras2"]
    old = tf_lso.LossScaleOptimizer(FAMILIES[family].RMSprop(0.5, centered=True))
    path = saved(trained(of, old), old, format_, tmp_path)
    new = tf_lso.LossScaleOptimizer(FAMILIES[family].RMSprop(0.5, momentum=0.9))
    refused(path, model_of(of, "a", "b"), new, "centered=True")


@pytest.mark.parametrize("format_", ["checkpoint", "keras", "h5"])
@pytest.mark.parametrize("target", FAMILIES)
def test_the_slots_of_a_newer_sgd_without_momentum_are_no_state(
    target, format_, tmp_path
):
    new_keras = KERASES["keras3" if target == "keras3" else "keras2"]
    old = tf_lso.LossScaleOptimizer(FAMILIES["new"].SGD(0.5))
    model = trained(KERASES["keras2"], old)
    path = saved(model, old, format_, tmp_path)
    restored = model_of(new_keras, "a", "b")
    new = tf_lso.LossScaleOptimizer(FAMILIES[target].SGD(0.5))
    new.build(restored.trainable_variables)
    objects = {"model": restored, "optimizer": new}
    if (target != "new", format_) == (True, "checkpoint"):  # which does not say it
        remedy = "If it had none, leave them: tf_lso.checkpoints.restore"
        refused(path, restored, new, remedy)
        checkpoints.restore(path, **objects, partial=True)
    else:
        checkpoints.restore(path, **objects)
    assert int(numpy(new.iterations)) == int(numpy(old.iterations)) > 0
    assert all(map(np.array_equal, model.get_weights(), restored.get_weights()))


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("source", FAMILIES)
@pytest.mark.parametrize(("name", "arguments", "remedy"), MAKERS)
def test_tensorflows_own_restore_refuses_too(
    name, arguments, remedy, source, target, built, installed, tmp_path
):
    if "use_ema" in arguments and "legacy" in (source, target):
        pytest.skip("OptimizerV2 has no averages")
    if target == "new" and (name, "momentum" in arguments) == ("SGD", True):
        pytest.skip("the newer SGD of Keras 2 always has the slot")
    if source != target and not installed:
        pytest.skip("TensorFlow alone restores nothing across families")
    old_keras = KERASES["keras3" if source == "keras3" else "keras2"]
    new_keras = KERASES["keras3" if target == "keras3" else "keras2"]
    old = tf_lso.LossScaleOptimizer(getattr(FAMILIES[source], name)(0.5, **arguments))
    path = saved(trained(old_keras, old), old, "checkpoint", tmp_path)
    model = model_of(new_keras, "a", "b")
    new = tf_lso.LossScaleOptimizer(getattr(FAMILIES[target], name)(0.1))
    if built:
        new.build(model.trainable_variables)
    before = [*model.get_weights(), *(everything(new) if built else [])]
    with tf_lso.install() if installed else contextlib.nullcontext():
        checkpoint = tf.train.Checkpoint(model=model, optimizer=new)
        with pytest.raises(ValueError) as raised:
            checkpoint.restore(path)
            assert not built
            new.build(model.trainable_variables)
    assert (remedy if installed else remedy.split(", ")[1]) in str(raised.value)
    after = [*model.get_weights(), *(everything(new) if built else [])]
    assert not built or all(map(np.array_equal, before, after))


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("Adam_amsgrad", {}),
        ("Adam", {"amsgrad": True}),
        ("Adam", {"use_ema": True}),
        ("RMSprop_centered", {"momentum": 0.9}),
        ("SGD", {}),
    ],
)
@needs_keras3
def test_tensorflows_own_restore_refuses_files_of_keras_3_6(case, arguments):
    """They do not name their slots but by the names of the variables."""
    made = getattr(keras.optimizers, case.split("_")[0])
    model = artifacts.network(keras)
    new = tf_lso.LossScaleOptimizer(made(0.1, **arguments))
    new.build(model.trainable_variables)
    before = [*model.get_weights(), *everything(new)]
    path = artifacts.folder("TF2.17-keras3.6") / f"bare-keras3-{case}" / "ckpt-1"
    with tf_lso.install():
        saved = tf.train.Checkpoint(model=model, optimizer=new)
        with pytest.raises(checkpoints.CheckpointError, match="Make the optimizer as"):
            saved.restore(str(path))
    assert all(map(np.array_equal, before, [*model.get_weights(), *everything(new)]))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("ending", ["keras", "weights.h5"])
@needs_keras3
def test_a_fixed_scale_of_keras_3(ending, momentum, tmp_path):
    """The wrapper lists a step counter and a rate, which are no count and no scale."""

    def made(**scale):
        inner = keras.optimizers.SGD(0.1, momentum=momentum)
        return tf_lso.LossScaleOptimizer(inner, **scale)

    old = made(dynamic=False, initial_scale=8)
    model = trained(keras, old)
    path = saved(model, old, ending, tmp_path)
    restored, new = model_of(keras, "a", "b"), made(initial_scale=16)
    assert checkpoints.restore(path, model=restored, optimizer=new).complete
    assert (float(new.loss_scale), int(new.dynamic_counter)) == (16, 0)
    assert int(numpy(new.iterations)) == 3
