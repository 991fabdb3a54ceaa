"""Writes files tensor by tensor: templates of `virtual`, and checkpoints."""

import json
import os
import shutil
import zipfile

import h5py
import numpy as np
import tensorflow as tf

# Tensors of a checkpoint are written together up to this size, in bytes.
_PART = 32 << 20

# Bytes that are copied at a time.
_BUFFER = 16 << 20

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"


def h5(template, values, done):
    """Fill a .weights.h5 file in place.

    Args:
      template: str, its path.
      values: dict of number in the template and (`Source`, `Step`).
      done: function that gets the bytes of each value written.
    """
    with h5py.File(template, "r+") as file:
        keys = []
        file.visititems(
            lambda key, item: (
                keys.append(key) if isinstance(item, h5py.Dataset) else None
            )
        )
        for key in keys:
            number = _number(
                file[key].shape, file[key].dtype, lambda key=key: file[key][()]
            )
            if number not in values:
                continue
            source, step = values[number]
            value = step.value(source)
            attributes = dict(file[key].attrs)
            del file[key]
            dataset = file.create_dataset(key, value.shape, value.dtype)
            dataset.write_direct(np.ascontiguousarray(value))
            dataset.attrs.update(attributes)
            done(value.nbytes)
            del value  # before the next one is read


def keras(template, values, done, optimizer=None):
    """Fill a .keras file in place.

    Args:
      template, values, done: as of `h5`.
      optimizer: the config to name in the file in place of the optimizer's own, or None.
    """
    weights, filled = f"{template}.{_WEIGHTS}", f"{template}.filled"
    with zipfile.ZipFile(template) as archive:
        with archive.open(_WEIGHTS) as inside, open(weights, "wb") as outside:
            shutil.copyfileobj(inside, outside)
        h5(weights, values, done)
        with zipfile.ZipFile(filled, "w", zipfile.ZIP_STORED) as result:
            for name in archive.namelist():
                if name != _WEIGHTS:
                    content = archive.read(name)
                    if name == _CONFIG and optimizer is not None:
                        content = _with_optimizer(content, optimizer)
                    result.writestr(archive.getinfo(name), content)
            info = zipfile.ZipInfo.from_file(weights, _WEIGHTS)
            with open(weights, "rb") as inside, result.open(info, "w") as outside:
                shutil.copyfileobj(inside, outside, _BUFFER)
    os.remove(weights)
    os.replace(filled, template)


def _with_optimizer(content, optimizer):
    """Return a model's config with that of the optimizer it is compiled with."""
    config = json.loads(content)
    config["compile_config"]["optimizer"] = optimizer
    return json.dumps(config)


def checkpoint(template, values, done):
    """Fill a checkpoint in place, `template` being its prefix; arguments as of `h5`."""
    reader = tf.train.load_checkpoint(template)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()

    def tensor_of(key):
        dtype = dtypes[key].as_numpy_dtype
        number = _number(shapes[key], dtype, lambda: reader.get_tensor(key))
        if number in values:
            source, step = values[number]
            return step.tensor(source)
        return tf.convert_to_tensor(reader.get_tensor(key))

    filled = write_checkpoint(f"{template}-filled", sorted(shapes), tensor_of, done)
    for path in _files(template):
        os.remove(path)
    for path in _files(filled):
        os.replace(path, path.replace(filled, template))


def write_checkpoint(prefix, keys, tensor_of, done):
    """Write a checkpoint with one part of it in memory at a time; return `prefix`.

    TensorFlow writes all tensors of a checkpoint at once. So parts are written as
    checkpoints of their own, and put together by their indices.

    Args:
      prefix: str, the path without ".index".
      keys: list of str.
      tensor_of: function that returns the tensor of a key.
      done: function that gets the bytes of each tensor.
    """
    parts, part, size = [], {}, 0

    def flush():
        parts.append(f"{prefix}-part-{len(parts)}")
        tf.raw_ops.SaveV2(
            prefix=parts[-1],
            tensor_names=list(part),
            shape_and_slices=[""] * len(part),
            tensors=list(part.values()),
        )
        part.clear()

    for key in keys:
        tensor = tensor_of(key)
        bytes_ = tensor.shape.num_elements() * tensor.dtype.size
        part[key] = tensor
        del tensor
        size += bytes_
        if size >= _PART:  # before the next one is read
            flush()
            size = 0
        done(bytes_)
    if part:
        flush()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=False
    )
    return prefix


def _files(prefix):
    """The files of a checkpoint, its index last: without it there is no checkpoint."""
    folder, name = os.path.split(prefix)
    found = [
        os.path.join(folder, entry)
        for entry in os.listdir(folder or ".")
        if entry == f"{name}.index" or entry.startswith(f"{name}.data-")
    ]
    return sorted(found, key=lambda path: (path.endswith(".index"), path))


def publish(path, dest):
    """Move a file, or a checkpoint by its prefix, to its place.

    What stood there is replaced. A crash between leaves the old file or none, and no
    half of one.
    """
    if os.path.isfile(path):
        os.replace(path, dest)
        return
    old = set(_files(dest))
    if f"{dest}.index" in old:
        os.remove(f"{dest}.index")
    new = [(file, file.replace(path, dest)) for file in _files(path)]
    for file, place in new:
        os.replace(file, place)
    for file in old - {place for _, place in new} - {f"{dest}.index"}:
        os.remove(file)


def _number(shape, dtype, read):
    """The number that may stand for a value, or None."""
    if tuple(shape) != () or np.dtype(dtype) != np.int64:
        return None
    return int(read())
