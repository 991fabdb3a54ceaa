"""What saves and restores: each a generator, which saves, yields, and restores.

They take (program, folder, model, optimizer), and yield (model, optimizer) in the end.
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
    yield
    model, optimizer = program.make(built=built)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    program.status = checkpoint.restore(path)
    yield model, optimizer


def _manager(program, folder, model, optimizer):
    def of(model, optimizer):
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        return tf.train.CheckpointManager(checkpoint, str(folder), 2)

    of(model, optimizer).save()
    yield
    made = program.make()
    of(*made).restore_or_initialize()
    if program.loop != "eager":  # or its first step would be traced twice
        made[1].build(made[0].trainable_variables)
    yield made


def _whole(program, folder, model, optimizer, name, **kwargs):
    path = str(folder / name)
    model.save(path, **kwargs)
    yield
    loaded = KERASES[program.family].models.load_model(path)
    if program.family == "keras3":
        loaded.jit_compile = False  # which no .h5 file has
    yield loaded, loaded.optimizer


def _weights(program, folder, model, optimizer, name, built):
    path = str(folder / name)
    model.save_weights(path)
    yield
    made = program.make(built=built)
    made[0].load_weights(path)
    yield made


def _copy_of_optimizer(program, folder, model, optimizer, copied):
    new, weights = copied(optimizer), model.get_weights()
    yield
    if copied is copy.deepcopy:  # for the same variables
        made = model, new
        compile_model(program.family, *made)
    else:
        made = program.make(optimizer=new)
    made[0].set_weights(weights)
    yield made


def _copy_of_model(program, folder, model, optimizer, copied):
    loaded = copied(model)
    yield
    yield loaded, loaded.optimizer


def _get_and_set_weights(program, folder, model, optimizer):
    saved = model.get_weights(), optimizer.get_weights()
    yield
    made = program.make(built=True)
    for owner, weights in zip(made, saved):
        owner.set_weights(weights)
    yield made


FORMATS = {
    "checkpoint, then built": partial(_checkpoint, built=False),
    "built, then checkpoint": partial(_checkpoint, built=True),
    "manager": _manager,
    ".keras": partial(_whole, name="m.keras", **ZIPPED),
    ".h5": partial(_whole, name="m.h5"),
    ".weights.h5, then built": partial(_weights, name="m.weights.h5", built=False),
    "built, then .weights.h5": partial(_weights, name="m.weights.h5", built=True),
    "save_weights, then built": partial(_weights, name="w", built=False),
    "built, then save_weights": partial(_weights, name="w", built=True),
    "SavedModel": partial(_whole, name="folder", save_format="tf"),
    "deepcopy of the optimizer": partial(_copy_of_optimizer, copied=copy.deepcopy),
    "deepcopy of the model": partial(_copy_of_model, copied=copy.deepcopy),
    "pickle of the optimizer": partial(_copy_of_optimizer, copied=_pickled),
    "pickle of the model": partial(_copy_of_model, copied=_pickled),
    "get_weights": _get_and_set_weights,
}


def save(name, *arguments):
    """Save in a format; return what restores it."""
    parts = FORMATS[name](*arguments)
    next(parts)
    return lambda: next(parts)


def exists(name, family):
    return family != "keras3" or not ("save_weights" in name or name == "SavedModel")


def run(program, names, folder, saved_at=SAVED_AT):
    """Train and save: {format: what restores it, or the error}, and the state at the end."""
    # Built before it is traced, or it would be traced twice. Those that are restored
    # and then built are built by their first step.
    built = saved_at > 0 and program.loop != "eager"
    made = program.make(seed=1, built=built)
    program.train(*made, 0, saved_at)
    if saved_at and made[1].dynamic:
        something = state(*made)  # to lose
        assert float(something["scale"]) != 64.0 and int(something["count"])
    restored = {}
    # Keras 3 forgets the arguments of compile() when it writes an .h5 file.
    for name in sorted(names, key=lambda name: name == ".h5"):
        place = folder / name
        place.mkdir(parents=True)
        try:
            with program.scope(name):
                restored[name] = save(name, program, place, *made)
        except Exception as error:
            restored[name] = error
    program.train(*made, saved_at, END)
    return restored, state(*made)


def go_on(program, restored, saved_at=SAVED_AT):
    """Restore what `run` has saved in one format, train it to the end; return it."""
    if isinstance(restored, Exception):
        raise restored
    with program.scope():
        model, optimizer = restored()
    if not saved_at:  # not all formats have the weights that were not trained
        model.set_weights(make_model(program.family, 1).get_weights())
    program.train(model, optimizer, saved_at, END)
    return model, optimizer


# --- An optimizer alone: functions of (optimizer, make, folder), where `make` makes the one
# that is restored.


def _checkpoint_alone(optimizer, make, folder):
    path = tf.train.Checkpoint(optimizer=optimizer).save(folder / "c")
    made = make()
    tf.train.Checkpoint(optimizer=made).restore(path).assert_consumed()
    return made


def stored(optimizer):
    """What an optimizer puts into a file of Keras."""
    store = {}
    optimizer.save_own_variables(store)
    return store


def _file_alone(optimizer, make, folder):
    made = make()
    made.load_own_variables(stored(optimizer))
    return made


def _weights_alone(optimizer, make, folder):
    made = make()
    made.set_weights(optimizer.get_weights())
    return made


ALONE = {
    "checkpoint": _checkpoint_alone,
    "file": _file_alone,
    "set_weights": _weights_alone,
    "deepcopy": lambda optimizer, *_: copy.deepcopy(optimizer),
    "pickle": lambda optimizer, *_: _pickled(optimizer),
}
