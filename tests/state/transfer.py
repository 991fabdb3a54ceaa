"""Save a model and its optimizer, and load the file into another model and its optimizer.

Each function has the arguments (writer, reader, folder). `writer` and `reader` are pairs of a
model and its optimizer.
"""

import tensorflow as tf

import tf_lso


def checkpoint(writer, reader, folder):
    path = tf.train.Checkpoint(model=writer[0], optimizer=writer[1]).save(folder / "c")
    tf.train.Checkpoint(model=reader[0], optimizer=reader[1]).restore(path)


def weights_file(writer, reader, folder):
    for model, optimizer in (writer, reader):
        model.compile(optimizer, "mse")
    writer[0].save_weights(folder / "m.weights.h5")
    reader[0].load_weights(folder / "m.weights.h5")


def restored(name, **save_arguments):
    """Return the function that saves a whole model, which `tf_lso.checkpoints` restores."""

    def restore(writer, reader, folder):
        writer[0].compile(writer[1], "mse")
        writer[0].save(folder / name, **save_arguments)
        model, optimizer = reader
        tf_lso.checkpoints.restore(folder / name, model=model, optimizer=optimizer)

    return restore
