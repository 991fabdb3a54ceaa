"""`restore` refuses a file that does not fit, and its report names everything in the file."""

import shutil

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints.helpers import (
    assert_refused,
    make_model,
    restore_completely,
    save,
    train,
)
from tests.families import (
    FAMILIES,
    KERASES,
    keras,
    keras2,
    needs_keras3,
    number,
    numpy,
    takes_optimizers,
)
from tf_lso import checkpoints

VERSION, CASE = "TF2.4.4", "stable-v2-Adam-dynamic"
PATH = artifacts.folder(VERSION) / CASE / "ckpt-1"


def recorded_model(first="dense_a", second="dense_b", units=2, dtype=None, more=()):
    """Return a model like that of the files, except for the given arguments."""
    units_of_layer = {first: units, second: 1, **dict.fromkeys(more, 1)}
    dense = [
        keras.layers.Dense(units, name=name, dtype=dtype)
        for name, units in units_of_layer.items()
    ]
    return keras.Sequential([keras.Input((3,)), *dense])


def wrapped(name="Adam", rate=0.01, **arguments):
    return tf_lso.LossScaleOptimizer(getattr(keras.optimizers, name)(rate, **arguments))


# Rows of (text in the error, arguments of the model, arguments of the optimizer, mapping). In
# each row, one of the last three does not fit the file.
REFUSED = [
    (r"nothing was changed\. layout v2: 10 fit, 9 wrong", {"units": 4}, {}, {}),
    (r"dense_a/kernel \(shape \(3, 2\), not \(3, 4\)\)", {"units": 4}, {}, {}),
    ("dtype float32, not float64", {"dtype": "float64"}, {}, {}),
    (r"missing in the file: \S*dense_c/kernel", {"more": ["dense_c"]}, {}, {}),
    # Seven layers have 14 variables and 28 slots. The error shows 20 of them.
    (r"\n  and 22 more\n", {"more": [f"more_{n}" for n in range(7)]}, {}, {}),
    ("of the class Adam, but", {}, {"name": "Adamax"}, {}),
    ("missing in the file: optimizer/vhat/", {}, {"amsgrad": True}, {}),
    ("names 'dense_z', but", {}, {}, {"dense_z": "dense_a"}),
    ("to 'dense_z/kernel', but the model has only", {}, {}, {"dense_a": "dense_z"}),
    # Two variables of the model are called "kernel".
    ("to 'kernel', but the model has only", {}, {}, {"dense_a/kernel": "kernel"}),
]


@pytest.mark.parametrize(
    ("match", "model_arguments", "optimizer_arguments", "mapping"), REFUSED
)
def test_what_does_not_fit_is_refused(
    match, model_arguments, optimizer_arguments, mapping
):
    model, opt = recorded_model(**model_arguments), wrapped(**optimizer_arguments)
    assert_refused(PATH, model, opt, match, mapping=mapping)


def test_a_name_that_the_checkpoint_lacks_is_refused():
    with pytest.raises(checkpoints.CheckpointError, match="has no model called 'net'"):
        checkpoints.restore(PATH, model=recorded_model(), names={"model": "net"})


@pytest.mark.parametrize("suffix", ["", ".h5", ".weights.h5", ".keras"])
def test_a_file_without_an_optimizer_says_how_to_restore_the_model(suffix, tmp_path):
    model, path = recorded_model(), str(tmp_path / f"model{suffix}")
    if suffix in (".h5", ".keras"):
        model.save(path)
    elif suffix:
        model.save_weights(path)
    else:
        path = tf.train.Checkpoint(model=model).save(path)
    assert_refused(path, model, wrapped(), "Leave out optimizer= to restore")
    assert checkpoints.restore(path, model=model).complete


@pytest.mark.parametrize("writer", ["Keras 3.6", "tf_lso"])
@needs_keras3
@takes_optimizers
def test_another_class_of_optimizer_of_keras_3_is_refused(writer, tmp_path):
    """RMSprop can have lists of slots with the same names as those of Adam."""
    path = artifacts.folder("TF2.17-keras3.6") / "bare-keras3-Adam" / "ckpt-1"
    if writer == "tf_lso":
        model, opt = recorded_model(), wrapped()
        opt.build(model.trainable_variables)
        path = tf.train.Checkpoint(model=model, optimizer=opt).write(tmp_path / "c")
    opt = wrapped("RMSprop", momentum=0.9)
    assert_refused(path, recorded_model(), opt, "of the class Adam, but")


@needs_keras3
@takes_optimizers
def test_the_class_is_known_from_the_name_of_the_second_optimizer(tmp_path):
    """Keras 3 calls it "rm_sprop_1". All slots of an RMSprop would fit an Adam."""
    keras.backend.clear_session()
    for _ in range(2):
        old = keras.optimizers.RMSprop(0.01, momentum=0.9)
    model = recorded_model()
    old.build(model.trainable_variables)
    path = tf.train.Checkpoint(model=model, optimizer=old).write(tmp_path / "c")
    assert_refused(path, recorded_model(), wrapped(), "of the class RMSprop, but")


def test_a_variable_of_keras_2_may_have_the_name_of_a_slot_of_keras_3(tmp_path):
    """The slot of the variable "my_momentum" must not pass for a momentum."""

    class Layer(keras2.layers.Layer):
        def build(self, shape):
            self.weight = self.add_weight(name="my_momentum", shape=shape[1:])

        def call(self, inputs):
            return inputs * self.weight

    def model_and_optimizer(**arguments):
        model = keras2.Sequential([keras2.layers.InputLayer((3,)), Layer(name="one")])
        opt = tf_lso.LossScaleOptimizer(keras2.optimizers.RMSprop(**arguments))
        opt.build(model.trainable_variables)
        return {"model": model, "optimizer": opt}

    path = tf.train.Checkpoint(**model_and_optimizer()).write(str(tmp_path / "c"))
    match = r"missing in the file: optimizer/momentum/\S*my_momentum"
    with pytest.raises(checkpoints.CheckpointError, match=match):
        checkpoints.restore(path, **model_and_optimizer(momentum=0.9))


def test_partial_restores_what_fits():
    model, opt = recorded_model(units=4), wrapped()
    report = checkpoints.restore(PATH, model=model, optimizer=opt, partial=True)
    assert report.wrong
    assert not report.complete
    recorded = artifacts.cases(VERSION)[CASE]["checkpoint"]["after5"]
    bias = artifacts.numbers(recorded["weights"][3])
    assert np.array_equal(model.get_weights()[3], bias)
    assert int(numpy(opt.iterations)) == 5


@pytest.mark.parametrize(
    "mapping",
    [
        None,
        {"dense_a": "one", "layer_with_weights-1": "two"},
        {"dense_a": "one", "layer-1": "two"},
    ],
)
def test_layers_by_other_names_are_found_by_their_place_or_a_mapping(mapping):
    restore_completely(PATH, recorded_model("one", "two"), wrapped(), mapping=mapping)


def test_a_longer_name_in_a_mapping_overrides_a_shorter_name(tmp_path):
    path = tmp_path / "model.h5"
    old, new = make_model(keras, "a", "b"), make_model(keras, "x", "y")
    old.save(path)
    mapping = {"a/kernel": "y/kernel", "b/kernel": "x/kernel", "a": "x", "b": "y"}
    assert checkpoints.restore(path, model=new, mapping=mapping).complete
    for name, other in {"a": "y", "b": "x"}.items():
        kernels = [old.get_layer(name).kernel, new.get_layer(other).kernel]
        np.testing.assert_array_equal(*map(numpy, kernels))


def test_places_and_names_that_contradict_each_other_are_refused(tmp_path):
    """As Keras 3.0 writes it, the names of weights lack that of their layer."""
    h5 = tmp_path / "model.h5"
    old = make_model(keras, "one", "two")
    old.set_weights([np.full(w.shape, index) for index, w in enumerate(old.weights)])
    old.save(h5)
    with h5py.File(h5, "r+") as file:
        for name in ("one", "two"):
            layer = file["model_weights"][name]
            weights = np.char.asarray(layer.attrs["weight_names"]).astype(str)
            values = {text.split("/")[-1]: layer[text][()] for text in weights}
            layer.clear()
            for short, value in values.items():
                layer[short] = value
            layer.attrs["weight_names"] = list(values)
    new = make_model(keras, "two", "one")
    with pytest.raises(checkpoints.CheckpointError, match="by its name"):
        checkpoints.restore(h5, model=new)
    checkpoints.restore(h5, model=new, mapping={"one": "one", "two": "two"})
    assert float(numpy(new.get_layer("one").kernel)[0, 0]) == 0


def test_an_optimizer_of_another_type_is_refused():
    with pytest.raises(TypeError, match="'optimizer' must be an instance"):
        checkpoints.restore(PATH, model=recorded_model(), optimizer="adam")


@pytest.mark.parametrize("name", ["LossScaleOptimizer", "MultiOptimizer"])
@needs_keras3
def test_an_optimizer_of_keras_that_wraps_others_is_refused(name):
    if not hasattr(keras.optimizers, name):
        pytest.skip("this Keras has no such optimizer")
    adam = keras.optimizers.Adam()
    inner = {"a": adam} if name == "MultiOptimizer" else adam
    opt = getattr(keras.optimizers, name)(inner)
    with pytest.raises(checkpoints.CheckpointError, match="does not restore"):
        checkpoints.restore(PATH, model=recorded_model(), optimizer=opt)


@pytest.mark.parametrize("target", ["missing/ckpt-1", "missing.h5", "empty"])
def test_a_path_without_a_file_is_refused(tmp_path, target):
    (tmp_path / "empty").mkdir()
    with pytest.raises(checkpoints.CheckpointError, match=target.split("/", 1)[0]):
        checkpoints.restore(tmp_path / target, model=recorded_model())


def test_a_checkpoint_of_a_saver_of_tensorflow_1_is_refused(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("x", initializer=1.0)
        session.run(variable.initializer)
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / "c"))
    with pytest.raises(
        checkpoints.CheckpointError, match=r"written by \S*train\.Saver"
    ):
        checkpoints.restore(path, model=recorded_model())


def test_an_integer_may_have_32_bits_in_the_file_and_64_bits_here(tmp_path):
    class Layer(keras2.layers.Dense):
        def __init__(self, count_dtype):
            super().__init__(1, name="dense")
            self.count_dtype = count_dtype

        def build(self, shape):
            super().build(shape)
            arguments = {"dtype": self.count_dtype, "trainable": False}
            self.count = self.add_weight("count", (), initializer="ones", **arguments)

    def make(dtype):
        return keras2.Sequential([keras2.layers.InputLayer((3,)), Layer(dtype)])

    old, new = make("int32"), make("int64")
    old.layers[-1].count.assign(7)
    path = tf.train.Checkpoint(model=old).save(tmp_path / "c")
    report = checkpoints.restore(path, model=new)
    assert new.layers[-1].count == 7
    assert [change for *_, change in report.converted] == ["int32 to int64"]


@takes_optimizers
def test_a_directory_stands_for_its_latest_checkpoint(tmp_path):
    model, opt = recorded_model(), wrapped()
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=opt), str(tmp_path), max_to_keep=3
    )
    opt.build(model.trainable_variables)
    for value in (1.0, 2.0):
        model.set_weights([np.full(w.shape, value) for w in model.weights])
        manager.save()
    new = recorded_model()
    checkpoints.restore(tmp_path, model=new, optimizer=wrapped())
    assert float(new.get_weights()[0][0, 0]) == 2.0


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("model.keras", "model.zip"),
        ("model.h5", "model.hdf5"),
        ("model.h5", "model.hdf"),
    ],
)
def test_a_file_may_have_another_suffix(name, other, tmp_path):
    case = artifacts.folder("TF2.15.1") / "stable-new-Adam-dynamic"
    path = shutil.copy(case / name, tmp_path / other)
    assert checkpoints.restore(path, model=recorded_model()).complete


def test_a_checkpoint_is_found_by_its_index_file_and_by_a_name_like_that_of_an_h5_file(
    tmp_path,
):
    assert checkpoints.restore(f"{PATH}.index", model=recorded_model()).complete
    checkpoint = tf.train.Checkpoint(model=recorded_model())
    path = checkpoint.write(str(tmp_path / "best.h5"))
    assert checkpoints.restore(path, model=recorded_model()).complete
    with pytest.raises(checkpoints.CheckpointError, match=r"folder are: best\.h5\."):
        checkpoints.restore(tmp_path / "last.h5", model=recorded_model())


@pytest.mark.parametrize(
    ("version", "case", "name", "layout"),
    [
        ("TF2.1.4", "experimental-v2-Adam-dynamic", "ckpt-1", "2.0-2.2"),
        ("TF2.15.1", "stable-new-Adam-dynamic", "ckpt-1", "new"),
        ("TF2.15.1", "stable-new-Adam-dynamic", "model.h5", "h5"),
        ("TF2.15.1", "stable-new-Adam-dynamic", "model.keras", "keras"),
    ],
)
def test_the_report_names_the_layout(version, case, name, layout):
    path = artifacts.path_of(version, case, name)
    assert checkpoints.restore(path, model=recorded_model()).layout == layout


@needs_keras3
def test_the_gradients_that_an_optimizer_accumulates_may_be_absent_in_a_file():
    opt = wrapped(gradient_accumulation_steps=2)
    report = restore_completely(PATH, recorded_model(), opt)
    assert "the file has no accumulated gradients" in str(report)
    assert number(opt.iterations) == 5


@needs_keras3
def test_gradients_that_were_accumulated_over_other_numbers_of_batches_are_refused(
    tmp_path,
):
    model, opt = make_model(keras), wrapped(gradient_accumulation_steps=2)
    train(model, opt)
    path = save(model, opt, "keras", tmp_path)
    other = wrapped(gradient_accumulation_steps=3)
    match = "gradient_accumulation_steps=2 in the file, but 3 here"
    assert_refused(path, make_model(keras), other, match)


def test_hyperparameters_are_restored():
    opt = wrapped(rate=0.5, beta_1=0.5)
    report = restore_completely(PATH, recorded_model(), opt)
    assert number(opt.learning_rate) == np.float32(0.01)
    assert opt.beta_1 == 0.9
    assert opt.inner_optimizer.beta_2 == 0.999
    changed = [name for _, name, change in report.converted if "becomes" in change]
    assert sorted(changed) == ["optimizer/beta_1", "optimizer/learning_rate"]


WITH_DECAY = artifacts.path_of("TF2.15.1", "stable-v2-SGD_decay-dynamic")


def test_the_argument_decay_of_an_old_optimizer_needs_a_schedule():
    opt = wrapped("SGD", 0.1, momentum=0.9)
    match = r"InverseTimeDecay\(learning_rate, 1, 0.1\)"
    assert_refused(WITH_DECAY, recorded_model(), opt, match)
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, 1, 0.1)
    opt = wrapped("SGD", schedule, momentum=0.9)
    restore_completely(WITH_DECAY, recorded_model(), opt)


@pytest.mark.parametrize(
    ("steps", "rate", "staircase"), [(2, 0.1, False), (1, 0.2, False), (1, 0.1, True)]
)
def test_a_schedule_that_decays_otherwise_than_the_old_optimizer_is_refused(
    steps, rate, staircase
):
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, steps, rate, staircase)
    opt = wrapped("SGD", schedule, momentum=0.9)
    assert_refused(WITH_DECAY, recorded_model(), opt, "this optimizer has no decay")


@needs_keras3
def test_partial_sets_no_momentum_in_an_optimizer_without_slots():
    model, opt = recorded_model(), wrapped("SGD", 0.1)
    report = checkpoints.restore(WITH_DECAY, model=model, optimizer=opt, partial=True)
    assert "0.9, but this optimizer was created without" in str(report)
    assert "Create the optimizer as it was when it was saved: SGD(" in str(report)
    assert opt.inner_optimizer.momentum == 0


def test_the_report_names_every_key_and_every_variable_once():
    report = restore_completely(PATH, recorded_model(), wrapped())
    keys = [row[0] for row in (*report.restored, *report.converted, *report.wrong)]
    keys += report.unused
    in_file = {name for name, _ in tf.train.list_variables(str(PATH))}
    assert sorted(keys) == sorted(in_file - {"_CHECKPOINTABLE_OBJECT_GRAPH"})
    names = [row[1] for row in (*report.restored, *report.converted)]
    assert len(names) == len(set(names))
    # 4 weights, 8 slots, `iterations`, the scale and its counter, and 4 hyperparameters.
    assert len(names) == 4 + 8 + 1 + 2 + 4
    text = str(report)
    assert all(key in text for key in keys)
    assert report.summary() == "layout v2: 19 restored, 1 unused"


@takes_optimizers
@pytest.mark.parametrize(
    ("variable", "value", "match"),
    [
        ("current_loss_scale", float("nan"), "the loss scale at the key .* is nan"),
        ("current_loss_scale", 0.0, "the loss scale at the key .* is 0.0"),
        ("current_loss_scale", float("inf"), "the loss scale at the key .* is inf"),
        ("good_steps", -1, "the count at the key .* is -1.0"),
        ("iterations", -1, "the count at the key .* is -1.0"),
    ],
)
def test_an_impossible_loss_scale_or_counter_is_refused(
    tmp_path, variable, value, match
):
    model, opt = recorded_model(), wrapped()
    opt.build(model.trainable_variables)
    variables = dict(opt.loss_scale_state.named_variables())
    variables.get(variable, opt.iterations).assign(value)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save(str(tmp_path / "ckpt"))
    assert_refused(path, recorded_model(), wrapped(), match)


def test_the_absence_of_a_checkpoint_says_what_to_pass(tmp_path):
    """`tf.train.latest_checkpoint` returns None for a folder without checkpoints."""
    path = tf.train.latest_checkpoint(tmp_path)
    with pytest.raises(checkpoints.CheckpointError, match=r"'path' is None.*folder"):
        checkpoints.restore(path, model=recorded_model())


@pytest.mark.parametrize("model", [None, "model"])
def test_a_model_is_needed_also_for_an_optimizer(model):
    with pytest.raises(TypeError, match="'model' must be a built model of Keras"):
        checkpoints.restore(PATH, model=model, optimizer=wrapped())


def test_two_layers_of_a_checkpoint_with_the_name_of_one_variable_are_refused(tmp_path):
    """Nothing says which of the two layers `dense` the only one of today is."""

    def part(name):
        parts = [keras2.layers.InputLayer((3,)), keras2.layers.Dense(3, name="dense")]
        return keras2.Sequential(parts, name=name)

    parts = [keras2.layers.InputLayer((3,)), part("encoder"), part("decoder")]
    checkpoint = tf.train.Checkpoint(model=keras2.Sequential(parts))
    with pytest.raises(checkpoints.CheckpointError, match="2 missing, 5 unused"):
        checkpoints.restore(checkpoint.save(tmp_path / "saved"), model=part("encoder"))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "legacy"])
def test_slots_of_a_layer_that_was_frozen_are_missing_in_a_newer_optimizer(
    family, tmp_path
):
    """A legacy optimizer makes slots when it needs them, and a newer one makes all at once."""
    model = make_model(KERASES[family], "a", "b")
    model.get_layer("b").trainable = False
    optimizer = FAMILIES[family].Adam(0.01)
    optimizer.build(model.trainable_variables)
    train(model, optimizer)
    path = save(model, optimizer, "h5", tmp_path)
    new = make_model(KERASES[family], "a", "b")
    assert_refused(path, new, FAMILIES[family].Adam(0.01), "4 missing", "m/.*b/kernel")
