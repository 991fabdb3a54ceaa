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

from tests.checkpoints import artifacts, helpers
from tests.families import CURRENT, KERASES
from tf_lso.checkpoints import object_graph

VERSION, CASE = "TF2.15.1", "stable-new-Adam-dynamic"
# The folder with the undamaged files.
FOLDER = artifacts.folder(VERSION) / CASE


def new_model_and_optimizer():
    model = artifacts.network(KERASES[CURRENT])
    return model, artifacts.make_optimizer(artifacts.cases(VERSION)[CASE], CURRENT)


def assert_refused(path, match):
    """Assert that `restore` refuses a file with an error that matches and names the file."""
    model, opt = new_model_and_optimizer()
    helpers.assert_refused(path, model, opt, match, re.escape(str(path)))


def assert_restored(path):
    helpers.restore_completely(path, *new_model_and_optimizer())


@pytest.fixture
def h5(tmp_path):
    """The path of an .h5 file that the test may change."""
    path = tmp_path / "model.h5"
    shutil.copy(FOLDER / "model.h5", path)
    return path


@pytest.fixture
def checkpoint(tmp_path):
    """The path of a checkpoint whose files the test may change."""
    for file in FOLDER.glob("ckpt-1.*"):
        shutil.copy(file, tmp_path)
    return tmp_path / "ckpt-1"


# --- Damaged files.


@pytest.mark.parametrize("name", ["model.h5", "model.keras", "ckpt-1.index"])
def test_half_a_file_is_refused(name, checkpoint):
    path = checkpoint.with_name(name)
    data = (FOLDER / name).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert_refused(str(path).removesuffix(".index"), "")


# --- Hostile files.

# Functions of the group of weights and of a folder. Each one replaces the first kernel.

KERNEL = "dense_a/dense_a/kernel:0"


def external_link(weights, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = np.zeros((3, 2), "float32")
    weights[KERNEL] = h5py.ExternalLink(str(folder / "other.h5"), "/secret")


def external_values(weights, folder):
    (folder / "secret").write_bytes(bytes(24))
    files = [(str(folder / "secret"), 0, 24)]
    weights.create_dataset(KERNEL, (3, 2), "float32", external=files)


def virtual_values(weights, folder):
    layout = h5py.VirtualLayout((3, 2), "float32")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (3, 2))
    weights.create_virtual_dataset(KERNEL, layout)


def huge_shape(weights, folder):
    weights.create_dataset(KERNEL, (2**40, 2**10), "float32", chunks=(1024, 1024))


def group(weights, folder):
    weights.create_group(KERNEL)


@pytest.mark.parametrize(
    ("replace_kernel", "match"),
    [
        (external_link, "is a link"),
        (external_values, "in another file"),
        (virtual_values, "in another file"),
        (huge_shape, r"shape \(1099511627776, 1024\)"),
        (group, "is a group"),
    ],
)
def test_a_hostile_kernel_is_refused(h5, tmp_path, replace_kernel, match):
    with h5py.File(h5, "r+") as file:
        del file["model_weights"][KERNEL]
        replace_kernel(file["model_weights"], tmp_path)
    assert_refused(h5, match)


def test_a_counter_that_is_no_number_is_refused(h5):
    with h5py.File(h5, "r+") as file:
        name = file["optimizer_weights"].attrs["weight_names"][0]
        del file["optimizer_weights"][name]
        file["optimizer_weights"][name] = np.zeros(2, "int64")
    assert_refused(h5, r"should be one number, but has the shape \(2,\)")


@pytest.mark.parametrize("config", [3, {"class_name": 3, "config": {}}])
def test_a_config_that_names_no_class_of_optimizers_is_ignored(h5, config):
    with h5py.File(h5, "r+") as file:
        file.attrs["training_config"] = json.dumps({"optimizer_config": config})
    assert_restored(h5)


# In each row, `value` replaces an attribute of a group. None deletes the attribute.
@pytest.mark.parametrize(
    ("group_name", "attribute", "value", "match"),
    [
        ("model_weights", "layer_names", None, "has no attribute layer_names"),
        ("model_weights", "layer_names", ["dense_a", "gone"], "the group gone is miss"),
        ("model_weights/dense_a", "weight_names", 3.5, "missing or damaged"),
        ("/", "training_config", "{", "training_config is damaged"),
    ],
)
def test_a_hostile_attribute_is_refused(h5, group_name, attribute, value, match):
    with h5py.File(h5, "r+") as file:
        attributes = file[group_name].attrs
        del attributes[attribute]
        if value is not None:
            attributes[attribute] = value
    assert_refused(h5, match)


@pytest.mark.parametrize("name", ["model.h5", "model.keras", "ckpt-1.index"])
def test_a_pickle_in_place_of_a_file_is_refused_and_not_run(tmp_path, name):
    # If something unpickled the file, it would make the file `canary`.
    canary = tmp_path / "canary"
    path = tmp_path / name
    path.write_bytes(f"cbuiltins\nopen\n(S'{canary}'\nS'w'\ntR.".encode())
    assert_refused(str(path).removesuffix(".index"), "not a readable")
    assert not canary.exists()


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_a_checkpoint_with_a_missing_file_is_refused(checkpoint, suffix):
    checkpoint.with_suffix(suffix).unlink()
    assert_refused(checkpoint, "there is no checkpoint|cannot be read")


def test_a_damaged_value_that_follows_others_changes_nothing(checkpoint):
    reader = tf.train.load_checkpoint(str(FOLDER / "ckpt-1"))
    last = "model/layer_with_weights-1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    value = reader.get_tensor(last).tobytes()
    data = checkpoint.with_suffix(".data-00000-of-00001")
    before = data.read_bytes()
    assert before.count(value) == 1
    data.write_bytes(before.replace(value, bytes(len(value))))
    assert_refused(checkpoint, f"the key {last} cannot be read")


def copy_with_changed_graph(tmp_path, change):
    """Copy the checkpoint with a changed object graph, and return the path."""
    reader = tf.train.load_checkpoint(str(FOLDER / "ckpt-1"))
    tensors = {
        key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()
    }
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


def node_out_of_range(graph):
    graph.nodes[1].children[0].node_id = 10**6


def no_nodes(graph):
    graph.ClearField("nodes")


def unknown_key(graph):
    for node in graph.nodes:
        for attribute in node.attributes:
            attribute.checkpoint_key = "gone"


@pytest.mark.parametrize("change", [node_out_of_range, no_nodes, unknown_key])
def test_a_damaged_graph_is_refused(tmp_path, change):
    path = copy_with_changed_graph(tmp_path, change)
    assert_refused(path, "damaged|is missing")


def cycle(graph):
    for node in graph.nodes:
        node.children.add(node_id=0, local_name="again")


def long_chain(graph):
    last = 1
    for _ in range(3000):
        graph.nodes.add()
        graph.nodes[last].children.add(node_id=len(graph.nodes) - 1, local_name="next")
        last = len(graph.nodes) - 1


@pytest.mark.parametrize("change", [cycle, long_chain])
def test_a_valid_graph_of_unusual_shape_is_restored(tmp_path, change):
    assert_restored(copy_with_changed_graph(tmp_path, change))


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
    assert_restored(h5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.h5"]


def test_a_hostile_archive_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.keras"
    layer = {
        "module": "builtins",
        "class_name": "exec",
        "config": {"source": "open('canary', 'w')"},
        "registered_name": None,
    }
    with zipfile.ZipFile(FOLDER / path.name) as old, zipfile.ZipFile(path, "w") as new:
        config = json.loads(old.read("config.json"))
        config["config"]["layers"].append(layer)
        for name in old.namelist():
            data = json.dumps(config) if name == "config.json" else old.read(name)
            new.writestr(name, data)
    assert_restored(path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.keras"]
