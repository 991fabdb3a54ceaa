"""Damage files at random places, and restore them. `test_trust.py` runs this as a program.

    python -m tests.checkpoints.corruptions FIRST_SEED COUNT

Restoring a damaged file must give the right result or raise a CheckpointError. The error must
name the file, and nothing may change. The program prints a line that begins with "WRONG" for
each damage with another outcome.
"""

import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile

import h5py
import numpy as np

from tests import preloaded
from tests.checkpoints import artifacts
from tests.families import CURRENT, KERASES
from tf_lso import checkpoints

STABLE, NEW = "stable-v2-Adam-dynamic", "stable-new-Adam-dynamic"
CHECKPOINT_PARTS = (".index", ".data-00000-of-00001")
SAVED_MODEL_PARTS = (
    "/variables/variables.index",
    "/variables/variables.data-00000-of-00001",
    "/keras_metadata.pb",
    "/saved_model.pb",
)
# Rows of (version, case, file or folder, endings of the paths that may be damaged).
FILES = [
    ("TF2.1.4", "experimental-v2-Adam-dynamic", "ckpt-1", CHECKPOINT_PARTS),
    ("TF2.4.4", STABLE, "ckpt-1", CHECKPOINT_PARTS),
    ("TF2.15.1", NEW, "ckpt-1", CHECKPOINT_PARTS),
    ("TF2.4.4", STABLE, "model.h5", [""]),
    ("TF2.15.1", NEW, "model.h5", [""]),
    ("TF2.15.1", NEW, "model.keras", [""]),
    ("TF2.15.1", NEW, "savedmodel", SAVED_MODEL_PARTS),
]


DAMAGES = ("flip", "overwrite", "zero", "cut", "drop", "double", "pickle", "empty")


def damaged(damage, data, random_numbers):
    """Return the bytes of a file after a random damage of this kind."""
    start = random_numbers.randrange(len(data))
    length = random_numbers.randrange(1, 64)
    before, rest = data[:start], data[start:]
    if damage == "flip":  # one bit
        flipped = rest[0] ^ 1 << random_numbers.randrange(8)
        return before + bytes([flipped]) + rest[1:]
    if damage == "overwrite":
        return before + random_numbers.randbytes(length) + rest[length:]
    if damage == "zero":
        return (before + bytes(8 * length) + rest[8 * length :])[: len(data)]
    if damage == "cut":
        return before
    if damage == "drop":
        return before + rest[length:]
    if damage == "double":
        return before + rest[:length] + rest
    if damage == "pickle":  # unpickling it would make the file `canary`
        return b'cbuiltins\nexec\n(S\'open("canary","w")\'\ntR.'
    return b""


def state_of(model, opt):
    return [np.asarray(v) for v in (*model.weights, *opt.weights)]


def damage_and_restore(seed, model, opt, initial_state, folder):
    """Damage a file and restore it. Return the outcome, and a text if the outcome is wrong."""
    random_numbers = random.Random(seed)
    version, case, name, parts = FILES[seed % len(FILES)]
    shutil.copytree(artifacts.folder(version) / case, folder / case)
    path = folder / case / name
    damage = DAMAGES[(seed // len(FILES)) % len(DAMAGES)]
    file = pathlib.Path(f"{path}{random_numbers.choice(parts)}")
    file.write_bytes(damaged(damage, file.read_bytes(), random_numbers))
    for variable, value in zip((*model.weights, *opt.weights), initial_state):
        variable.assign(value)
    if stops_h5py(file):
        return "HDF5 stopped", None
    description = f"{seed}: {damage} of {version}/{case}/{file.name}"
    try:
        checkpoints.restore(path, model=model, optimizer=opt)
    except checkpoints.CheckpointError as error:
        if str(folder) not in str(error):
            return "refused", f"{description}: the file is not named: {error}"
        if not all(map(np.array_equal, initial_state, state_of(model, opt))):
            return "refused", f"{description}: the state changed"
        return "refused", None
    except BaseException as error:
        return "raised", f"{description}: {type(error).__name__}: {error}"
    recorded = artifacts.expected(version, case, name)["after5"]["weights"]
    # HDF5 files have no checksums of the values, so wrong weights are not an error there.
    has_checksums = file.suffix not in (".h5", ".keras")
    if has_checksums and not artifacts.close(model.get_weights(), recorded, 0, 0):
        return "restored", f"{description}: other weights, and no error"
    return "restored", None


def read_structure(path):
    """Read with h5py all names, attributes and shapes of a file, but no values."""
    with contextlib.ExitStack() as stack:
        weights = path
        if zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            weights = archive.open("model.weights.h5")
        file = stack.enter_context(h5py.File(weights))

        def visit(_, item):
            for name in item.attrs:
                item.attrs[name]
            if isinstance(item, h5py.Dataset):
                _ = item.shape, item.dtype, item.chunks

        visit("", file)
        file.visititems(visit)


def stops_h5py(path):
    """Return whether the HDF5 library hangs or crashes when it reads a file.

    Python cannot prevent this, so the test ignores such files. A forked process reads the file.
    """
    if path.suffix not in (".h5", ".keras") or not preloaded.CAN_FORK:
        return False
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            read_structure(path)
        os._exit(0)
    deadline = time.monotonic() + 2  # seconds, which is long for such small files
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.005)
        ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) != 0


def main(first, count):
    keras = KERASES[CURRENT]
    model = keras.Sequential([keras.Input((3,)), *artifacts.network(keras).layers])
    version, case, _, _ = FILES[1]
    opt = artifacts.make_optimizer(artifacts.cases(version)[case], CURRENT)
    opt.build(model.trainable_variables)
    initial_state = state_of(model, opt)
    outcomes = collections.Counter()
    for seed in range(first, first + count):
        print(f"damage {seed}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            outcome, problem = damage_and_restore(
                seed, model, opt, initial_state, pathlib.Path(folder)
            )
        outcomes[outcome] += 1
        if problem:
            print("WRONG", problem, flush=True)
    if pathlib.Path("canary").exists():
        print("WRONG code of a file was run")
    print("DONE", dict(outcomes))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
