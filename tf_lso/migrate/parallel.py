"""All files, in as many processes as there are processors."""

import functools
import gc
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import process as pools

from tf_lso import progress
from tf_lso.migrate.one_file import Migrated, alone, migrate
from tf_lso.migrate.paths import Options

# Fewer are done before the processes are there.
_FEW = 40
_CHUNK = 8

Died = pools.BrokenProcessPool


def each(
    files: Iterable[tuple[str, bool]], options: Options, write: bool
) -> Iterator[Migrated]:
    """Yields what became of each file, in order.

    Args:
      files: (path, whether the user named it) of each.
      options: the `Options`.
      write: whether to change the files.

    Raises:
      Died: if one of the processes did.
    """
    listed = list(files)
    work = functools.partial(_one, options=options, write=write)
    processes = min(_processors(), len(listed) // _FEW + 1)
    if processes == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from _with_bar(map(work, listed), len(listed))
        return
    # Started afresh: a fork would take over threads, such as those of TensorFlow.
    context = multiprocessing.get_context("spawn")
    # Not a `multiprocessing.Pool`, which ends its processes by a signal that one may
    # miss while it waits for work, and then waits for it forever.
    with pools.ProcessPoolExecutor(processes, context, _prepare) as executor:
        done = executor.map(work, listed, chunksize=_CHUNK)
        yield from _with_bar(done, len(listed))


def _with_bar(done, count):
    return progress.bar(done, "tf-lso migrate", "file", count)


def _one(file, options, write):
    path, named = file
    try:
        return migrate(path, options, write, named)
    except Exception as error:  # ours: the other files are to go on all the same
        return alone(path, f"tf-lso fails on it: {type(error).__name__}: {error}")


def _prepare():
    # An interrupt reaches all processes; the first one lets the others finish what
    # they have begun, so that they take their temporary files away.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # what compiling says of the programs
    gc.disable()  # the trees have no cycles, and the process ends soon


def _processors():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
