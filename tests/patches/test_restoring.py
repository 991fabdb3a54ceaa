"""`tf.train.Checkpoint` of TensorFlow with checkpoints of other generations."""

import contextlib
import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import CURRENT, FAMILIES, KERASES, keras, numpy
from tests.generation import HAS_KERAS3

OLD = [
    ("TF2.1.4", "experimental-v2-Adam-dynamic"),
    ("TF2.4.4", "stable-v2-Adam-dynamic"),
    ("TF2.15.1", "stable-new-Adam-dynamic"),
]
PATH = str(artifacts.path_of(*OLD[1]))


@pytest.fixture
def installed():
    with tf_lso.install():
        yield


def made(family, built=True):
    model = artifacts.network(KERASES[family])
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    if built:
        optimizer.build(model.trainable_variables)
    return model, optimizer


# All ways into the current family, and one into each.
WAYS = [
    *itertools.product([CURRENT], ["restore", "read", "manager"], [True, False]),
    *((family, "restore", True) for family in FAMILIES if family != CURRENT),
]


@pytest.mark.parametrize(("family", "method", "built"), WAYS)
@pytest.mark.parametrize(("version", "case"), OLD)
def test_an_old_checkpoint_is_restored(
    version, case, family, method, built, installed, tmp_path
):
    model, optimizer = made(family, built)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = str(artifacts.path_of(version, case))
    if method == "restore":
        saved.restore(path).expect_partial()
    elif method == "read":
        saved.read(path).assert_existing_objects_matched()
    else:
        shutil.copytree(artifacts.folder(version) / case, tmp_path, dirs_exist_ok=True)
        tf.train.Checkpoint(x=tf.Variable(0)).save(str(tmp_path / "other"))
        (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
        manager = tf.train.CheckpointManager(saved, str(tmp_path), max_to_keep=2)
        assert manager.restore_or_initialize()
        assert int(saved.save_counter) == 1
    artifacts.assert_holds(
        model, optimizer, artifacts.expected(version, case)["after5"]
    )
    optimizer.build(model.trainable_variables)
    slots = [w for w in optimizer.weights if len(w.shape)]
    assert slots and all(np.abs(numpy(slot)).sum() > 0 for slot in slots)


def test_the_rest_of_the_checkpoint_is_restored_too(installed, tmp_path):
    model, optimizer = made("legacy")
    optimizer.apply_gradients([(tf.ones_like(v), v) for v in model.trainable_variables])
    saved = tf.train.Checkpoint(
        model=model, optimizer=optimizer, epoch=tf.Variable(7, dtype=tf.int64)
    )
    saved.save(str(tmp_path / "ckpt"))
    path = saved.save(str(tmp_path / "ckpt"))
    other, newer = made(CURRENT)
    epoch = tf.Variable(0, dtype=tf.int64)
    restored = tf.train.Checkpoint(model=other, optimizer=newer, epoch=epoch)
    restored.restore(path).assert_existing_objects_matched()
    assert int(epoch) == 7
    assert int(restored.save_counter) == 2
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_model_alone(installed):
    model, _ = made(CURRENT)
    tf.train.Checkpoint(model=model).restore(PATH)
    recorded = artifacts.expected(*OLD[1])["after5"]
    assert artifacts.close(model.get_weights(), recorded["weights"], 0, 0)


def subclassed(of, last=None):
    """A model with a list of layers; the last may be an attribute."""

    class Model(of.Model):
        def __init__(self):
            super().__init__()
            self.more = [of.layers.Dense(2), of.layers.Dense(1)]
            if last:
                setattr(self, last, self.more.pop())

        def call(self, inputs):
            for layer in self.more:
                inputs = layer(inputs)
            return getattr(self, last)(inputs) if last else inputs

    model = Model()
    model(tf.ones((1, 3)))
    return model


@pytest.mark.parametrize("has_optimizer", [True, False])
@pytest.mark.parametrize("make", [artifacts.network, subclassed])
def test_a_checkpoint_of_before_the_first_step(make, has_optimizer, tmp_path, caplog):
    """It has no step counter and no slots: the optimizer keeps its own."""
    of = KERASES["legacy"]
    theirs = of.mixed_precision.LossScaleOptimizer(FAMILIES["legacy"].Adam())
    old, other = make(of), make(of)
    saved = {
        "model": old,
        "other": other,
        **({"optimizer": theirs} if has_optimizer else {}),
    }
    path = tf.train.Checkpoint(**saved).save(str(tmp_path / "ckpt"))
    model, second = make(keras), make(keras)
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[CURRENT].Adam(), initial_scale=8)
    optimizer.build(model.trainable_variables)
    with tf_lso.install():
        tf.train.Checkpoint(model=model, other=second, optimizer=optimizer).restore(
            path
        )
    for one, two in ((old, model), (other, second)):
        for saved, restored in zip(one.get_weights(), two.get_weights(), strict=True):
            np.testing.assert_array_equal(saved, restored)
    assert float(optimizer.loss_scale) == (2.0**15 if has_optimizer else 8.0)
    assert int(numpy(optimizer.iterations)) == 0
    is_told = "has no optimizer called 'optimizer'" in caplog.text
    assert is_told == (HAS_KERAS3 and not has_optimizer)


def test_a_part_of_a_model_of_today_is_left_to_tensorflow(tmp_path, installed, caplog):
    path = tf.train.Checkpoint(model=subclassed(keras, last="last")).save(
        f"{tmp_path}/a"
    )
    model = subclassed(keras, last="other")
    tf.train.Checkpoint(model=model).restore(path).expect_partial()
    assert "written by" not in caplog.text


def test_what_cannot_be_restored_is_told_at_once(installed, caplog, tmp_path):
    """The model has no variables yet; or there are two of each."""
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    tf.train.Checkpoint(model=model, optimizer=optimizer).restore(PATH)
    assert "2.0-2.15" in caplog.text and "has no variables yet" in caplog.text
    assert f"tf_lso.checkpoints.restore({PATH!r}, model=model, " in caplog.text
    assert "slots and step counter" in caplog.text
    caplog.clear()
    one, two = made(CURRENT), made(CURRENT)
    saved = tf.train.Checkpoint(
        model=one[0], optimizer=one[1], other=two[0], other_optimizer=two[1]
    )
    # Keras 3 leaves the optimizers as they are, the newer ones of Keras 2 refuse.
    refused = pytest.raises(ValueError, match=r"legacy\.Adam\.")
    with contextlib.nullcontext() if HAS_KERAS3 else refused:
        saved.restore(PATH)
    assert "which optimizer is which model's" in caplog.text
    of = KERASES["legacy"]
    old = of.Sequential([of.layers.InputLayer((3,)), of.layers.Dense(5)])
    path = tf.train.Checkpoint(model=old).save(f"{tmp_path}/a")
    tf.train.Checkpoint(model=made(CURRENT)[0]).restore(path)
    assert not HAS_KERAS3 or "was written by Keras 2" in caplog.text


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_own_checkpoint_is_left_to_tensorflow(
    family, installed, tmp_path, caplog, monkeypatch
):
    from tf_lso import checkpoints

    monkeypatch.setattr(checkpoints, "restore", None)
    model, optimizer = made(family)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = saved.save(str(tmp_path / "ckpt"))
    optimizer.iterations = 5
    saved.restore(path).assert_consumed()
    assert int(numpy(optimizer.iterations)) == 0
    assert "tf_lso" not in caplog.text


def test_other_objects_and_paths_are_left_to_tensorflow(installed, tmp_path):
    x = tf.Variable(3.0)
    saved = tf.train.Checkpoint(x=x)
    path = saved.save(str(tmp_path / "ckpt"))
    x.assign(0.0)
    saved.restore(path).assert_consumed()
    assert float(x) == 3.0
    model, optimizer = made(CURRENT)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    saved.restore(None)
    with pytest.raises(tf.errors.NotFoundError):
        saved.restore(str(tmp_path / "none"))


def test_without_install_tf_keras_names_what_there_is():
    model, optimizer = made("new")
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(ValueError, match=r"legacy\.Adam\.") as error:
        saved.restore(PATH)
    assert "tf_lso.checkpoints.restore(path" in str(error.value)
    assert "LossScaleOptimizer" not in str(error.value)


def compiled(family, inner):
    """A compiled model, which alone holds its optimizer, built."""
    model = artifacts.network(KERASES[family])
    model.compile(tf_lso.LossScaleOptimizer(inner, initial_scale=8), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture(scope="module", params=FAMILIES)
def source(request, tmp_path_factory):
    """A trained model, and paths of checkpoints of it alone and beside its optimizer."""
    folder, data = tmp_path_factory.mktemp("source"), artifacts.inputs()
    with tf_lso.install():
        model = compiled(request.param, FAMILIES[request.param].Adam(0.01))
        model.train_on_batch(data["X_clean"][0], data["Y"][0])
        alone = tf.train.Checkpoint(net=model)
        # It has the optimizer under two names, of which this one is the shorter.
        beside = tf.train.Checkpoint(net=model, opt=model.optimizer)
        paths = alone.save(str(folder / "alone")), beside.save(str(folder / "beside"))
    return model, *paths


@pytest.mark.parametrize("target", FAMILIES)
def test_the_optimizer_of_a_compiled_model_is_restored_or_refused(
    source, target, installed
):
    """Only the model is a child of the checkpoint; TensorFlow gives the rest no hook."""
    old, alone, beside = source
    model = compiled(target, FAMILIES[target].Adam(0.01))
    for path in (alone, beside):
        for variable in (*model.trainable_variables, *model.optimizer.weights):
            variable.assign(tf.cast(7 * tf.ones(variable.shape), variable.dtype))
        tf.train.Checkpoint(net=model).restore(path)
        assert int(numpy(model.optimizer.iterations)) == 1
        assert model.optimizer.dynamic_counter == 1
        for one, two in zip(old.trainable_variables, model.trainable_variables):
            np.testing.assert_array_equal(numpy(one), numpy(two))
            for slot in ("m", "v"):
                was = old.optimizer.get_slot(one, slot)
                now = model.optimizer.get_slot(two, slot)
                assert np.any(numpy(was))
                np.testing.assert_array_equal(numpy(was), numpy(now))
    other = compiled(target, FAMILIES[target].Adam(0.01, amsgrad=True))
    variables = *other.weights, *other.optimizer.weights
    before = [np.array(numpy(v)) for v in variables]
    with pytest.raises(ValueError, match=r"'net.optimizer', and nothing was changed"):
        tf.train.Checkpoint(net=other).restore(alone)
    assert all(map(np.array_equal, before, map(numpy, variables)))
