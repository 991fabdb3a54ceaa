"""A trainable weight that never gets a gradient, such as an unused head, may have no slots."""

import copy
import pickle

import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import assert_equal, refused, saved, slots_of, train
from tests.families import FAMILIES, KERASES, keras, keras2, needs_keras3, numpy


def model_of(of, equal_shapes=False):
    """Return a model whose head "unused" gets no gradient. Its variables are the last ones."""
    inputs = of.Input((3,))
    hidden = of.layers.Dense(3, name="a")(inputs)
    unused = of.layers.Dense(3 if equal_shapes else 2, name="unused")(hidden)
    return of.Model(inputs, [of.layers.Dense(3, name="b")(hidden), unused])


def made(cls=None, wrapper=tf_lso.LossScaleOptimizer, inner=(), **kwargs):
    optimizer = (cls or FAMILIES["legacy"].Adam)(0.01, **dict(inner))
    kwargs = {"initial_scale": 8, "dynamic_growth_steps": 2, **kwargs}
    return wrapper(optimizer, **kwargs)


def trained(opt=None, equal_shapes=False):
    """Train a model with a legacy optimizer, which makes no slots for the head "unused"."""
    model, opt = model_of(keras2, equal_shapes), opt or made()
    train(model, opt)
    for slot in opt.get_slot_names():
        with pytest.raises(KeyError):
            opt.get_slot(model.get_layer("unused").kernel, slot)
    return model, opt


def goes_on(old_model, old, model, opt, first=0.0):
    """Assert that all state is equal now, and after two more steps."""
    for steps, rtol in ((0, 0), (2, 1e-4)):
        train(old_model, old, steps)
        train(model, opt, steps)
        near = rtol, rtol / 100
        assert_equal(model.get_weights(), old_model.get_weights(), *near)
        before, after = slots_of(old, old_model, first), slots_of(opt, model, first)
        assert_equal(after, before, *near)
        assert int(numpy(opt.iterations)) == int(numpy(old.iterations)) == 3 + steps
        assert float(opt.loss_scale) == float(old.loss_scale)
        assert int(opt.dynamic_counter) == int(old.dynamic_counter)


@pytest.mark.parametrize(
    "by", [tf_lso, keras2.mixed_precision], ids=["tf_lso", "keras"]
)
def test_a_saved_model(by, tmp_path, caplog):
    model, opt = trained(made(wrapper=by.LossScaleOptimizer))
    path = saved(model, opt, "savedmodel", tmp_path)
    with tf_lso.install():
        loaded = keras2.models.load_model(path)
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    goes_on(model, opt, loaded, loaded.optimizer)
    assert "no loss scale" not in caplog.text


@pytest.mark.parametrize(
    "equal_shapes", [pytest.param(False, marks=pytest.mark.slow), True]
)
@pytest.mark.parametrize("name", ["Adam", "Ftrl", "Nadam"])
@pytest.mark.parametrize("format_", ["keras", "h5", "pickle", "deepcopy"])
def test_a_whole_model(format_, name, equal_shapes, tmp_path, caplog):
    model, opt = trained(made(getattr(FAMILIES["legacy"], name)), equal_shapes)
    model.compile(opt, "mse")
    first = {"Ftrl": 0.1}.get(name, 0.0)
    before = slots_of(opt, model, first)
    with tf_lso.install():
        if format_ == "pickle":
            loaded = pickle.loads(pickle.dumps(model))
        elif format_ == "deepcopy":
            loaded = copy.deepcopy(model)
        else:
            path = saved(model, opt, format_, tmp_path)
            loaded = keras2.models.load_model(path)
    after = slots_of(opt, model, first)
    # Saving may make the slots of "unused". Those called `linear` do not start at `first`.
    known = {key: v for key, v in before.items() if key[0] != "linear" or key[1] < 4}
    assert_equal({key: after[key] for key in known}, known)
    goes_on(model, opt, loaded, loaded.optimizer, first)
    assert "its own" not in caplog.text and "saves none" not in caplog.text


@pytest.mark.parametrize("equal_shapes", [False, True])
@pytest.mark.parametrize("into", ["new", "built", "trained"])
def test_weights(into, equal_shapes, tmp_path, caplog):
    model, opt = trained(equal_shapes=equal_shapes)
    with tf_lso.install():
        path = saved(model, opt, "weights.h5", tmp_path)
    other, new = model_of(keras2, equal_shapes), made(initial_scale=2)
    if into == "trained":
        train(other, new)
    other.compile(new, "mse")
    if into == "built":
        new.build(other.trainable_variables)
    with tf_lso.install():
        other.load_weights(path)
    goes_on(model, opt, other, new)
    assert "its own" not in caplog.text


def test_a_file_without_these_slots_is_not_said_to_have_no_scale(caplog):
    """The file lacks as many variables as it would without a loss scale.

    The weight "unused" has two slots, and a loss scale consists of the scale and the counter.
    """
    a, unused = tf.Variable([1.0]), tf.Variable([[1.0]])
    old, new, store = made(), made(), {}
    old.apply_gradients([(tf.constant([1.0]), a)])
    old.save_own_variables(store)
    new.build([a, unused])
    new.load_own_variables(store)
    assert "saves none" not in caplog.text
    assert "does not fit" in caplog.text and "5 variables instead of 7" in caplog.text


def restored(path, model, opt):
    report = helpers.restored(path, model, opt)
    told = [name for name, why in report.kept if "no slots" in why]
    assert told and all("unused" in name for name in told)


@pytest.mark.parametrize(
    "by", ["restore", pytest.param("tf.train.Checkpoint", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "state",
    [
        pytest.param("new", marks=pytest.mark.slow),
        pytest.param("built", marks=pytest.mark.slow),
        "trained",
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Nadam"])
def test_a_checkpoint(name, family, state, by, tmp_path):
    if (family, name) == ("new", "Nadam"):
        pytest.skip("its product of momentums")
    if family != "legacy" and by == "tf.train.Checkpoint":
        pytest.skip("which refuses the files of another family")
    if (family, by, state) == ("legacy", "tf.train.Checkpoint", "trained"):
        pytest.skip("TensorFlow itself leaves these slots as they are")
    first = {"Adagrad": 0.1}.get(name, 0.0)
    old_model, old = trained(made(getattr(FAMILIES["legacy"], name)))
    path = saved(old_model, old, "checkpoint", tmp_path)
    model, opt = model_of(KERASES[family]), made(getattr(FAMILIES[family], name))
    if state != "new":
        opt.build(model.trainable_variables)
    if state == "trained":
        ones = [tf.ones(v.shape) for v in model.trainable_variables]
        opt.apply_gradients(zip(ones, model.trainable_variables))
    if by == "restore":
        restored(path, model, opt)
    else:
        with tf_lso.install():
            tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
    if name == "Nadam":  # which has another schedule in Keras 3
        assert_equal(model.get_weights(), old_model.get_weights())
    else:
        goes_on(old_model, old, model, opt, first)


@pytest.mark.parametrize("format_", ["checkpoint", "h5"])
@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Nadam"])
def test_a_newer_optimizer_before_its_first_step(name, format_, tmp_path):
    """A newer optimizer saves no slots before its first step.

    `restore` gives the slots of the reading optimizer their initial values.
    """
    theirs = made(
        getattr(FAMILIES["new"], name), keras2.mixed_precision.LossScaleOptimizer
    )
    old = model_of(keras2)
    path = saved(old, theirs, format_, tmp_path)
    model, fresh = model_of(keras), made(getattr(keras.optimizers, name))
    fresh.build(model.trainable_variables)
    first = [numpy(w) for w in fresh.weights]
    opt = made(getattr(keras.optimizers, name))
    opt.build(model.trainable_variables)
    train(model, opt)
    report = helpers.restored(path, model, opt)
    assert any("before the first step" in why for _, why in report.kept)
    assert_equal(model.get_weights(), old.get_weights())
    assert_equal([numpy(w) for w in opt.weights], first)
    theirs.inner_optimizer.iterations.assign(1)  # after a step, slots are missed
    path = saved(old, theirs, "checkpoint", tmp_path)
    refused(path, model, opt, "missing in the file: optimizer/")


@needs_keras3
@pytest.mark.parametrize("format_", ["h5", "keras", "weights.h5", "savedmodel"])
def test_files_of_keras_2_in_keras_3(format_, tmp_path):
    model, opt = trained()
    with tf_lso.install():
        path = saved(model, opt, format_, tmp_path)
    new_model, new = model_of(keras), made(keras.optimizers.Adam)
    if format_ == "savedmodel":
        restored(path, new_model, new)
    else:
        helpers.restored(path, new_model, new)
    goes_on(model, opt, new_model, new)


@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("source", ["legacy", "new"])
def test_the_variables_of_traced_steps_in_a_saved_model(
    source, family, dynamic, tmp_path
):
    """A SavedModel also contains variables of traced functions. `restore` must ignore them."""
    scale = {} if dynamic else {"dynamic": False, "dynamic_growth_steps": None}
    old_model, old = model_of(keras2), made(FAMILIES[source].Adam, **scale)
    old.build(old_model.trainable_variables)
    train(old_model, old)
    path = saved(old_model, old, "savedmodel", tmp_path)
    model, opt = model_of(KERASES[family]), made(FAMILIES[family].Adam, **scale)
    helpers.restored(path, model, opt)
    assert_equal(slots_of(opt, model), slots_of(old, old_model))


def lacking(folder, cls=None, slot=None):
    """Save a checkpoint in which "unused" has no slots, or only `slot`. Return the path."""
    model, opt = trained(made(cls))
    if slot:
        opt.inner_optimizer.add_slot(model.get_layer("unused").kernel, slot)
    return saved(model, opt, "checkpoint", folder)


@pytest.mark.parametrize(
    ("name", "arguments", "slot", "match"),
    [
        ("Adam", {"amsgrad": True}, None, "vhat/unused/kernel"),
        ("SGD", {"momentum": 0.9}, None, "momentum/unused/kernel"),
        ("Adam", {}, "m", "v/unused/kernel"),  # the file has one of two slots
    ],
)
def test_a_slot_that_the_file_lacks_is_refused(
    family, name, arguments, slot, match, tmp_path
):
    path = lacking(tmp_path, getattr(FAMILIES["legacy"], name), slot)
    opt = made(getattr(FAMILIES[family], name), inner=arguments)
    refused(path, model_of(KERASES[family]), opt, match)


def test_a_class_whose_first_values_are_unknown_is_refused(tmp_path):
    def own(rate):
        return users.OWN["legacy"]()

    path = lacking(tmp_path, own)
    refused(path, model_of(keras2), made(own), "unused/kernel")
