"""Migrated old programs print what they printed under the TensorFlow of their time.

`tests/old_programs` tests the same programs, not migrated, under `tf-lso run`. `noxfile.py`
migrates all programs once, and runs all of them with each TensorFlow.
"""

import concurrent.futures
import contextlib
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
from unittest import mock

import pytest

from tests.generation import limit
from tests.migrate.programs import migrated
from tests.old_programs import test_programs
from tf_lso import cli

# The folder where noxfile.py keeps the migrated programs, or "".
ONCE = os.environ.get("TF_LSO_MIGRATED", "")

_ALL = test_programs.ALONE
WILD = [name for name in _ALL if name.startswith("wild_")]
# Without noxfile.py, test only a third of the other programs, since each takes some seconds.
NAMES = [*WILD, *[name for name in _ALL if name not in WILD][:: 1 if ONCE else 3]]
LIMITS = {
    **test_programs.LIMITS,
    "wild_10_lr_callbacks": [
        limit("`ModelCheckpoint` of this Keras writes no .h5 file", "3.0", "3.6")
    ],
}


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """Start the programs of all selected tests. Return a dict from names to futures of `run`.

    As many programs run at the same time as there are cores.
    """
    folder = pathlib.Path(ONCE or tmp_path_factory.mktemp("migrated")) / "programs"
    if not folder.exists():
        _migrate(folder)
    here = [i for i in request.session.items if i.path == pathlib.Path(__file__)]
    wanted = {i.callspec.params.get("name") for i in here if hasattr(i, "callspec")}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            name: pool.submit(_run, folder, name, tmp_path_factory.mktemp("program"))
            for name in NAMES
            if name in wanted
        }
        pool.shutdown(cancel_futures=True)


def _migrate(folder):
    shutil.copytree(test_programs.PROGRAMS, folder)
    assert cli.main(["migrate", "--write", str(folder)]) == 0


def _run(folder, name, cwd):
    program, *arguments = name.split()
    command = [str(folder / f"{program}.py"), *arguments]
    return test_programs.run(command, cwd, True)


@pytest.mark.parametrize("name", test_programs.marked_slow(NAMES, WILD, LIMITS))
def test_a_migrated_program_prints_what_it_printed(name, started):
    test_programs.check(name, *started[name].result())


def _texts(folder):
    return {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}


@pytest.mark.skipif(not ONCE, reason="noxfile.py sets TF_LSO_MIGRATED")
def test_the_programs_are_migrated_as_in_the_other_environments(started, tmp_path):
    _migrate(tmp_path / "programs")
    assert _texts(tmp_path / "programs") == _texts(pathlib.Path(ONCE) / "programs")


def test_migration_does_not_depend_on_the_installed_tensorflow(monkeypatch):
    """`migrate` does not ask which packages are installed."""
    # These packages ask for their own versions when they are imported. Import them first.
    for package in ("libcst", "tqdm"):
        with contextlib.suppress(ImportError):  # tqdm may be absent
            importlib.import_module(package)
    asked = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr(importlib.metadata, "packages_distributions", asked)
    monkeypatch.setattr(importlib.metadata, "version", asked)
    monkeypatch.setattr(importlib.util, "find_spec", asked)
    old = [path.read_text("utf-8") for path in test_programs.PROGRAMS.glob("*.py")]
    assert [migrated(text)[0] for text in old] != old
    assert not asked.called


def test_the_programs_of_the_wild_that_need_no_like_are_here():
    numbers = {name.split()[0].split("_")[1] for name in WILD}
    assert numbers == {"01", "02", "05", "06", "08"}


@pytest.mark.parametrize("path", sorted(test_programs.PROGRAMS.glob("wild_*.py")))
def test_a_program_of_the_wild_needs_its_migration(path):
    text = path.read_text(encoding="utf-8")
    assert migrated(text)[0] != text
