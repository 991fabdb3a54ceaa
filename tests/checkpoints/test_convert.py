"""`tf-lso convert`: what it writes loads, and goes on as the old program did."""

import json
import os
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.programs_in_processes import start
from tf_lso import checkpoints, cli
from tf_lso.checkpoints import converting, filling

V2, NEW, OLD = "stable-v2-Adam-dynamic", "stable-new-Adam-dynamic", "bare-v2-SGD"
SOURCES = [
    ("TF2.1.4", "experimental-v2-Adam-dynamic", "ckpt-1"),
    ("TF2.1.4", "experimental-v2-Adam-dynamic", "model.h5"),
    ("TF2.4.4", V2, "ckpt-1"),
    ("TF2.4.4", V2, "model.h5"),
    ("TF2.8.4", OLD, "model.h5"),
    ("TF2.15.1", NEW, "ckpt-1"),
    ("TF2.15.1", NEW, "model.h5"),
    ("TF2.15.1", NEW, "model.keras"),
    ("TF2.15.1", NEW, "savedmodel"),
    ("TF2.15.1", V2, "savedmodel"),
]
IDS = ["-".join(source) for source in SOURCES]


def file_of(version, case, name):
    return artifacts.folder(version) / case / name


def expected(version, case, name):
    kind = "checkpoint" if name == "ckpt-1" else "compiled"
    return artifacts.cases(version)[case][kind]


def options(version, case, name, tmp_path):
    """What --model and --optimizer have to be for a checkpoint."""
    if name != "ckpt-1":
        return {}
    model, optimizer = tmp_path / "model.json", tmp_path / "optimizer.json"
    model.write_text(network().to_json())
    config = artifacts.cases(version)[case]["config"]
    optimizer.write_text(json.dumps(config))
    return {"model": str(model), "optimizer": str(optimizer)}


def network():
    return artifacts.network(keras)


def holds(model, recorded):
    return all(
        np.array_equal(a, artifacts.numbers(b))
        for a, b in zip(model.get_weights(), recorded["weights"], strict=True)
    )


def goes_on(version, case, name, model, opt):
    """Five steps later the weights are the writer's own."""
    data = artifacts.inputs()
    xs = data["X_clean" if artifacts.cases(version)[case]["clean"] else "X"][5:]
    artifacts.train(model, opt, xs, data["Y"][5:])
    if version != "TF2.1.4":  # see writers.py: skipped steps
        after = expected(version, case, name)["after10"]
        assert artifacts.close(model.get_weights(), after["weights"])
        assert int(opt.iterations) == after["iterations"]


@pytest.mark.parametrize(("version", "case", "name"), SOURCES, ids=IDS)
def test_to_keras(version, case, name, tmp_path):
    dest = tmp_path / "new.keras"
    more = options(version, case, name, tmp_path)
    report = checkpoints.convert(file_of(version, case, name), dest, "keras", **more)
    assert report.complete
    before = expected(version, case, name)["after5"]
    with tf_lso.install():
        model = keras.models.load_model(dest)
    opt = model.optimizer
    assert holds(model, before)
    assert int(opt.iterations) == before["iterations"]
    assert isinstance(opt, tf_lso.LossScaleOptimizer) == (case != OLD)
    if name in ("ckpt-1", "savedmodel"):
        scale = (before["loss_scale"], before["counter"])
        assert artifacts.scale_of(opt) == scale
    if name != "ckpt-1":
        assert model.loss == "mse" or model.loss.name == "mean_squared_error"
    goes_on(version, case, name, model, opt)


_PLAIN = """
import sys
import warnings

warnings.simplefilter("error")
import keras

for path in sys.argv[1:]:
    opt = keras.models.load_model(path).optimizer
    assert type(opt) is keras.optimizers.LossScaleOptimizer
    counts = int(opt.iterations), int(opt.step_counter.numpy())
    print(*counts, float(opt.dynamic_scale.numpy()))
assert not any(name.startswith("tf_lso") for name in sys.modules)
"""


def test_to_keras_that_knows_no_tf_lso(tmp_path):
    found = [s for s in SOURCES if s[2] == "ckpt-1"]
    lines, paths = [], []
    for version, case, name in found:
        paths.append(str(tmp_path / f"{version}.keras"))
        more = options(version, case, name, tmp_path)
        checkpoints.convert(file_of(version, case, name), paths[-1], "keras", **more)
        before = expected(version, case, name)["after5"]
        counts = before["iterations"], before["counter"]
        lines.append(f"{counts[0]} {counts[1]} {float(before['loss_scale'])}")
    done = subprocess.run(
        [sys.executable, "-c", _PLAIN, *paths],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == lines


@pytest.mark.parametrize(("version", "case", "name"), SOURCES, ids=IDS)
def test_to_weights(version, case, name, tmp_path):
    dest = tmp_path / "new.weights.h5"
    more = options(version, case, name, tmp_path)
    checkpoints.convert(file_of(version, case, name), dest, "weights.h5", **more)
    model = network()
    opt = artifacts.optimizer(artifacts.cases(version)[case], "keras3")
    model.compile(opt, "mse")
    opt.build(model.trainable_variables)
    model.load_weights(dest)
    before = expected(version, case, name)["after5"]
    assert holds(model, before)
    assert int(opt.iterations) == before["iterations"]
    goes_on(version, case, name, model, opt)


@pytest.mark.parametrize(("version", "case", "name"), SOURCES, ids=IDS)
@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("reader", ["tf.train.Checkpoint", "restore"])
def test_to_a_checkpoint(version, case, name, with_model, reader, tmp_path):
    dest = tmp_path / "new" / "ckpt"
    more = options(version, case, name, tmp_path) if with_model else {}
    checkpoints.convert(file_of(version, case, name), dest, "checkpoint", **more)
    model = network()
    opt = artifacts.optimizer(artifacts.cases(version)[case], "keras3")
    opt.build(model.trainable_variables)
    if reader == "restore":
        assert checkpoints.restore(dest, model=model, optimizer=opt).complete
    else:
        saved = tf.train.Checkpoint(model=model, optimizer=opt)
        saved.restore(str(dest)).assert_existing_objects_matched()
    before = expected(version, case, name)["after5"]
    assert holds(model, before)
    assert int(opt.iterations) == before["iterations"]
    goes_on(version, case, name, model, opt)


def main(*arguments):
    return cli.main(["convert", *map(str, arguments)])


def test_the_command_line(tmp_path, capsys):
    source, dest = file_of("TF2.4.4", V2, "model.h5"), tmp_path / "new.keras"
    assert main(source, dest, "--format", "keras") == 0
    assert "restored" in capsys.readouterr().out
    assert main(source, dest, "--format", "keras") == 2
    assert "exists. Pass --force" in capsys.readouterr().err
    assert main(source, dest, "--format", "keras", "--force", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_the_model_may_be_a_function(tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text(
        "import keras\n"
        "def build():\n"
        "    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "
        "activation='tanh'), keras.layers.Dense(1)])\n"
    )
    source, dest = file_of("TF2.4.4", V2, "ckpt-1"), tmp_path / "new.keras"
    arguments = ("--format", "keras", "--model", f"{program}:build")
    assert main(source, dest, *arguments) == 2
    assert "nothing says what it is. Pass --optimizer" in capsys.readouterr().err
    assert main(source, dest, *arguments, "--optimizer", "Adam") == 0
    opt = keras.models.load_model(dest).optimizer
    assert artifacts.scale_of(opt) == (4.0, 2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("--format", "keras"), "does not say what the model is"),
        (("--format", "keras", "--model", "x.json"), "x.json: no config"),
        (("--format", "keras", "--model", "x.py:f"), "x.py: there is no such file"),
        (("--format", "checkpoint", "--map", "a"), "should be of the form OLD=NEW"),
        (("--format", "checkpoint", "--name", "model=z"), "no model called 'z'"),
    ],
)
def test_what_is_missing_is_named(arguments, match, tmp_path, capsys):
    source = file_of("TF2.4.4", V2, "ckpt-1")
    dest = tmp_path / ("new.keras" if "keras" in arguments else "new")
    assert main(source, dest, *arguments) == 2
    assert match in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_name_has_to_suit_the_format(tmp_path, capsys):
    source = file_of("TF2.4.4", V2, "model.h5")
    assert main(source, tmp_path / "new.h5", "--format", "keras") == 2
    assert "must be called *.keras" in capsys.readouterr().err


def test_state_is_never_left_out_silently(tmp_path):
    source = file_of("TF2.15.1", V2, "model.keras")  # the real version left it out
    dest = tmp_path / "new.keras"
    with pytest.raises(checkpoints.CheckpointError, match="missing in the file"):
        checkpoints.convert(source, dest, "keras")
    assert not dest.exists()
    report = checkpoints.convert(source, dest, "keras", partial=True)
    assert "optimizer/iterations" in report.missing


@pytest.mark.parametrize("format_", converting.FORMATS)
def test_a_failure_leaves_what_was_there(format_, tmp_path, monkeypatch):
    """As does a crash: all is written aside, and moved at the end."""
    source = file_of("TF2.15.1", NEW, "model.h5")
    dest = tmp_path / f"new{converting.FORMATS[format_]}"
    checkpoints.convert(source, dest, format_)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def fails(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr(filling, "publish", fails)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoints.convert(source, dest, format_, force=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_old_parts_of_a_checkpoint_go(tmp_path):
    source, dest = file_of("TF2.15.1", NEW, "ckpt-1"), tmp_path / "ckpt"
    for part in range(3):
        (tmp_path / f"ckpt.data-0000{part}-of-00003").write_bytes(b"old")
    shutil.copy(f"{source}.index", f"{dest}.index")
    checkpoints.convert(source, dest, "checkpoint", force=True)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["ckpt.data-00000-of-00001", "ckpt.index"]


MEMORY = """
import resource, sys
from tf_lso import checkpoints
import keras, tf_lso.checkpoints.converting, tensorflow as tf
tf.constant(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
checkpoints.convert(sys.argv[1], sys.argv[2], sys.argv[3], model=sys.argv[4],
                    optimizer="Adam")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("format_", converting.FORMATS)
def test_memory_is_that_of_the_largest_tensor(format_, tmp_path):
    layers = [keras.Input((4000,)), *(keras.layers.Dense(4000) for _ in range(4))]
    model = keras.Sequential(layers)
    opt = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
    opt.build(model.trainable_variables)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save(str(tmp_path / "old"))
    description = tmp_path / "model.json"
    description.write_text(model.to_json())
    dest = tmp_path / f"new{converting.FORMATS[format_]}"
    done = start(["-c", MEMORY, path, str(dest), format_, str(description)])
    assert done.returncode == 0, done.stderr
    largest = 4000 * 4000 * 4
    assert int(done.stdout.split()[-1]) * 1024 < 1.3 * largest + 150e6
    assert os.path.getsize(f"{path}.data-00000-of-00001") > 11 * largest
