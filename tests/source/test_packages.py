"""Programs of several files: names that come from another, and one place for install()."""

import pytest

from tests.migrate.files import write
from tf_lso import cli
from tf_lso.commands import check, migrate

pytestmark = pytest.mark.core

USE = "opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)\n"
# (name of another file, its text, the import) -> whether the name is seen
HANDED_ON = {
    "relative": (
        "pkg/utils.py",
        "import tensorflow as tf\n",
        "from .utils import tf\n",
    ),
    "absolute": (
        "pkg/utils.py",
        "import tensorflow as tf\n",
        "from pkg.utils import tf\n",
    ),
    "of a package": (
        "pkg/lib/__init__.py",
        "import tensorflow as tf\n",
        "from .lib import tf\n",
    ),
    "handed on twice": (
        "pkg/utils.py",
        "from .base import tf\n",
        "from .utils import tf\n",
    ),
    "with a fallback": (
        "pkg/utils.py",
        "try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None\n",
        "from .utils import tf\n",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pkg/__init__.py", "")
    write("pkg/base.py", "import tensorflow as tf\n")
    return tmp_path


@pytest.mark.parametrize("case", HANDED_ON.values(), ids=HANDED_ON)
def test_a_name_of_another_file_is_seen(case, folder):
    name, text, imports = case
    write(name, text)
    path = write("pkg/model.py", imports + USE)
    (found,) = check.check([str(path)]).findings
    assert (found.line, found.verdict.status) == (2, "breaks")
    assert cli.main(["migrate", "--write", "pkg"]) == 0
    assert "tf_lso.keras.mixed_precision.LossScaleOptimizer(opt)" in path.read_text()


def test_keras_of_another_file(folder):
    """As in transformers: which Keras it is stands in one file."""
    write(
        "pkg/utils.py",
        "try:\n    import tf_keras as keras\nexcept ImportError:\n    import keras\n",
    )
    path = write(
        "pkg/model.py", "from .utils import keras\nkeras.mixed_precision.experimental\n"
    )
    found = check.check([str(path)]).findings
    assert [one.line for one in found] == [2]


def test_what_another_file_binds_to_something_else_is_not_meant(folder):
    write("pkg/utils.py", "tf = load()\n")
    path = write("pkg/model.py", f"from .utils import tf\n{USE}")
    assert [one.verdict.status for one in check.check([str(path)]).findings] == [
        "unsure"
    ]


OLD = (
    "import tensorflow as tf\n"
    "opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(lr=0.1))\n"
)
INSTALL = "import tf_lso\n\ntf_lso.install()\n\n"


class TestOnePlace:
    def installs(self, *paths):
        outcome = migrate.migrate(paths or ["."], write=True)
        return {file.path: file.installs for file in outcome.files if file.installs}

    def test_the_entry_has_it_for_its_modules(self, folder):
        write("pkg/model.py", OLD)
        write("pkg/data.py", OLD)
        train = write(
            "train.py", '"""Trains."""\nfrom pkg import model\nimport pkg.data\n'
        )
        (name, reasons), *others = self.installs().items()
        assert (name, others) == ("./train.py", [])
        assert reasons == [
            "the argument `lr` of an optimizer (data.py)",
            "the argument `lr` of an optimizer (model.py)",
        ]
        assert train.read_text().startswith(f'"""Trains."""\n{INSTALL}from pkg')
        assert "install" not in (folder / "pkg/model.py").read_text()
        assert self.installs() == {}

    def test_a_file_that_nobody_imports_has_its_own(self, folder):
        write("a.py", OLD)
        write("b.py", "import os\n")
        assert list(self.installs()) == ["./a.py"]

    def test_a_package_in_a_folder_src(self, folder):
        write("src/lib/model.py", OLD)
        write("tools/train.py", "from lib.model import opt\n")
        assert list(self.installs()) == ["./tools/train.py"]

    def test_more_entries_than_modules_are_no_better_place(self, folder):
        write("pkg/model.py", OLD)
        for name in ("a.py", "b.py"):
            write(name, "from pkg.model import opt\n")
        assert list(self.installs()) == ["./pkg/model.py"]

    def test_an_entry_that_calls_it_already(self, folder):
        path = write("pkg/model.py", OLD)
        write("train.py", f"{INSTALL}from pkg import model\n")
        assert self.installs() == {}
        assert "tf_lso.keras" in path.read_text()

    def test_a_guard_is_met_where_another_file_wraps(self, folder):
        write("pkg/model.py", OLD.replace("lr=0.1", "0.1"))
        path = write(
            "pkg/step.py",
            "import tensorflow as tf\n"
            "if hasattr(opt, 'get_scaled_loss'):\n    x = opt.get_scaled_loss(x)\n",
        )
        assert self.installs() == {}
        assert list(self.installs(str(path))) == [str(path)]  # alone, it needs it
