"""`restore` restores models of many kinds: nested, recurrent, subclassed and others."""

import h5py
import numpy as np
import pytest

import tf_lso
from tests.checkpoints import artifacts, networks
from tests.checkpoints.helpers import assert_equal, make_model
from tests.families import GENERATIONS, KERASES, copies, keras, needs_keras3, numpy
from tf_lso import checkpoints

VERSIONS = ("TF2.1.4", "TF2.4.4", "TF2.15.1")

# These models were trained on two replicas, each with half of the batch. So their next steps
# are not compared.
MIRRORED = ("mirrored_bn", "mirrored_bn-v2")

CORE = ("bilstm", "conv", "subclassed")


def _cases():
    """Yield a parameter (version, name of the model, target Keras) for each test.

    The newest files of newer optimizers into Keras 3 are quick, and a tenth of the others.
    """
    cases = [
        (version, name, target)
        for target in ("keras3", "keras2")
        for version in VERSIONS
        for name, recorded in artifacts.cases(f"{version}-models").items()
        if recorded["model"] in networks.BUILDERS
    ]
    for number, (version, name, target) in enumerate(cases):
        is_newest = version == "TF2.15.1" and target == "keras3"
        is_quick = (is_newest and not name.endswith("-v2")) or number % 10 == 0
        marks = [] if is_quick else [pytest.mark.slow]
        if is_newest and name in CORE:
            marks.append(pytest.mark.core)
        yield pytest.param(version, name, target, marks=marks)


def recorded_and_path(version, name):
    recorded = artifacts.cases(f"{version}-models")[name]
    return recorded, artifacts.path_of(f"{version}-models", name, recorded["prefix"])


def new_model_and_optimizer(recorded, target):
    model = networks.build(recorded["model"], KERASES[target])
    rate = 0.01
    if recorded["model"] == "schedule":
        rate = KERASES[target].optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)
    inner = KERASES[target].optimizers.Adam(rate)
    return model, tf_lso.LossScaleOptimizer(
        inner, initial_scale=8, dynamic_growth_steps=3
    )


def layer_and_name(path):
    """Return (layer, name) of a weight with a path such as "model/layer/name:0"."""
    parts = [part for part in path.split(":")[0].split("/") if part != "subclassed"]
    return ("", *parts)[-2:]


def weights_by_name(model):
    """Return {(layer, name): weight}. Weights that Keras 3 renamed have their old names."""
    found = {}
    for weight in model.weights:
        layer, name = layer_and_name(getattr(weight, "path", weight.name))
        found[layer, name] = np.asarray(weight)
    if ("depthwise", "kernel") in found:
        found["depthwise", "depthwise_kernel"] = found.pop(("depthwise", "kernel"))
    return found


# The bias of an attention's keys has no effect on the softmax, so its gradient is zero apart
# from rounding. Rounding depends on the processor, and Adam turns it into steps of full size.
# So this weight is not compared after such steps.
ONLY_ROUNDING = ("key", "bias")


def has_recorded_weights(model, recorded, tolerance=0.0):
    """Compare weights with the record: by name, or in their order if the names differ."""
    names = map(layer_and_name, recorded["weight_names"])
    expected_by_name = dict(zip(names, recorded["weights"]))
    by_name = weights_by_name(model)
    if expected_by_name.keys() == by_name.keys():
        if tolerance:
            expected_by_name.pop(ONLY_ROUNDING, None)
        expected = list(expected_by_name.values())
        weights = [by_name[name] for name in expected_by_name]
    else:
        weights, expected = model.get_weights(), recorded["weights"]
    return artifacts.close(weights, expected, rtol=tolerance, atol=tolerance)


def take_last_steps(recorded, model, opt):
    batches = [networks.batch(recorded["model"], number) for number in range(5, 10)]
    artifacts.train(model, opt, *zip(*batches), compiled=False)


def assert_holds(model, opt, recorded, tolerance=0.0):
    assert int(numpy(opt.iterations)) == recorded["iterations"]
    assert float(opt.loss_scale) == recorded["loss_scale"]
    assert has_recorded_weights(model, recorded, tolerance)


@pytest.mark.parametrize(("version", "name", "target"), list(_cases()))
def test_the_training_of_a_model_continues(version, name, target):
    recorded, path = recorded_and_path(version, name)
    model, opt = new_model_and_optimizer(recorded, target)
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert_holds(model, opt, recorded["after5"])
    # See DIFFERENCES of test_restore.py for TensorFlow 2.1.
    if name not in MIRRORED and version != "TF2.1.4":
        take_last_steps(recorded, model, opt)
        assert_holds(model, opt, recorded["after10"], 1e-5)


@pytest.mark.parametrize(
    "name", ["attention", "auto_named", "bilstm", "conv", "nested", "subclassed"]
)
@pytest.mark.core
def test_the_training_of_a_keras_file_of_2_12_continues(name):
    """TensorFlow 2.12 numbered the layers in .keras files differently from other versions."""
    target = GENERATIONS[0]
    recorded, path = recorded_and_path("TF2.12.1", name)
    model, opt = new_model_and_optimizer(recorded, target)
    if (name, target) == ("subclassed", "keras3"):
        # The file has slots in the order of the weights, which is another order in Keras 3.
        with pytest.raises(checkpoints.CheckpointError, match=r"optimizer/m/.*shape"):
            checkpoints.restore(path, model=model, optimizer=opt)
        assert checkpoints.restore(path, model=model).complete
        assert has_recorded_weights(model, recorded["after5"])
        return
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert has_recorded_weights(model, recorded["after5"])
    # The wrapper of TensorFlow 2.12 did not save its loss scale in these files.
    assert float(opt.loss_scale) == 8
    take_last_steps(recorded, model, opt)
    assert int(numpy(opt.iterations)) == recorded["after10"]["iterations"]
    assert has_recorded_weights(model, recorded["after10"], 1e-5)


@pytest.mark.parametrize("version", ["TF2.1.4", "TF2.15.1"])
@needs_keras3
def test_whole_models_are_restored_from_h5_files(version):
    """An .h5 file has the weights only in their order."""
    count = 0
    for name, recorded in artifacts.cases(f"{version}-models").items():
        path = artifacts.path_of(f"{version}-models", name, "model.h5")
        if path.exists() and recorded["model"] in networks.BUILDERS:
            model, _ = new_model_and_optimizer(recorded, "keras3")
            assert checkpoints.restore(path, model=model).complete
            assert has_recorded_weights(model, recorded["after5"])
            count += 1
    assert count >= 5, "the record has more .h5 files"


def test_the_parts_of_a_long_list_of_names_are_read(tmp_path):
    """Keras splits a list of more than 64 kB into attributes with numbers."""
    path = tmp_path / "model.h5"
    old, new = make_model(keras), make_model(keras)
    old.save(path)
    with h5py.File(path, "r+") as file:
        attributes = file["model_weights"].attrs
        names = attributes["layer_names"]
        del attributes["layer_names"]
        for number, name in enumerate(names):
            attributes[f"layer_names{number}"] = [name]
    assert checkpoints.restore(path, model=new).complete
    assert_equal(new.get_weights(), old.get_weights())


def test_layers_without_weights_do_not_count_in_an_h5_file(tmp_path):
    """The layers of today have other names, so only their places can match."""

    def model(*names):
        first, last = (keras.layers.Dense(3, name=name) for name in names)
        parts = [keras.layers.InputLayer((3,)), first, keras.layers.ReLU(), last]
        return keras.Sequential(parts)

    old, new = model("a", "b"), model("c", "d")
    old.save(tmp_path / "model.h5")
    assert checkpoints.restore(tmp_path / "model.h5", model=new).complete
    assert_equal(new.get_weights(), old.get_weights())


def test_an_h5_file_of_weights_has_those_of_the_model_itself(tmp_path):
    old, new = (networks.subclassed(KERASES["keras2"]) for _ in range(2))
    old.gain.assign(5.0)
    path = str(tmp_path / "saved.h5")
    old.save_weights(path)
    assert checkpoints.restore(path, model=new).complete
    assert_equal(new.get_weights(), old.get_weights())


@needs_keras3
def test_both_replicas_get_the_restored_values(mirrored2):
    recorded, path = recorded_and_path("TF2.4.4", "net_opt")
    with mirrored2.scope():
        model, opt = new_model_and_optimizer(recorded, "keras3")
        checkpoints.restore(path, model=model, optimizer=opt)
    assert has_recorded_weights(model, recorded["after5"])
    for variable in (*model.weights, *opt.variables):
        first, *others = copies(variable)
        assert all(np.array_equal(first, other) for other in others)
