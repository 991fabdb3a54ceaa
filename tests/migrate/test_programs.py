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

from tests.migrate.programs import migrated
from tests.old_programs import test_programs
from tf_lso import cli

# The folder in which noxfile.py keeps the programs that it has migrated, or "".
MIGRATED = os.environ.get("TF_LSO_MIGRATED", "")

# Programs that run without `--like`: those in the style of public code, and the others.
WILD = [name for name in test_programs.WITHOUT_LIKE if name.startswith("wild_")]
OTHERS = [name for name in test_programs.WITHOUT_LIKE if not name.startswith("wild_")]
if not MIGRATED:
    # Each program takes some seconds. So without noxfile.py, these are enough.
    OTHERS = [
        "absl_app --dtype fp16 --steps=3",
        "checkpoint_manager",
        "cli_main --fp16 --epochs 3",
        "ctl_accumulation",
        "error_types",
        "exp_custom_loop 1024",
        "exp_scale_as_tensor",
        "fit_overflow",
        "gan_compile",
        "garden_configure_optimizer --dtype fp32",
        "garden_configure_optimizer",
        "graph_get_updates",
        "horovod_like",
        "import_forms",
        "layer_policies",
        "mirrored_nan_second",
        "old_json_configs",
        "rewrite_compat_names",
        "train_step_unscale",
        "two_groups",
    ]
QUICK = ("wild_01_ctl_scaled_loss_clip", "wild_05_graph_rewrite")
NAMES = WILD + OTHERS


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """Start the programs of all selected tests. Return a dict from names to futures of `run`.

    As many programs run at the same time as there are cores.
    """
    folder = pathlib.Path(MIGRATED or tmp_path_factory.mktemp("migrated")) / "programs"
    if not folder.exists():
        migrate_all(folder)
    selected = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == pathlib.Path(__file__)
        and item.originalname == "test_a_migrated_program_prints_what_it_printed"
    ]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {}
        for name in selected:
            cwd = tmp_path_factory.mktemp("program")
            runs[name] = pool.submit(run_migrated, folder, name, cwd)
        yield runs
        pool.shutdown(cancel_futures=True)


def migrate_all(folder):
    """Copy all programs into a new folder, and migrate the copies."""
    shutil.copytree(test_programs.PROGRAMS, folder)
    assert cli.main(["migrate", "--write", str(folder)]) == 0


def run_migrated(folder, name, cwd):
    program, *arguments = name.split()
    command = [str(folder / f"{program}.py"), *arguments]
    return test_programs.run(command, cwd, after_tensorflow=True)


@pytest.mark.parametrize(
    "name", test_programs.marked_slow(NAMES, QUICK, test_programs.LIMITS)
)
def test_a_migrated_program_prints_what_it_printed(name, started):
    test_programs.check(name, *started[name].result())


def texts_in(folder):
    return {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}


@pytest.mark.skipif(not MIGRATED, reason="noxfile.py sets TF_LSO_MIGRATED")
def test_the_programs_are_migrated_as_in_the_other_environments(started, tmp_path):
    migrate_all(tmp_path / "programs")
    assert texts_in(tmp_path / "programs") == texts_in(
        pathlib.Path(MIGRATED) / "programs"
    )


@pytest.mark.slow
def test_migration_does_not_depend_on_the_installed_tensorflow(monkeypatch):
    """`migrate` does not ask which packages are installed."""
    # These packages ask for their own versions when they are imported. Import them first.
    for package in ("libcst", "tqdm"):
        with contextlib.suppress(ImportError):  # tqdm may be absent
            importlib.import_module(package)
    forbidden = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr(importlib.metadata, "packages_distributions", forbidden)
    monkeypatch.setattr(importlib.metadata, "version", forbidden)
    monkeypatch.setattr(importlib.util, "find_spec", forbidden)
    old = [path.read_text("utf-8") for path in test_programs.PROGRAMS.glob("*.py")]
    assert [migrated(text)[0] for text in old] != old
    assert not forbidden.called


def test_the_wild_programs_that_need_no_like_are_tested():
    numbers = {name.split()[0].split("_")[1] for name in WILD}
    assert numbers == {"01", "02", "05", "06", "08"}  # 10 needs `--like`


@pytest.mark.parametrize("path", sorted(test_programs.PROGRAMS.glob("wild_*.py")))
def test_each_wild_program_is_changed(path):
    text = path.read_text(encoding="utf-8")
    assert migrated(text)[0] != text
