"""Migrated old programs print what they printed under the TensorFlow of their time.

`tests/old_programs` tests the same programs, not migrated, under `tf-lso run`.
"""

import shutil

import pytest

from tests.old_programs import test_programs
from tf_lso import cli

QUICK = ("wild_01_ctl_scaled_loss_clip", "wild_05_graph_rewrite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the folder of programs, which is migrated."""
    copied = tmp_path_factory.mktemp("migrated") / "programs"
    shutil.copytree(test_programs.PROGRAMS, copied)
    assert cli.main(["migrate", "--write", str(copied)]) == 0
    return copied


@pytest.mark.parametrize(
    "name",
    test_programs.marked_slow(test_programs.WITHOUT_LIKE, QUICK, test_programs.LIMITS),
)
def test_a_migrated_program_prints_what_it_printed(name, folder, tmp_path):
    program, *arguments = name.split()
    command = [str(folder / f"{program}.py"), *arguments]
    test_programs.check(
        name, *test_programs.run(command, tmp_path, after_tensorflow=True)
    )
