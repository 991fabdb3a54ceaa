"""Test the metadata of the package, the tools, and the sdist and wheel to be published."""

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
from tools.support import PAIRS

_TOOLS = (
    "tools/run",
    "tools/test",
    "tools/lint",
    "tools/benchmark",
    "tools/docs",
    ".ci/run",
)


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _names(requirements: str) -> set[str]:
    """Return the names of distributions in lines such as `keras>=3.0`."""
    return set(re.findall(r"^\s*([A-Za-z0-9._-]+)", requirements, re.MULTILINE))


def test_the_metadata(config):
    metadata = config["metadata"]
    assert (metadata["name"], metadata["license"]) == ("tf-lso", "Apache-2.0")
    assert config["options"]["python_requires"] == ">=3.10"
    assert re.findall(r"https?://\S+", str(dict(metadata))) == []  # no site yet


def test_the_version_stands_in_one_place(config):
    """The metadata read the version from the package, and two other files repeat it."""
    assert config["metadata"]["version"] == "attr: tf_lso.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", tf_lso.__version__)
    assert f"\nversion: {tf_lso.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{tf_lso.__version__}]" in changelog


def test_neither_tensorflow_nor_its_keras_is_required(config):
    """If Keras 3 were required, pip would replace the Keras 2 of TensorFlow 2.15 and older."""
    assert _names(config["options"]["install_requires"]) == {"h5py", "numpy"}


@pytest.mark.parametrize(
    ("extra", "distributions"),
    [
        ("benchmark", {"matplotlib", "tf-keras"}),
        ("docs", {"furo", "myst-parser", "sphinx", "sphinx-copybutton"}),
        ("demo", {"matplotlib", "scikit-learn", "tensorboard"}),
        ("matrix", {"nox"}),
        ("migrate", {"libcst"}),
        ("test", {"hypothesis", "import-linter", "mypy", "pytest", "ruff"}),
    ],
)
def test_an_extra_has_its_distributions(config, extra, distributions):
    assert distributions <= _names(config["options.extras_require"][extra])


def differing_extras(text, extras):
    """Return the extras that no table row names, and names in rows that are no extras."""
    rows = "\n".join(re.findall(r"^\|.*", text, re.MULTILINE))
    return set(re.findall(r"`tf-lso\[([a-z-]+)\]`", rows)) ^ set(extras)


def test_the_start_page_names_all_extras(config):
    start = (ROOT / "compat_docs" / "start.md").read_text(encoding="utf-8")
    assert differing_extras(start, config["options.extras_require"]) == set()


def test_differing_extras_are_found():
    assert differing_extras("| `tf-lso[a]` |\n`tf-lso[b]`", ["a", "b"]) == {"b"}
    assert differing_extras("| `tf-lso[a]` | `tf-lso[b]` |", ["a"]) == {"b"}


def test_the_readme_has_at_most_700_words():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 700


def test_the_readme_names_the_versions_of_python(config):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| Python \|.*", readme, re.MULTILINE)
    for python in re.findall(r":: (3\.\d+)", config["metadata"]["classifiers"]):
        assert re.search(rf"\b{re.escape(python)}\b", row)


@pytest.mark.parametrize(
    "page", ["README.md", "compat_docs/explanation/contributing.md"]
)
def test_a_page_names_no_count_of_tests(page):
    # Each new test would make a count wrong.
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.findall(r"\d,?\d\d\d (?:passed|tests)|: \d,?\d\d\d in", text) == []


def test_the_framework_extras_allow_the_oldest_tested_version_and_all_newer_ones(
    config,
):
    extras = config["options.extras_require"]
    for name in ("tensorflow", "tensorflow-cpu", "tf-keras"):
        package = name.removesuffix("-cpu").replace("-", "_")
        versions = [getattr(pair, package) for pair in PAIRS]
        minors = [int(version.removeprefix("2.")) for version in versions if version]
        assert extras[name].strip() == f"{name}>=2.{min(minors)}"


def test_only_the_package_is_shipped(config):
    from setuptools import find_packages

    include = config["options.packages.find"]["include"].split()
    found = find_packages(str(ROOT), include=include)
    assert {"tf_lso", "tf_lso.examples"} <= set(found)
    assert all(name.split(".")[0] == "tf_lso" for name in found)


def test_every_folder_of_the_package_is_a_package():
    # `find:` in setup.cfg silently leaves out a folder without __init__.py.
    folders = {path.parent for path in (ROOT / "tf_lso").rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


def test_the_license_is_apache_2():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright 2026 tf_lso contributors" in text and "[yyyy]" not in text


def test_actions_are_pinned_by_the_hash_of_a_commit():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", action)


# A command that zsh refuses, because zsh reads `[` as the beginning of a pattern.
_PLAIN_EXTRA = re.compile(r"pip install (?!['\"])\S*\[")


def test_pip_install_with_an_extra_is_quoted():
    assert _PLAIN_EXTRA.search("pip install tf-lso[plot]")
    files = [*(ROOT / "tf_lso").rglob("*.py"), *(ROOT / "compat_docs").rglob("*.md")]
    for file in files:
        assert not _PLAIN_EXTRA.search(file.read_text("utf-8")), file


@pytest.mark.parametrize("tool", _TOOLS)
def test_tools_are_executable_and_parse(tool):
    path = ROOT / tool
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", path], check=True)


def _run_without_python(tmp_path, tool, *arguments):
    """Run a tool with a Python that does not exist, so it cannot create an environment."""
    return subprocess.run(
        [ROOT / tool, *arguments],
        env={**os.environ, "PYTHON": "no-such-python"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("tool", ["tools/run", "tools/test", "tools/benchmark"])
def test_help_needs_no_environment(tool, tmp_path):
    shown = _run_without_python(tmp_path, tool, "--help")
    assert shown.returncode == 0
    assert shown.stdout.lower().startswith(f"usage: {tool}")


def test_an_unsuitable_python_is_refused_by_name(tmp_path):
    refused = _run_without_python(tmp_path, "tools/run", "anything.py")
    assert refused.returncode == 1
    assert "PYTHON=no-such-python" in refused.stderr
    assert "3.10 to 3.13" in refused.stderr


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
