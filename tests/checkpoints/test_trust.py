"""A damaged or hostile file raises an error that names the file, and changes nothing."""

import json
import marshal
import re
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tests import preloaded
from tests.checkpoints import artifacts, helpers
from tests.families import CURRENT, KERASES
from tf_lso.checkpoints import object_graph

DAMAGES = 1008  # seven files, with eight kinds of damage each, 18 times


@pytest.mark.slow
def test_damages():
    module = "tests.checkpoints.corruptions"
    done = preloaded.run(["-m", module, "0", str(DAMAGES)])
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    assert not [line for line in lines if line.startswith("WRONG")], lines
    assert lines[-1].startswith("DONE") and "refused" in lines[-1]


# --- Hostile files.

VERSION, CASE = "TF2.15.1", "stable-new-Adam-dynamic"
OWN = artifacts.folder(VERSION) / CASE


def made():
    model = artifacts.network(KERASES[CURRENT])
    return model, artifacts.optimizer(artifacts.cases(VERSION)[CASE], CURRENT)


def refused(path, match):
    helpers.refused(path, *made(), match, re.escape(str(path)))


def restored(path):
    helpers.restored(path, *made())


@pytest.fixture
def h5(tmp_path):
    path = tmp_path / "model.h5"
    shutil.copy(OWN / "model.h5", path)
    return path


KERNEL, OTHER = "dense_a/dense_a/kernel:0", "dense_b/dense_b/kernel:0"


def external_link(weights, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = np.zeros((3, 2), "float32")
    weights[KERNEL] = h5py.ExternalLink(str(folder / "other.h5"), "/secret")


def soft_link(weights, folder):
    weights[KERNEL] = h5py.SoftLink(f"/model_weights/{OTHER}")


def external_values(weights, folder):
    (folder / "secret").write_bytes(bytes(24))
    files = [(str(folder / "secret"), 0, 24)]
    weights.create_dataset(KERNEL, (3, 2), "float32", external=files)


def virtual_values(weights, folder):
    layout = h5py.VirtualLayout((3, 2), "float32")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (3, 2))
    weights.create_virtual_dataset(KERNEL, layout)


def of(shape, dtype="float32", **kwargs):
    return lambda weights, _: weights.create_dataset(KERNEL, shape, dtype, **kwargs)


@pytest.mark.parametrize(
    ("put", "match"),
    [
        (external_link, "is a link"),
        (soft_link, "is a link"),
        (external_values, "in another file"),
        (virtual_values, "in another file"),
        (of((3, 2), h5py.string_dtype()), "dtype object, not float32"),
        (of((2**40, 2**10), chunks=(1024, 1024)), r"shape \(1099511627776, 1024\)"),
        (lambda weights, _: weights.create_group(KERNEL), "is a group"),
    ],
)
def test_a_hostile_kernel(h5, tmp_path, put, match):
    with h5py.File(h5, "r+") as file:
        del file["model_weights"][KERNEL]
        put(file["model_weights"], tmp_path)
    refused(h5, match)


@pytest.mark.parametrize(
    ("where", "attribute", "value", "match"),
    [
        ("model_weights", "layer_names", None, "has no attribute layer_names"),
        ("model_weights", "layer_names", ["dense_a", "gone"], "the group gone is miss"),
        ("model_weights/dense_a", "weight_names", 3.5, "missing or damaged"),
        ("/", "training_config", "{", "training_config is damaged"),
    ],
)
def test_a_hostile_attribute(h5, where, attribute, value, match):
    with h5py.File(h5, "r+") as file:
        del file[where].attrs[attribute]
        if value is not None:
            file[where].attrs[attribute] = value
    refused(h5, match)


@pytest.mark.parametrize("name", ["model.h5", "model.keras", "ckpt-1.index"])
def test_a_pickle_in_its_place(tmp_path, name):
    canary = tmp_path / "canary"
    path = tmp_path / name
    path.write_bytes(f"cbuiltins\nopen\n(S'{canary}'\nS'w'\ntR.".encode())
    refused(str(path).removesuffix(".index"), "can be read|no HDF5|no .keras")
    assert not canary.exists()


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
def test_a_missing_part(tmp_path, part):
    for file in OWN.glob("ckpt-1.*"):
        if not file.name.endswith(part):
            shutil.copy(file, tmp_path / file.name)
    refused(tmp_path / "ckpt-1", "there is no checkpoint|cannot be read")


def test_parts_of_different_checkpoints(tmp_path):
    """The checksums in the index do not fit the values."""
    other = artifacts.folder(VERSION) / "stable-new-Adam-fixed"
    shutil.copy(OWN / "ckpt-1.index", tmp_path)
    shutil.copy(other / "ckpt-1.data-00000-of-00001", tmp_path)
    refused(tmp_path / "ckpt-1", "cannot be read|damaged")


def rewritten(tmp_path, change):
    """Copy the checkpoint with a changed object graph, and return the path."""
    reader = tf.train.load_checkpoint(str(OWN / "ckpt-1"))
    tensors = {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map()}
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(tensors[object_graph.GRAPH_KEY])
    change(graph)
    tensors[object_graph.GRAPH_KEY] = graph.SerializeToString()
    prefix = str(tmp_path / "ckpt-1")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return prefix


def pointing_to(number):
    return lambda graph: setattr(graph.nodes[1].children[0], "node_id", number)


def unknown_key(graph):
    for node in graph.nodes:
        for attribute in node.attributes:
            attribute.checkpoint_key = "gone"


HOSTILE = {
    "out of range": pointing_to(10**6),
    "negative": pointing_to(-1),
    "no nodes": lambda graph: graph.ClearField("nodes"),
    "unknown key": unknown_key,
}


@pytest.mark.parametrize("change", HOSTILE)
def test_hostile_graphs(tmp_path, change):
    refused(rewritten(tmp_path, HOSTILE[change]), "damaged|is missing")


def cycle(graph):
    for node in graph.nodes:
        node.children.add(node_id=0, local_name="again")


def chain(graph):
    last = 1
    for _ in range(3000):
        graph.nodes.add()
        graph.nodes[last].children.add(node_id=len(graph.nodes) - 1, local_name="next")
        last = len(graph.nodes) - 1


def many(graph):
    for number in range(20000):
        graph.nodes[1].children.add(node_id=1, local_name=f"name{number}")


@pytest.mark.parametrize("change", [cycle, chain, many])
def test_odd_graphs_do_no_harm(tmp_path, change):
    restored(rewritten(tmp_path, change))


# --- Hostile configs of models. `restore` does not read the config of a model.


def test_a_hostile_config_is_not_read(h5, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile("open('canary', 'w')", "hostile", "exec")
    function = [marshal.dumps(code).hex(), None, None]
    layer = {"class_name": "Lambda", "config": {"name": "x", "function": function}}
    with h5py.File(h5, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"].append(layer)
        file.attrs["model_config"] = json.dumps(config)
    restored(h5)
    assert [p.name for p in tmp_path.iterdir()] == ["model.h5"]


def test_a_hostile_archive_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, source = tmp_path / "model.keras", {"source": "open('canary', 'w')"}
    layer = {"module": "builtins", "class_name": "exec", "config": source}
    with zipfile.ZipFile(OWN / path.name) as old, zipfile.ZipFile(path, "w") as new:
        config = json.loads(old.read("config.json"))
        config["config"]["layers"].append({**layer, "registered_name": None})
        for name in old.namelist():
            data = json.dumps(config) if name == "config.json" else old.read(name)
            new.writestr(name, data)
    restored(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.keras"]
