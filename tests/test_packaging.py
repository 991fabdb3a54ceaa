"""Test the metadata of the package, the tools, and the sdist and wheel to be published."""

import ast
import configparser
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import tf_lso
from tests.processes import HANGS_AFTER, ROOT
from tf_lso.frameworks import environment


@pytest.fixture(scope="module")
def config():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_the_version_stands_in_one_place(config):
    """The metadata read the version from the package, and two other files repeat it."""
    assert config["metadata"]["version"] == "attr: tf_lso.__version__"
    assert f"\nversion: {tf_lso.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{tf_lso.__version__}]" in changelog


def test_neither_tensorflow_nor_its_keras_is_required(config):
    """If Keras 3 were required, pip would replace the Keras 2 of TensorFlow 2.15 and older."""
    assert config["options"]["install_requires"].split() == ["h5py", "numpy"]


def test_the_start_page_names_all_extras(config):
    start = (ROOT / "compat_docs" / "start.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\|.*", start, re.MULTILINE))
    named = set(re.findall(r"`tf-lso\[([a-z-]+)\]`", rows))
    assert named == set(config["options.extras_require"])


def pairs():
    """Return the pairs of noxfile.py, without importing nox."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    (value,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAIRS"
    ]
    return ast.literal_eval(value)


def numbers(version):
    return tuple(map(int, version.split(".")))


def test_the_pairs_are_those_that_the_package_supports():
    tested = [pair["tensorflow"] for pair in pairs().values()]
    assert set(map(numbers, tested)) == set(environment.PAIRS)
    for pair in pairs().values():
        supported = environment.PAIRS[numbers(pair["tensorflow"])]
        for package in ("keras", "tf_keras"):
            if pair[package]:
                versions = supported[package]
                assert versions.oldest <= numbers(pair[package]) <= versions.newest


def test_the_scheduled_job_runs_every_pair():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r'^ {10}- "(2.*)"$', text, re.MULTILINE) == list(pairs())


def test_the_framework_extras_allow_the_oldest_tested_version_and_all_newer_ones(
    config,
):
    extras = config["options.extras_require"]
    for name in ("tensorflow", "tensorflow-cpu", "tf-keras"):
        package = name.removesuffix("-cpu").replace("-", "_")
        versions = [
            numbers(pair[package]) for pair in pairs().values() if pair[package]
        ]
        _, minor = min(versions)
        assert extras[name].strip() == f"{name}>=2.{minor}"


def test_every_folder_of_the_package_is_a_package():
    # `find:` in setup.cfg silently leaves out a folder without __init__.py.
    folders = {path.parent for path in (ROOT / "tf_lso").rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


# --- What is published.


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The folder with the sdist, and with the wheel that was built from the sdist."""
    folder = tmp_path_factory.mktemp("build")
    ignored = shutil.ignore_patterns(
        ".git", ".venv*", ".nox", "*.egg-info", "build", ".*_cache"
    )
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source")
    return folder / "dist"


def run(*command, **options):
    """Run a command without the checkout on its path. Return its output, or fail."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(argument) for argument in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGS_AFTER,
        **{"env": environment, **options},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
class TestPublished:
    def test_files_pass_the_check_of_package_indexes(self, published):
        files = sorted(published.iterdir())
        assert [file.suffix for file in files] == [".whl", ".gz"]
        run(sys.executable, "-m", "twine", "check", "--strict", *files)

    def test_the_wheel_has_only_the_package_and_all_metadata(self, published):
        (wheel,) = published.glob("*.whl")
        info = f"tf_lso-{tf_lso.__version__}.dist-info"
        with zipfile.ZipFile(wheel) as archive:
            folders = {name.split("/")[0] for name in archive.namelist()}
            metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        assert folders == {"tf_lso", info}
        assert metadata["Version"] == tf_lso.__version__
        assert metadata["Author"] == "tf_lso contributors"
        addresses = [metadata[field] for field in ("Project-URL", "Home-page")]
        assert addresses == [None, None]

    def test_the_sdist_has_the_docs_and_the_tests(self, published):
        (sdist,) = published.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"tests/conftest.py", "tools/test", "compat_docs/index.md"} <= names
        if (ROOT / ".git").exists():
            files = run("git", "ls-files", cwd=ROOT).splitlines()
            assert [file for file in files if file not in names] == [".gitignore"]

    @pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
    def test_files_install_into_a_new_environment(self, published, kind, tmp_path):
        (file,) = published.glob(kind)
        run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
        python = tmp_path / "env" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python]
        run(*pip, "install", "--no-deps", "--disable-pip-version-check", file)
        (tmp_path / "old.py").write_text("import tensorflow\n")
        bare = {"env": {"PATH": os.environ["PATH"]}, "cwd": tmp_path}
        tool = tmp_path / "env" / "bin" / "tf-lso"
        assert "migrate" in run(tool, "--help", **bare)
        assert "stuck" in run(tool, "help", "nan", **bare)
        assert tf_lso.__version__ in run(tool, "--version", **bare)
        done = subprocess.run([tool, "check", "old.py"], capture_output=True, **bare)
        assert done.returncode == 2
        assert b"tf-lso[migrate]" in done.stderr
        module = run(python, "-c", "import tf_lso; print(tf_lso)", **bare)
        assert str(tmp_path) in module
