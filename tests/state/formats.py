"""The formats in which a program can save a model and its optimizer, and restore them.

Each function of `FORMATS` has the arguments (program, folder, model, optimizer). It saves the
model and the optimizer, and returns a function. The returned function restores them, and
returns the restored model and optimizer.
"""

import copy
import pickle
from functools import partial

import tensorflow as tf

from tests.families import KERASES
from tests.generation import ZIPPED
from tests.state.programs import END, SAVED_AT, compile_model, make_model, state


def _pickled(value):
    return pickle.loads(pickle.dumps(value))


def _checkpoint(program, folder, model, optimizer, built):
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(folder / "c")

    def restore():
        model, optimizer = program.make(built=built)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        program.checkpoint_status = checkpoint.restore(path)
        return model, optimizer

    return restore


def _whole_model(program, folder, model, optimizer, name, **kwargs):
    path = str(folder / name)
    model.save(path, **kwargs)

    def restore():
        loaded = KERASES[program.family].models.load_model(path)
        if program.family == "keras3":
            loaded.jit_compile = False  # an .h5 file does not contain this argument
        return loaded, loaded.optimizer

    return restore


def _weights_file(program, folder, model, optimizer, name, built):
    path = str(folder / name)
    model.save_weights(path)

    def restore():
        model, optimizer = program.make(built=built)
        model.load_weights(path)
        return model, optimizer

    return restore


def _deep_copy_of_optimizer(program, folder, model, optimizer):
    copied, weights = copy.deepcopy(optimizer), model.get_weights()

    def restore():
        # The copy trains the same model variables, so the model gets its old weights again.
        compile_model(program.family, model, copied)
        model.set_weights(weights)
        return model, copied

    return restore


def _pickle_of_optimizer(program, folder, model, optimizer):
    copied, weights = _pickled(optimizer), model.get_weights()

    def restore():
        model, optimizer = program.make(optimizer=copied)
        model.set_weights(weights)
        return model, optimizer

    return restore


def _copy_of_model(program, folder, model, optimizer, copy_function):
    copied = copy_function(model)
    return lambda: (copied, copied.optimizer)


def _get_and_set_weights(program, folder, model, optimizer):
    weights, state = model.get_weights(), optimizer.get_weights()

    def restore():
        model, optimizer = program.make(built=True)
        model.set_weights(weights)
        optimizer.set_weights(state)
        return model, optimizer

    return restore


FORMATS = {
    "checkpoint, then built": partial(_checkpoint, built=False),
    "built, then checkpoint": partial(_checkpoint, built=True),
    ".keras": partial(_whole_model, name="m.keras", **ZIPPED),
    ".h5": partial(_whole_model, name="m.h5"),
    ".weights.h5, then built": partial(_weights_file, name="m.weights.h5", built=False),
    "built, then .weights.h5": partial(_weights_file, name="m.weights.h5", built=True),
    "save_weights, then built": partial(_weights_file, name="w", built=False),
    "built, then save_weights": partial(_weights_file, name="w", built=True),
    "SavedModel": partial(_whole_model, name="folder", save_format="tf"),
    "deepcopy of the optimizer": _deep_copy_of_optimizer,
    "deepcopy of the model": partial(_copy_of_model, copy_function=copy.deepcopy),
    "pickle of the optimizer": _pickle_of_optimizer,
    "pickle of the model": partial(_copy_of_model, copy_function=_pickled),
    "get_weights": _get_and_set_weights,
}


def exists(name, family):
    """Return whether the Keras of a family has this format."""
    only_keras2 = (
        "SavedModel",
        "save_weights, then built",
        "built, then save_weights",
    )
    return family != "keras3" or name not in only_keras2


def run(program, names, folder, saved_at=SAVED_AT):
    """Train a program to its end, and save it in several formats after `saved_at` steps.

    Return a dict and the state at the end. The dict maps the name of each format to the
    function that restores the program, or to the error if saving failed.
    """
    # Build the optimizer before its step is traced, because otherwise the step would be traced
    # twice. The restored optimizers of the formats "..., then built" are built by their first
    # step.
    built = saved_at > 0 and program.loop != "eager"
    model, optimizer = program.make(seed=1, built=built)
    program.train(model, optimizer, 0, saved_at)
    if saved_at and optimizer.dynamic:
        # Check that the state differs from that of a new optimizer.
        saved_state = state(model, optimizer)
        assert float(saved_state["scale"]) != 64.0
        assert int(saved_state["count"]) > 0
    restore_functions = {}
    # Save the .h5 file last, because Keras 3 then forgets the arguments of compile().
    for name in sorted(names, key=lambda name: name == ".h5"):
        subfolder = folder / name
        subfolder.mkdir(parents=True)
        try:
            with program.scope(name):
                restore = FORMATS[name](program, subfolder, model, optimizer)
            restore_functions[name] = restore
        except Exception as error:
            restore_functions[name] = error
    program.train(model, optimizer, saved_at, END)
    return restore_functions, state(model, optimizer)


def restore_and_train(program, restore, saved_at=SAVED_AT):
    """Restore a program from one format, and train it to its end.

    `restore` is a value of the dict that `run` returns. Return the model and the optimizer.
    """
    if isinstance(restore, Exception):
        raise restore
    with program.scope():
        model, optimizer = restore()
    if not saved_at:
        # Before the first step, some formats contain no model weights.
        model.set_weights(make_model(program.family, 1).get_weights())
    program.train(model, optimizer, saved_at, END)
    return model, optimizer


def stored(optimizer):
    """Return a dict of the arrays that an optimizer puts into a Keras file."""
    store = {}
    optimizer.save_own_variables(store)
    return store
