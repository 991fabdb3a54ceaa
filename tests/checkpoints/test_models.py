"""Models of other shapes restore, whatever their layers are called."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts, networks
from tests.families import GENERATIONS, KERASES, keras, needs_keras3, numpy
from tf_lso import checkpoints

VERSIONS = ("TF2.1.4", "TF2.4.4", "TF2.15.1")

# Recorded under two replicas, whose batches are halved: the next steps are not compared.
MIRRORED = ("mirrored", "mirrored_bn", "mirrored-v2", "mirrored_bn-v2")

CORE = [("TF2.15.1", name) for name in ("bilstm", "conv", "subclassed")]
CASES = [
    pytest.param(v, name, marks=[pytest.mark.core] * ((v, name) in CORE))
    for v in VERSIONS
    for name in artifacts.cases(f"{v}-models")
    if not name.startswith("gan")
]


def made(recorded, target):
    """The model, and an optimizer as all of these had: Adam, scale 8, growth 3."""
    model = networks.build(recorded["model"], KERASES[target])
    rate = 0.01
    if recorded["model"] == "schedule":
        rate = KERASES[target].optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)
    inner = KERASES[target].optimizers.Adam(rate)
    return model, tf_lso.LossScaleOptimizer(
        inner, initial_scale=8, dynamic_growth_steps=3
    )


def leaf(name):
    parts = [part for part in name.split(":")[0].split("/") if part != "subclassed"]
    return ("", *parts)[-2:]


def by_name(model):
    """The weights by layer and name; what Keras 3 renamed by its old name."""
    found = {}
    for weight in model.weights:
        layer, name = leaf(getattr(weight, "path", weight.name))
        found[layer, name] = np.asarray(weight)
    if ("depthwise", "kernel") in found:
        found["depthwise", "depthwise_kernel"] = found.pop(("depthwise", "kernel"))
    return found


# The softmax of an attention takes the bias of the keys away again, so its gradient is 0
# but for rounding, which is another on each processor. Adam makes steps of it all the same.
OF_ROUNDING = ("key", "bias")


def equal(model, recorded, **tolerance):
    """Whether the weights are those recorded: by name, or in their order.

    Args:
      model: the model.
      recorded: what was recorded of the weights.
      **tolerance: of `np.allclose`. Without it the weights must be equal to the bit.
    """
    named = dict(zip(map(leaf, recorded["weight_names"]), recorded["weights"]))
    ours = by_name(model)
    if named.keys() == ours.keys():
        compared = [key for key in named if not tolerance or key != OF_ROUNDING]
        pairs = [(ours[key], named[key]) for key in compared]
    else:
        pairs = list(zip(model.get_weights(), recorded["weights"], strict=True))
    return all(
        np.allclose(a, artifacts.numbers(b), **(tolerance or {"rtol": 0, "atol": 0}))
        for a, b in pairs
    )


@pytest.mark.parametrize(("version", "name"), CASES)
@pytest.mark.parametrize("target", GENERATIONS)
def test_a_model_goes_on(version, name, target):
    recorded = artifacts.cases(f"{version}-models")[name]
    model, opt = made(recorded, target)
    path = artifacts.folder(f"{version}-models") / name / recorded["prefix"]
    report = checkpoints.restore(path, model=model, optimizer=opt)
    assert report.complete
    assert equal(model, recorded["after5"])
    assert int(numpy(opt.iterations)) == recorded["after5"]["iterations"]
    assert float(opt.loss_scale) == recorded["after5"]["loss_scale"]
    if name in MIRRORED or version == "TF2.1.4":  # see writers.py: skipped steps
        return
    batches = [networks.batch(recorded["model"], i) for i in range(5, 10)]
    artifacts.train(model, opt, *zip(*batches), compiled=False)
    assert int(numpy(opt.iterations)) == recorded["after10"]["iterations"]
    assert float(opt.loss_scale) == recorded["after10"]["loss_scale"]
    assert equal(model, recorded["after10"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("version", VERSIONS)
@needs_keras3
def test_whole_models_of_other_shapes(version):
    """In .h5 files weights are known by their order alone."""
    seen = 0
    for name, recorded in artifacts.cases(f"{version}-models").items():
        path = artifacts.folder(f"{version}-models") / name / "model.h5"
        if path.exists():
            model, _ = made(recorded, "keras3")
            assert checkpoints.restore(path, model=model).complete
            assert equal(model, recorded["after5"])
            seen += 1
    assert seen >= 6


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("part", ["generator", "discriminator"])
def test_a_checkpoint_of_several_models(version, part):
    recorded = artifacts.cases(f"{version}-models")["gan"]
    path = artifacts.folder(f"{version}-models") / "gan" / recorded["prefix"]
    model = networks.build("gan", keras)[part]
    opt = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    report = checkpoints.restore(
        path,
        model=model,
        optimizer=opt,
        names={"model": part, "optimizer": f"{part}_optimizer"},
    )
    assert report.complete
    assert equal(model, recorded["after5"][part])
    assert int(numpy(opt.iterations)) == recorded["after5"][part]["iterations"]
    assert float(opt.loss_scale) == recorded["after5"][part]["loss_scale"]


def test_the_names_have_to_exist():
    recorded = artifacts.cases("TF2.4.4-models")["gan"]
    path = artifacts.folder("TF2.4.4-models") / "gan" / recorded["prefix"]
    model = networks.build("gan", keras)["generator"]
    with pytest.raises(checkpoints.CheckpointError, match="has no model called 'net'"):
        checkpoints.restore(path, model=model, names={"model": "net"})


@needs_keras3
def test_two_replicas_get_the_same(mirrored2):
    recorded = artifacts.cases("TF2.4.4-models")["net_opt"]
    path = artifacts.folder("TF2.4.4-models") / "net_opt" / recorded["prefix"]
    with mirrored2.scope():
        model, opt = made(recorded, "keras3")
        checkpoints.restore(path, model=model, optimizer=opt)
    assert equal(model, recorded["after5"])
    for variable in (*model.weights, *opt.variables):
        first, second = mirrored2.experimental_local_results(variable.value)[:2] * (
            1 if isinstance(variable.value, tf.distribute.DistributedValues) else 2
        )
        assert np.array_equal(first, second)
