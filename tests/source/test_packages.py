"""Programs of several files: names that come from another, and one place for install()."""

import json
import pathlib

import pytest

from tests.source.programs import run, write

pytestmark = pytest.mark.core

TF = "import tensorflow as tf\n"
USE = "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
FALLBACK = f"try:\n    {TF}except ImportError:\n    tf = None\n"
UTILS, FROM_UTILS = "pkg/utils.py", "from .utils import tf\n"
# (name of another file, its text, the import) -> what is found below the import
HANDED_ON = {
    "relative": (UTILS, TF, FROM_UTILS, "breaks"),
    "absolute": (UTILS, TF, "from pkg.utils import tf\n", "breaks"),
    "of a package": ("pkg/lib/__init__.py", TF, "from .lib import tf\n", "breaks"),
    "handed on twice": (UTILS, "from .base import tf\n", FROM_UTILS, "breaks"),
    "with a fallback": (UTILS, FALLBACK, FROM_UTILS, "breaks"),
    "bound to something else": (UTILS, "tf = load()\n", FROM_UTILS, "unsure"),
}


@pytest.fixture(autouse=True)
def package(folder):
    write("pkg/__init__.py", "")
    write("pkg/base.py", TF)


def found_in(path):
    """Returns (line, status) of what is found in a file."""
    document = json.loads(run("check", "--format", "json", "--target", "2.21", path)[1])
    return [(one["line"], one["status"]) for one in document["findings"]]


@pytest.mark.parametrize("case", HANDED_ON.values(), ids=HANDED_ON)
def test_a_name_of_another_file_is_seen(case):
    name, text, imports, status = case
    write(name, text)
    path = write("pkg/model.py", imports + USE)
    assert found_in(path) == [(2, status)]
    assert run("migrate", "--write", "pkg")[0] == 0
    moved = "tf_lso.keras.mixed_precision.LossScaleOptimizer(opt)" in path.read_text()
    assert moved == (status == "breaks")


def test_keras_of_another_file():
    """As in transformers: which Keras it is stands in one file."""
    imports = "import tf_keras as keras\nexcept ImportError:\n    import keras\n"
    write(UTILS, f"try:\n    {imports}")
    program = "from .utils import keras\nkeras.mixed_precision.experimental\n"
    assert [line for line, _ in found_in(write("pkg/model.py", program))] == [2]


OLD = f"{TF}opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(lr=1))\n"
FROM_PKG = "from pkg.model import opt\n"
INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"
GUARD = f"{TF}if hasattr(opt, 'get_scaled_loss'):\n    x = opt.get_scaled_loss(x)\n"
# files, in a folder with a package -> those that get install()
PLACES = {
    "a file that nobody imports": ({"a.py": OLD, "b.py": "import os\n"}, ["./a.py"]),
    "the entry of a package in a folder src": (
        {"src/lib/model.py": OLD, "tools/train.py": "from lib.model import opt\n"},
        ["./tools/train.py"],
    ),
    "more entries than modules are no better place": (
        {"pkg/model.py": OLD, "a.py": FROM_PKG, "b.py": FROM_PKG},
        ["./pkg/model.py"],
    ),
    "an entry that calls it already": (
        {"pkg/model.py": OLD, "train.py": f"{INSTALL}from pkg import model\n"},
        [],
    ),
    "a guard is met where another file wraps": (
        {"pkg/model.py": OLD.replace("lr=1", "1"), "pkg/step.py": GUARD},
        [],
    ),
    # It has no part of an old name that other files are found by.
    "a guard alone": ({"pkg/step.py": GUARD}, ["./pkg/step.py"]),
}


def installs():
    """Migrates the folder; returns the files that get install(), with the reasons."""
    document = json.loads(run("migrate", "--write", "--format", "json", ".")[1])
    return {
        one["file"]: one["install"] for one in document["changed"] if one["install"]
    }


@pytest.mark.parametrize("case", PLACES.values(), ids=PLACES)
def test_the_place_for_install(case):
    files, expected = case
    for name, text in files.items():
        write(name, text)
    assert list(installs()) == expected
    for name, text in files.items():
        new = pathlib.Path(name).read_text()
        has_it = text.startswith(INSTALL) or f"./{name}" in expected
        assert new.startswith(INSTALL) == has_it
        assert ("tf_lso.keras" in new) == ("tf.keras" in text)
    assert installs() == {}


def test_the_entry_has_it_for_its_modules():
    write("pkg/model.py", OLD)
    write("pkg/data.py", OLD)
    train = write("train.py", '"""Trains."""\nfrom pkg import model\nimport pkg.data\n')
    assert installs() == {
        "./train.py": [
            "the argument `lr` of an optimizer (data.py)",
            "the argument `lr` of an optimizer (model.py)",
        ]
    }
    assert train.read_text().startswith(f'"""Trains."""\n{INSTALL}from pkg')
    assert "install" not in pathlib.Path("pkg/model.py").read_text()
    assert installs() == {}
