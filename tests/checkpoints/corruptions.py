"""Damages files at random places and restores them; run in a process of its own.

    python -m tests.checkpoints.corruptions FIRST_SEED COUNT

Prints a line for each damage that did not end as it has to: in a right result, or in a
CheckpointError that names the file and changes nothing.
"""

import collections
import pathlib
import random
import shutil
import sys
import tempfile

import numpy as np

from tests.checkpoints import artifacts
from tests.families import CURRENT, KERASES
from tf_lso import checkpoints
from tf_lso.checkpoints import hdf5

# (version, case, file or folder, the files in it that may be damaged)
FILES = [
    (
        "TF2.1.4",
        "experimental-v2-Adam-dynamic",
        "ckpt-1",
        (".index", ".data-00000-of-00001"),
    ),
    ("TF2.4.4", "stable-v2-Adam-dynamic", "ckpt-1", (".index", ".data-00000-of-00001")),
    (
        "TF2.15.1",
        "stable-new-Adam-dynamic",
        "ckpt-1",
        (".index", ".data-00000-of-00001"),
    ),
    ("TF2.4.4", "stable-v2-Adam-dynamic", "model.h5", ("",)),
    ("TF2.15.1", "stable-new-Adam-dynamic", "model.h5", ("",)),
    ("TF2.15.1", "stable-new-Adam-dynamic", "model.keras", ("",)),
    (
        "TF2.15.1",
        "stable-new-Adam-dynamic",
        "savedmodel",
        (
            "/variables/variables.index",
            "/variables/variables.data-00000-of-00001",
            "/keras_metadata.pb",
            "/saved_model.pb",
        ),
    ),
]


def flip(data, chance):
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)


def overwrite(data, chance):
    place, length = chance.randrange(len(data)), chance.randrange(1, 64)
    data[place : place + length] = chance.randbytes(length)


def zero(data, chance):
    place, length = chance.randrange(len(data)), chance.randrange(1, 512)
    data[place : place + length] = bytes(min(length, len(data) - place))


def cut(data, chance):
    del data[chance.randrange(len(data)) :]


def drop(data, chance):
    place, length = chance.randrange(len(data)), chance.randrange(1, 64)
    del data[place : place + length]


def double(data, chance):
    place, length = chance.randrange(len(data)), chance.randrange(1, 64)
    data[place:place] = data[place : place + length]


def pickle(data, chance):
    del chance
    data[:] = b'cbuiltins\nexec\n(S\'open("canary","w")\'\ntR.'


def empty(data, chance):
    del chance
    data.clear()


DAMAGES = (flip, overwrite, zero, cut, drop, double, pickle, empty)


def state(model, opt):
    return [np.asarray(v) for v in (*model.weights, *opt.weights)]


def copied(version, case, name, folder):
    """A copy of a file with all that belongs to it; return its path."""
    source = artifacts.folder(version) / case
    if (source / name).is_dir():
        shutil.copytree(source / name, folder / name)
    for path in source.glob(f"{name}*"):
        if path.is_file():
            shutil.copy(path, folder / path.name)
    return folder / name


def attempt(seed, model, opt, pristine, folder):
    """Damage one file and read it; return what happened, and what is wrong or None."""
    chance = random.Random(seed)
    version, case, name, parts = FILES[seed % len(FILES)]
    path = copied(version, case, name, folder)
    damage = DAMAGES[(seed // len(FILES)) % len(DAMAGES)]
    file = pathlib.Path(f"{path}{chance.choice(parts)}")
    data = bytearray(file.read_bytes())
    damage(data, chance)
    file.write_bytes(data)
    for variable, value in zip((*model.weights, *opt.weights), pristine):
        variable.assign(value)
    what = f"{seed}: {damage.__name__} of {version}/{case}/{file.name}"
    try:
        checkpoints.restore(path, model=model, optimizer=opt)
    except checkpoints.CheckpointError as error:
        if str(folder) not in str(error):
            return "refused", f"{what}: the file is not named: {error}"
        if not all(map(np.array_equal, pristine, state(model, opt))):
            return "refused", f"{what}: half applied"
        return "refused", None
    except BaseException as error:
        return "raised", f"{what}: {type(error).__name__}: {error}"
    wrong = None
    recorded = artifacts.cases(version)[case]
    recorded = recorded["checkpoint" if name == "ckpt-1" else "compiled"]["after5"]
    right = all(
        np.array_equal(a, artifacts.numbers(b))
        for a, b in zip(model.get_weights(), recorded["weights"], strict=True)
    )
    # HDF5 keeps no sums of the values.
    if not right and file.suffix not in (".h5", ".keras"):
        wrong = f"{what}: other weights, and no error"
    return "restored", wrong


def main(first, count):
    hdf5.SECONDS = 5  # the files are small
    keras = KERASES[CURRENT]
    model = keras.Sequential([keras.Input((3,)), *artifacts.network(keras).layers])
    version, case, _, _ = FILES[1]
    opt = artifacts.optimizer(artifacts.cases(version)[case], CURRENT)
    opt.build(model.trainable_variables)
    pristine = state(model, opt)
    results = collections.Counter()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            result, wrong = attempt(seed, model, opt, pristine, pathlib.Path(folder))
        results[result] += 1
        if wrong:
            print("WRONG", wrong, flush=True)
    if pathlib.Path("canary").exists():
        print("WRONG code of a file was run")
    print("DONE", dict(results))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
