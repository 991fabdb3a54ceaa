"""What does not fit is refused whole, and what the report says is all there is."""

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import (
    KERASES,
    keras,
    needs_keras3,
    number,
    numpy,
    takes_optimizers,
)
from tf_lso import checkpoints

VERSION, CASE = "TF2.4.4", "stable-v2-Adam-dynamic"


@pytest.fixture
def path():
    return artifacts.folder(VERSION) / CASE / "ckpt-1"


def model_of(*layers):
    return keras.Sequential([keras.Input((3,)), *layers])


def named(first="dense_a", second="dense_b", units=2):
    return model_of(
        keras.layers.Dense(units, activation="tanh", name=first),
        keras.layers.Dense(1, name=second),
    )


def wrapped(inner=None, **kwargs):
    return tf_lso.LossScaleOptimizer(inner or keras.optimizers.Adam(0.01), **kwargs)


def state(model, opt):
    """All that a restore could change."""
    inner = opt.inner_optimizer
    return [
        *model.get_weights(),
        *(np.asarray(v) for v in opt.variables),
        np.asarray([getattr(inner, n, 0) for n in ("beta_1", "beta_2", "momentum")]),
    ]


def refused(path, model, opt, match, **kwargs):
    """Restore, which fails and changes nothing."""
    opt.build(model.trainable_variables)
    before = state(model, opt)
    with pytest.raises(checkpoints.CheckpointError, match=match):
        checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    assert all(map(np.array_equal, before, state(model, opt)))


def test_another_shape(path):
    match = r"dense_a/kernel \(shape \(3, 2\), not \(3, 4\)\)"
    refused(path, named(units=4), wrapped(), match)


def test_another_dtype(path):
    model = model_of(
        keras.layers.Dense(2, name="dense_a", dtype="float64"),
        keras.layers.Dense(1, name="dense_b", dtype="float64"),
    )
    refused(path, model, wrapped(), "dtype float32, not float64")


def test_another_class_of_optimizer(path):
    refused(path, named(), wrapped(keras.optimizers.Adamax()), "of the class Adam, but")


@pytest.mark.parametrize(
    ("name", "arguments"), [("Adamax", {}), ("RMSprop", {"momentum": 0.9})]
)
@pytest.mark.parametrize("of_keras", ["3.6", "here", "tf_lso"])
@needs_keras3
@takes_optimizers
def test_another_class_of_optimizer_of_keras_3(of_keras, name, arguments, tmp_path):
    """RMSprop can have lists of the same names as Adam."""
    path = artifacts.folder("TF2.17-keras3.6") / "bare-keras3-Adam" / "ckpt-1"
    if of_keras != "3.6":
        model, opt = named(), keras.optimizers.Adam()
        opt = wrapped(opt) if of_keras == "tf_lso" else opt
        opt.build(model.trainable_variables)
        path = tf.train.Checkpoint(model=model, optimizer=opt).write(tmp_path / "c")
    inner = getattr(keras.optimizers, name)(**arguments)
    refused(path, named(), wrapped(inner), "of the class Adam, but")


def test_a_slot_that_the_file_lacks(path):
    inner = keras.optimizers.Adam(amsgrad=True)
    refused(path, named(), wrapped(inner), "missing in the file: optimizer/vhat/")


def test_a_variable_of_keras_2_may_end_as_slots_of_keras_3(tmp_path):
    """Its slot is no momentum."""
    keras2 = KERASES["keras2"]

    class Layer(keras2.layers.Layer):
        def build(self, shape):
            self.own = self.add_weight(name="my_momentum", shape=shape[1:])

        def call(self, inputs):
            return inputs * self.own

    def made(**arguments):
        model = keras2.Sequential([keras2.layers.InputLayer((3,)), Layer(name="one")])
        opt = wrapped(keras2.optimizers.RMSprop(**arguments))
        opt.build(model.trainable_variables)
        return model, opt

    model, opt = made()
    path = tf.train.Checkpoint(model=model, optimizer=opt).write(str(tmp_path / "c"))
    match = r"missing in the file: optimizer/momentum/\S*my_momentum"
    with pytest.raises(checkpoints.CheckpointError, match=match):
        model, opt = made(momentum=0.9)
        checkpoints.restore(path, model=model, optimizer=opt)


def test_a_layer_that_the_file_lacks(path):
    model = model_of(
        keras.layers.Dense(2, name="dense_a"),
        keras.layers.Dense(1, name="dense_b"),
        keras.layers.Dense(1, name="dense_c"),
    )
    refused(path, model, wrapped(), r"missing in the file: \S*dense_c/kernel")


def test_partial_restores_what_fits(path):
    model, opt = named(units=4), wrapped()
    report = checkpoints.restore(path, model=model, optimizer=opt, partial=True)
    assert report.wrong
    assert not report.complete
    recorded = artifacts.cases(VERSION)[CASE]["checkpoint"]["after5"]
    assert np.array_equal(
        model.get_weights()[3], artifacts.numbers(recorded["weights"][3])
    )
    assert int(numpy(opt.iterations)) == 5


def test_layers_by_other_names_are_known_by_their_place(path):
    model, opt = named("one", "two"), wrapped()
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    opt = wrapped()
    mapping = {"dense_a": "one", "layer_with_weights-1": "two"}
    assert checkpoints.restore(
        path, model=model, optimizer=opt, mapping=mapping
    ).complete


def square(*names):
    layers = [keras.layers.Dense(3, name=name) for name in names]
    model = model_of(*layers)
    model.set_weights([np.full(w.shape, i) for i, w in enumerate(model.weights)])
    return model


def as_keras_3_0(path):
    """Let an .h5 file name its weights as Keras 3.0 does: without their layer."""
    with h5py.File(path, "r+") as file:
        for name in ("one", "two"):
            layer = file["model_weights"][name]
            weights = np.char.asarray(layer.attrs["weight_names"]).astype(str)
            values = {text.split("/")[-1]: layer[text][()] for text in weights}
            layer.clear()
            for short, value in values.items():
                layer[short] = value
            layer.attrs["weight_names"] = list(values)


@pytest.mark.parametrize("as_written", [lambda path: None, as_keras_3_0])
def test_places_and_names_that_contradict_each_other(as_written, tmp_path):
    old = square("one", "two")
    h5 = tmp_path / "model.h5"
    old.save(h5)
    as_written(h5)
    new = square("two", "one")
    with pytest.raises(checkpoints.CheckpointError, match="by its name"):
        checkpoints.restore(h5, model=new)
    mapping = {"one": "one", "two": "two"}
    checkpoints.restore(h5, model=new, mapping=mapping)
    assert float(numpy(new.get_layer("one").kernel)[0, 0]) == 0


@pytest.mark.parametrize(
    ("mapping", "match"),
    [
        ({"dense_z": "dense_a"}, "names 'dense_z', but"),
        ({"dense_a": "dense_z"}, "to 'dense_z/kernel', but the model has only"),
        ({"dense_a/kernel": "kernel"}, "to 'kernel', but the model has only"),  # two
    ],
)
def test_a_mapping_has_to_name_what_exists(path, mapping, match):
    refused(path, named(), wrapped(), match, mapping=mapping)


def test_an_optimizer_that_is_none(path):
    with pytest.raises(TypeError, match="'optimizer' must be an instance"):
        checkpoints.restore(path, model=named(), optimizer="adam")


@needs_keras3
def test_a_wrapper_of_another_library(path):
    other = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    with pytest.raises(
        checkpoints.CheckpointError, match=r"tf_lso.LossScaleOptimizer\("
    ):
        checkpoints.restore(path, model=named(), optimizer=other)


@pytest.mark.parametrize(
    "target", ["missing/ckpt-1", "missing.h5", "missing.keras", "empty"]
)
def test_a_path_without_a_file(tmp_path, target):
    (tmp_path / "empty").mkdir()
    with pytest.raises(checkpoints.CheckpointError, match=target.split("/", 1)[0]):
        checkpoints.restore(tmp_path / target, model=named())


@takes_optimizers
def test_a_directory_means_its_latest(tmp_path):
    model, opt = named(), wrapped()
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=opt), str(tmp_path), max_to_keep=3
    )
    opt.build(model.trainable_variables)
    for value in (1.0, 2.0):
        model.set_weights([np.full(w.shape, value) for w in model.weights])
        manager.save()
    new, new_opt = named(), wrapped()
    checkpoints.restore(tmp_path, model=new, optimizer=new_opt)
    assert float(new.get_weights()[0][0, 0]) == 2.0


def test_hyperparameters_are_restored(path):
    opt = wrapped(keras.optimizers.Adam(0.5, beta_1=0.5))
    report = checkpoints.restore(path, model=named(), optimizer=opt)
    assert number(opt.learning_rate) == np.float32(0.01)
    assert opt.beta_1 == 0.9
    assert opt.inner_optimizer.beta_2 == 0.999
    changed = [name for _, name, how in report.converted if "becomes" in how]
    assert sorted(changed) == ["optimizer/beta_1", "optimizer/learning_rate"]


def test_a_decay_needs_a_schedule():
    case = "stable-v2-SGD_decay-dynamic"
    path = artifacts.folder("TF2.15.1") / case / "ckpt-1"
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    refused(path, named(), wrapped(inner), r"InverseTimeDecay\(learning_rate, 1, 0.1\)")
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, 1, 0.1)
    opt = wrapped(keras.optimizers.SGD(schedule, momentum=0.9))
    assert checkpoints.restore(path, model=named(), optimizer=opt).complete


def test_the_report_names_every_key_and_every_variable_once(path):
    model, opt = named(), wrapped()
    report = checkpoints.restore(path, model=model, optimizer=opt)
    keys = [row[0] for row in (*report.restored, *report.converted, *report.wrong)]
    keys += report.unused
    reader = tf.train.load_checkpoint(str(path))
    in_file = set(reader.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    assert sorted(keys) == sorted(in_file)
    names = [row[1] for row in (*report.restored, *report.converted)]
    assert len(names) == len(set(names))
    # 4 weights, 8 slots, the counter, the scale and its count, 4 hyperparameters.
    assert len(names) == 4 + 8 + 1 + 2 + 4
    text = str(report)
    assert all(key in text for key in keys)


@takes_optimizers
@pytest.mark.parametrize(
    ("role", "value", "match"),
    [
        ("scale", float("nan"), "the loss scale at the key .* is nan"),
        ("scale", float("inf"), "the loss scale at the key .* is inf"),
        ("scale", -1.0, "the loss scale at the key .* is -1.0"),
        ("count", -1, "the count at the key .* is -1.0"),
    ],
)
def test_a_scale_that_is_no_number(tmp_path, role, value, match):
    model, opt = named(), wrapped()
    opt.build(model.trainable_variables)
    named_variables = dict(opt.loss_scale_state.named_variables())
    key = {"scale": "current_loss_scale", "count": "good_steps"}[role]
    named_variables[key].assign(value)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save(str(tmp_path / "ckpt"))
    refused(path, named(), wrapped(), match)
