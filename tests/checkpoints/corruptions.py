"""Damages files at random places and restores them; run in a process of its own.

    python -m tests.checkpoints.corruptions FIRST_SEED COUNT

Prints a line for each damage that did not end as it has to: in a right result, or in a
CheckpointError that names the file and changes nothing.
"""

import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

import numpy as np

from tests import preloaded
from tests.checkpoints import artifacts
from tests.families import CURRENT, KERASES
from tf_lso import checkpoints
from tf_lso.checkpoints import hdf5, probe

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


def forked(command, timeout, **_):
    """Run a probe as `subprocess.run` does, in a fork, which has its imports."""
    child = os.fork()
    if not child:
        try:
            probe.main(command[-1])
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + timeout
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise subprocess.TimeoutExpired(command, timeout)
        time.sleep(0.005)
    return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(ended[1]))


def main(first, count):
    hdf5.SECONDS = 5  # the files are small
    keras = KERASES[CURRENT]
    model = keras.Sequential([keras.Input((3,)), *artifacts.network(keras).layers])
    version, case, _, _ = FILES[1]
    opt = artifacts.optimizer(artifacts.cases(version)[case], CURRENT)
    opt.build(model.trainable_variables)
    pristine = state(model, opt)
    results = collections.Counter()
    for number, seed in enumerate(range(first, first + count)):
        print(f"damage {seed}", file=sys.stderr, flush=True)
        # Each damage of each file meets the real process once.
        if number == len(FILES) * len(DAMAGES) and preloaded.CAN_FORK:
            vars(hdf5)["subprocess"] = types.SimpleNamespace(
                **{**vars(subprocess), "run": forked}
            )
            hdf5.SECONDS = 1  # nothing is imported; a damaged file may loop for ever
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
