"""Old programs, migrated and run by Python alone, print what they print unmodified.

`tests/old_programs` holds the unmodified ones under `tf-lso run` to the same record.
"""

import concurrent.futures
import os
import pathlib
import shutil

import pytest

from tests.migrate.programs import migrated
from tests.old_programs import test_programs
from tf_lso import cli

_ALL = [
    name
    for name, expected in test_programs.EXPECTED.items()
    if expected.get("only", "keras") == "keras"
]
WILD = [name for name in _ALL if name.startswith("wild_")]
# A third of the others, since a program takes some seconds.
NAMES = [*WILD, *[name for name in _ALL if name not in WILD][::3]]


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """The runs of all programs of this session, as many at a time as there are cores."""
    folder = tmp_path_factory.mktemp("migrated")
    copied = shutil.copytree(test_programs.PROGRAMS, folder / "programs")
    assert cli.main(["migrate", "--write", str(copied)]) == 0
    here = [i for i in request.session.items if i.path == pathlib.Path(__file__)]
    wanted = {i.callspec.params.get("name") for i in here if hasattr(i, "callspec")}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            name: pool.submit(_run, copied, name, tmp_path_factory.mktemp("program"))
            for name in NAMES
            if name in wanted
        }
        pool.shutdown(cancel_futures=True)


def _run(folder, name, cwd):
    program, *arguments = name.split()
    return test_programs.run([str(folder / f"{program}.py"), *arguments], cwd, True)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in WILD else [pytest.mark.slow]) for n in NAMES],
)
def test_a_migrated_program_prints_what_it_printed(name, started):
    test_programs.check(name, *started[name].result())


def test_all_programs_of_the_wild_are_here():
    assert {name.split()[0].split("_")[1] for name in WILD} == {
        "01",
        "02",
        "05",
        "06",
        "08",
        "10",
    }


@pytest.mark.parametrize("path", sorted(test_programs.PROGRAMS.glob("wild_*.py")))
def test_a_program_of_the_wild_needs_its_migration(path):
    text = path.read_text(encoding="utf-8")
    assert migrated(text) != text
