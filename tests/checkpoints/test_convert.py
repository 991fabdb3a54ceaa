"""`tf-lso convert`: what it writes loads, and goes on as the old program did."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_lso
from tests import preloaded
from tests.checkpoints import artifacts
from tests.families import OLD_KERAS3, numpy, takes_optimizers
from tf_lso import checkpoints, cli
from tf_lso.checkpoints import converting

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
    artifacts.train(model, opt, xs, data["Y"][5:], compiled=False)
    if version != "TF2.1.4":  # see writers.py: skipped steps
        after = expected(version, case, name)["after10"]
        assert artifacts.close(model.get_weights(), after["weights"])
        assert int(numpy(opt.iterations)) == after["iterations"]


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
    assert int(numpy(opt.iterations)) == before["iterations"]
    assert isinstance(opt, tf_lso.LossScaleOptimizer) == (case != OLD)
    if name in ("ckpt-1", "savedmodel"):
        scale = (before["loss_scale"], before["counter"])
        assert artifacts.scale_of(opt) == scale
    if name != "ckpt-1":
        assert model.loss == "mse" or model.loss.name == "mean_squared_error"
    goes_on(version, case, name, model, opt)


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
    assert int(numpy(opt.iterations)) == before["iterations"]
    goes_on(version, case, name, model, opt)


@pytest.mark.parametrize(("version", "case", "name"), SOURCES, ids=IDS)
def test_to_a_checkpoint(version, case, name, tmp_path):
    dest = tmp_path / "new" / "ckpt"
    more = options(version, case, name, tmp_path)
    if OLD_KERAS3:
        with pytest.raises(checkpoints.CheckpointError, match="takes no optimizer"):
            checkpoints.convert(
                file_of(version, case, name), dest, "checkpoint", **more
            )
        return
    checkpoints.convert(file_of(version, case, name), dest, "checkpoint", **more)
    before = expected(version, case, name)["after5"]
    for reader in ("tf.train.Checkpoint", "restore"):
        model = network()
        opt = artifacts.optimizer(artifacts.cases(version)[case], "keras3")
        opt.build(model.trainable_variables)
        if reader == "restore":
            assert checkpoints.restore(dest, model=model, optimizer=opt).complete
        else:
            saved = tf.train.Checkpoint(model=model, optimizer=opt)
            saved.restore(str(dest)).assert_existing_objects_matched()
        assert holds(model, before), reader
        assert int(numpy(opt.iterations)) == before["iterations"], reader
        goes_on(version, case, name, model, opt)


def test_an_optimizer_that_compile_got_by_its_name(tmp_path):
    old, source, dest = artifacts.network(tf_keras), tmp_path / "a.keras", "b.keras"
    old.compile("adam", "mse")
    for _ in range(2):
        old.train_on_batch(np.ones((4, 3)), np.ones((4, 1)))
    old.save(source)
    assert checkpoints.convert(source, tmp_path / dest, "keras").complete
    new = keras.models.load_model(tmp_path / dest)
    assert int(numpy(new.optimizer.iterations)) == 2
    for model in (old, new):
        model.train_on_batch(np.ones((4, 3)), np.ones((4, 1)))
    for one, other in zip(old.get_weights(), new.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


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
    with tf_lso.install():
        opt = keras.models.load_model(dest).optimizer
    assert artifacts.scale_of(opt) == (4.0, 2)


def test_the_function_may_call_the_model_on_a_batch(tmp_path):
    """As the error about a model without variables advises."""
    program = tmp_path / "called.py"
    program.write_text(
        "import keras\n"
        "import numpy as np\n"
        "def build():\n"
        "    model = keras.Sequential([keras.layers.Dense(2, activation='tanh'), "
        "keras.layers.Dense(1)])\n"
        "    model(np.zeros((1, 3), 'float32'))\n"
        "    return model\n"
    )
    dest = tmp_path / "new.keras"
    report = checkpoints.convert(
        file_of("TF2.4.4", V2, "ckpt-1"),
        dest,
        "keras",
        model=f"{program}:build",
        optimizer="Adam",
    )
    assert report.complete
    model = keras.models.load_model(dest)
    assert holds(model, expected("TF2.4.4", V2, "ckpt-1")["after5"])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("--format", "keras"), "does not say what the model is. Say it with --model"),
        (("--format", "checkpoint"), "restore reads this file directly"),
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
    assert "must end in .keras" in capsys.readouterr().err


def test_state_is_never_left_out_silently(tmp_path):
    source = file_of("TF2.15.1", V2, "model.keras")  # the real version left it out
    dest = tmp_path / "new.keras"
    with pytest.raises(checkpoints.CheckpointError, match="missing in the file"):
        checkpoints.convert(source, dest, "keras")
    assert not dest.exists()
    report = checkpoints.convert(source, dest, "keras", partial=True)
    assert "optimizer/iterations" in report.missing


@takes_optimizers
@pytest.mark.parametrize("format_", converting.FORMATS)
def test_a_failure_leaves_what_was_there(format_, tmp_path, monkeypatch):
    """As does a crash: all is written aside, and moved at the end."""
    source = file_of("TF2.15.1", NEW, "model.h5")
    dest = tmp_path / f"new{converting.FORMATS[format_]}"
    checkpoints.convert(source, dest, format_)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def fails(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr(converting, "_publish", fails)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoints.convert(source, dest, format_, force=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@takes_optimizers
def test_old_parts_of_a_checkpoint_go(tmp_path):
    source, dest = file_of("TF2.15.1", NEW, "ckpt-1"), tmp_path / "ckpt"
    for part in range(3):
        (tmp_path / f"ckpt.data-0000{part}-of-00003").write_bytes(b"old")
    shutil.copy(f"{source}.index", f"{dest}.index")
    more = options("TF2.15.1", NEW, "ckpt-1", tmp_path)
    checkpoints.convert(source, dest, "checkpoint", force=True, **more)
    names = sorted(p.name for p in tmp_path.glob("ckpt*"))
    assert names == ["ckpt.data-00000-of-00001", "ckpt.index"]


# --- What stands in place of a conversion without the model.


def nested(of):
    """A model of one's own class, whose inner model is made before its other layer."""

    class Nested(of.Model):
        def __init__(self):
            super().__init__()
            self.block = of.Sequential([of.layers.Dense(3, name="inner")])
            self.first = of.layers.Dense(3, name="first")

        def call(self, x):
            return self.block(self.first(x))

    model = Nested()
    model(np.zeros((1, 3), "float32"))
    return model


def test_a_nested_model_is_not_guessed(tmp_path):
    """The file's order of the variables is not the model's: two kernels of one shape."""
    old = nested(tf_keras)
    opt = tf_lso.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.01))
    artifacts.train(old, opt, *np.ones((2, 3, 4, 3), "float32"), compiled=False)
    path = tf.train.Checkpoint(model=old, optimizer=opt).save(str(tmp_path / "old"))
    with pytest.raises(checkpoints.CheckpointError, match="restore reads this file"):
        checkpoints.convert(path, tmp_path / "new" / "ckpt", "checkpoint")
    assert not (tmp_path / "new").exists()

    model = nested(keras)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    assert checkpoints.restore(path, model=model, optimizer=new).complete
    for of_model in ("first", "block"):
        layers = [getattr(m, of_model) for m in (old, model)]
        assert all(map(np.array_equal, *(layer.get_weights() for layer in layers)))
    for variable, m, v in zip(
        model.trainable_variables,
        new.inner_optimizer._momentums,
        new.inner_optimizer._velocities,
        strict=True,
    ):
        (theirs,) = [w for w in old.weights if np.array_equal(w, variable)]
        assert np.array_equal(m, opt.inner_optimizer.get_slot(theirs, "m"))
        assert np.array_equal(v, opt.inner_optimizer.get_slot(theirs, "v"))


# --- Keras 3 alone reads what is written.

ALONE = """
import json, sys, warnings
import keras, numpy as np, tensorflow as tf

def state(model, opt):
    inner = getattr(opt, "inner_optimizer", opt)
    scale = getattr(opt, "dynamic_scale", None)
    return {
        "class": type(opt).__name__,
        "weights": [w.tolist() for w in model.get_weights()],
        "slots": [np.asarray(v).tolist() for v in inner.variables[2:]],
        "iterations": int(inner.iterations),
        "rate": float(np.asarray(inner.learning_rate)),
        "scale": inner.loss_scale_factor if scale is None else float(scale),
        "count": None if scale is None else int(opt.step_counter),
    }

def made():
    model = keras.models.model_from_json(open(sys.argv[4]).read())
    opt = keras.optimizers.Adam(0.5)
    if sys.argv[5] == "dynamic":
        opt = keras.optimizers.LossScaleOptimizer(opt)
    model.compile(opt, "mse")
    opt.build(model.trainable_variables)
    return model, opt

with warnings.catch_warnings():
    warnings.simplefilter("error")
    model = keras.models.load_model(sys.argv[1])
found = {"keras": state(model, model.optimizer)}
model.compile(model.optimizer, "mse")
model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)  # and goes on
model, opt = made()
model.load_weights(sys.argv[2])
found["weights.h5"] = state(model, opt)
model, opt = made()
saved = tf.train.Checkpoint(model=model, optimizer=opt)
saved.restore(sys.argv[3]).assert_existing_objects_matched()
found["checkpoint"] = state(model, opt)
assert not [name for name in sys.modules if name.startswith("tf_lso")]
print(json.dumps(found))
"""


@takes_optimizers
@pytest.mark.parametrize("kind", ["dynamic", "fixed"])
@pytest.mark.parametrize("case", ["stable-v2-Adam", "stable-new-Adam"])
def test_keras_alone_loads_what_is_written(case, kind, tmp_path):
    case = f"{case}-{kind}"
    more = options("TF2.15.1", case, "ckpt-1", tmp_path)
    source = file_of("TF2.15.1", case, "ckpt-1")
    files = []
    for format_, ending in converting.FORMATS.items():
        files.append(str(tmp_path / f"new{ending}"))
        checkpoints.convert(source, files[-1], format_, **more)
    keras_file, checkpoint, weights = files
    arguments = keras_file, weights, checkpoint, more["model"], kind
    done = preloaded.run(["-c", ALONE, *arguments])
    assert done.returncode == 0, done.stderr
    assert "Skipping" not in done.stderr  # what Keras warns of and leaves out
    found = json.loads(done.stdout.splitlines()[-1])

    model = network()
    opt = artifacts.optimizer(artifacts.cases("TF2.15.1")[case], "keras3")
    checkpoints.restore(source, model=model, optimizer=opt)
    slots = [np.asarray(v).tolist() for v in opt.inner_optimizer.variables[2:]]
    for format_, state in found.items():
        assert state["weights"] == [w.tolist() for w in model.get_weights()]
        assert state["slots"] == slots
        assert state["iterations"] == int(numpy(opt.iterations))
        if kind == "dynamic":
            assert state["class"] == "LossScaleOptimizer"
            assert (state["scale"], state["count"]) == artifacts.scale_of(opt)
        if format_ != "weights.h5":  # of which Keras's own rate is a variable too
            assert np.float32(state["rate"]) == np.float32(opt.learning_rate)
        again = artifacts.optimizer(artifacts.cases("TF2.15.1")[case], "keras3")
        path = dict(zip(converting.FORMATS, files))[format_]
        report = checkpoints.restore(path, model=network(), optimizer=again)
        assert report.complete
        assert artifacts.scale_of(again) == artifacts.scale_of(opt)
    if kind == "fixed":
        assert found["keras"]["scale"] == float(opt.loss_scale)


def test_what_keras_has_not_stays_tf_lsos(tmp_path):
    config = {
        "class_name": "LossScaleOptimizer",
        "config": {
            "inner_optimizer": {"class_name": "SGD", "config": {"momentum": 0.9}},
            "dynamic": True,
            "initial_scale": 8.0,
            "dynamic_growth_steps": 3,
            "max_scale": 1024.0,
        },
    }
    opt = converting._of_keras(tf_lso.LossScaleOptimizer.from_config(config["config"]))
    assert opt.get_config()["max_scale"] == 1024.0


@pytest.mark.parametrize("made_by", ["tf_keras", None])
def test_a_function_has_to_return_a_model_of_keras_3(made_by, tmp_path):
    program = tmp_path / "old.py"
    program.write_text(
        "import tf_keras\ndef build():\n"
        f"    return {made_by} and tf_keras.Sequential()\n"
    )
    with pytest.raises(checkpoints.CheckpointError, match="return a model of Keras 3"):
        checkpoints.convert(
            file_of("TF2.4.4", V2, "ckpt-1"),
            tmp_path / "new.keras",
            "keras",
            model=f"{program}:build",
            optimizer="Adam",
        )
