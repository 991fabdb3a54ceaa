"""Reads the configs in a SavedModel of Keras 2."""

import json
import os

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from tensorflow.core.protobuf import saved_model_pb2

from tf_lso.checkpoints.errors import refusing

_GRAPH = "saved_model.pb"
_METADATA = "keras_metadata.pb"  # since TensorFlow 2.5
_MODELS = ("_tf_keras_model", "_tf_keras_network", "_tf_keras_sequential")


def architecture(path):
    """Return the config of the model in a SavedModel, and its compile config.

    Each is a dict, or None if the SavedModel has none. No code in it is run.
    """
    if os.path.isfile(os.path.join(path, _METADATA)):
        objects = _parsed(path, _METADATA, _saved_metadata()).nodes
    else:
        graphs = _parsed(path, _GRAPH, saved_model_pb2.SavedModel()).meta_graphs
        nodes = [node for graph in graphs for node in graph.object_graph_def.nodes]
        objects = [node.user_object for node in nodes]
    for one in objects:
        if one.identifier in _MODELS:
            with refusing(f"{path}: the metadata of the model are damaged"):
                config = json.loads(one.metadata, object_hook=_with_tuples)
            return config, config.get("training_config")
    return None, None


def _with_tuples(value):
    """Decode tuples and shapes in the metadata."""
    if value.get("class_name") in ("__tuple__", "TensorShape") and "items" in value:
        return tuple(value["items"])
    return value


def _parsed(path, name, proto):
    with refusing(f"{path}: {name} cannot be read", message.DecodeError):
        with open(os.path.join(path, name), "rb") as file:
            proto.ParseFromString(file.read())
    return proto


def _saved_metadata():
    """Return an empty message of the type in keras_metadata.pb.

    Only Keras 2 has its class. Here the class has only the two fields that are read.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="tf_lso/keras_metadata.proto", package="tf_lso.keras_metadata"
    )
    field = descriptor_pb2.FieldDescriptorProto
    node = file.message_type.add(name="Object")
    for number, name in ((4, "identifier"), (5, "metadata")):
        node.field.add(
            name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
        )
    file.message_type.add(name="Metadata").field.add(
        name="nodes",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".tf_lso.keras_metadata.Object",
        label=field.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("tf_lso.keras_metadata.Metadata")
    return message_factory.GetMessageClass(found)()
