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

V1, OLD = "TF2.1.4", "experimental-v2-Adam-dynamic"
V4, V2 = "TF2.4.4", "stable-v2-Adam-dynamic"
V15, NEW = "TF2.15.1", "stable-new-Adam-dynamic"
PARTS = (".index", ".data-00000-of-00001")
IN_FOLDER = (*(f"/variables/variables{p}" for p in PARTS), "/keras_metadata.pb")
# Rows of (version, case, file or folder, endings of the paths that may be damaged).
FILES = [
    *((v, c, "ckpt-1", PARTS) for v, c in [(V1, OLD), (V4, V2), (V15, NEW)]),
    *((v, c, "model.h5", ("",)) for v, c in [(V4, V2), (V15, NEW)]),
    (V15, NEW, "model.keras", ("",)),
    (V15, NEW, "savedmodel", (*IN_FOLDER, "/saved_model.pb")),
]


DAMAGES = ("flip", "overwrite", "zero", "cut", "drop", "double", "pickle", "empty")


def damaged(damage, data, chance):
    """Return the bytes of a file after a random damage of this kind."""
    place, length = chance.randrange(len(data)), chance.randrange(1, 64)
    before, rest = data[:place], data[place:]
    hit, after = rest[:length], rest[length:]
    zeros = bytes(8 * length)
    return {
        "flip": lambda: before + bytes([rest[0] ^ 1 << chance.randrange(8)]) + rest[1:],
        "overwrite": lambda: before + chance.randbytes(length) + after,
        "zero": lambda: (before + zeros + rest[8 * length :])[: len(data)],
        "cut": lambda: before,
        "drop": lambda: before + after,
        "double": lambda: before + hit + rest,
        "pickle": lambda: b'cbuiltins\nexec\n(S\'open("canary","w")\'\ntR.',
        "empty": bytes,
    }[damage]()


def state(model, opt):
    return [np.asarray(v) for v in (*model.weights, *opt.weights)]


def attempt(seed, model, opt, pristine, folder):
    """Damage a file and restore it. Return the outcome, and a text if the outcome is wrong."""
    chance = random.Random(seed)
    version, case, name, parts = FILES[seed % len(FILES)]
    shutil.copytree(artifacts.folder(version) / case, folder / case)
    path = folder / case / name
    damage = DAMAGES[(seed // len(FILES)) % len(DAMAGES)]
    file = pathlib.Path(f"{path}{chance.choice(parts)}")
    file.write_bytes(damaged(damage, file.read_bytes(), chance))
    for variable, value in zip((*model.weights, *opt.weights), pristine):
        variable.assign(value)
    if ends_h5py(file):
        return "HDF5 ended", None
    what = f"{seed}: {damage} of {version}/{case}/{file.name}"
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
    recorded = artifacts.expected(version, case, name)["after5"]["weights"]
    # HDF5 files have no checksums of the values, so wrong weights are not an error there.
    has_sums = file.suffix not in (".h5", ".keras")
    if has_sums and not artifacts.close(model.get_weights(), recorded, 0, 0):
        return "restored", f"{what}: other weights, and no error"
    return "restored", None


def names_of(path):
    """Read with h5py all names, attributes and shapes of a file, but no values."""
    with contextlib.ExitStack() as stack:
        inside = path
        if zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            inside = archive.open("model.weights.h5")
        file = stack.enter_context(h5py.File(inside))

        def visit(_, item):
            for name in item.attrs:
                item.attrs[name]
            if isinstance(item, h5py.Dataset):
                _ = item.shape, item.dtype, item.chunks

        visit("", file)
        file.visititems(visit)


def ends_h5py(path):
    """Return whether the HDF5 library hangs or crashes when it reads a file.

    Python cannot prevent this, so the test ignores such files. A forked process reads the file.
    """
    if path.suffix not in (".h5", ".keras") or not preloaded.CAN_FORK:
        return False
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            names_of(path)
        os._exit(0)
    end = time.monotonic() + 2  # the files are small
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1]) != 0


def main(first, count):
    keras = KERASES[CURRENT]
    model = keras.Sequential([keras.Input((3,)), *artifacts.network(keras).layers])
    version, case, _, _ = FILES[1]
    opt = artifacts.optimizer(artifacts.cases(version)[case], CURRENT)
    opt.build(model.trainable_variables)
    pristine = state(model, opt)
    results = collections.Counter()
    for seed in range(first, first + count):
        print(f"damage {seed}", file=sys.stderr, flush=True)
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
