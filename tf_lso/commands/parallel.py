"""Migrates all files, in as many processes as there are processors."""

import contextlib
import functools
import gc
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import process as pools

from tf_lso import progress
from tf_lso.commands.migrate_file import Migrated, alone, migrate
from tf_lso.source.renaming import Options

# Fewer files are done before the processes have started.
_FEW = 40
_CHUNK = 8
_BAR = ("tf-lso migrate", "file")

Died = pools.BrokenProcessPool


def each(
    files: Iterable[tuple[str, bool]], options: Options, write: bool
) -> Iterator[Migrated]:
    """Yield what became of each file: (path, whether the user named it), in order.

    Raises:
      Died: if one of the processes did.
    """
    listed = list(files)
    work = functools.partial(_one, options=options, write=write)
    processes = min(_processors(), len(listed) // _FEW + 1)
    if processes == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from progress.bar(map(work, listed), *_BAR, len(listed))
        return
    # A fork would copy threads, such as those of TensorFlow.
    context = multiprocessing.get_context("spawn")
    # `multiprocessing.Pool` ends its processes by a signal. A process that waits for
    # work may miss it, and the pool then waits forever.
    with pools.ProcessPoolExecutor(processes, context, _prepare) as executor:
        with _without_interrupts():
            done = executor.map(work, listed, chunksize=_CHUNK)
        yield from progress.bar(done, *_BAR, len(listed))


def _one(file: tuple[str, bool], options: Options, write: bool) -> Migrated:
    path, named = file
    try:
        return migrate(path, options, write, named)
    except Exception as error:  # a defect of ours must not stop the other files
        return alone(path, f"tf-lso fails on it: {type(error).__name__}: {error}")


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    # An interrupt reaches all processes. Those that start here finish their files, so
    # that no temporary file stays. They inherit the mask: nothing interrupts their
    # imports, before `_prepare`. Ours gets the interrupt when the mask ends.
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # what the compiler says about the programs
    gc.disable()  # the trees have no cycles, and the process ends soon


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
