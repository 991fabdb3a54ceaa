"""`import tf_lso.installed` does what `tf_lso.install()` does."""

import subprocess
import sys

import pytest

from tests.processes import ROOT, run


@pytest.mark.parametrize("first", ["", "import tensorflow as tf"])
def test_the_import_installs_and_uninstall_undoes_it(first):
    lines = run(
        f"""
        {first}
        import tf_lso.installed
        from tensorflow.keras.mixed_precision import experimental
        import tensorflow as tf
        print(experimental.Policy("mixed_float16").name)
        tf_lso.uninstall()
        print(hasattr(tf.keras.mixed_precision, "experimental"))
        import tf_lso.installed
        print(hasattr(tf.keras.mixed_precision, "experimental"))
        """
    )
    assert lines == ["mixed_float16", "False", "True"]


def test_sorted_imports_still_install(tmp_path):
    """ruff puts the line below that of TensorFlow, and above the imports of old names."""
    path = tmp_path / "train.py"
    path.write_text(
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "from tensorflow.keras.mixed_precision import experimental\n\n"
        "print(experimental, tf)\n"
    )
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--fix", "-q"]
    subprocess.run([*command, "--select", "E,F,I", path], check=True, cwd=tmp_path)
    lines = path.read_text().splitlines()
    assert lines.index("import tf_lso.installed  # noqa: F401") < next(
        number for number, line in enumerate(lines) if line.startswith("from")
    )
    done = subprocess.run(
        [sys.executable, path], env={"PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_find_spec_knows_the_modules_that_install_adds():
    """Programs ask for an old module by `importlib.util.find_spec`."""
    assert (
        run(
            """
        import importlib.util
        import tf_lso.installed
        for name in (
            "tensorflow.keras.mixed_precision.experimental",
            "tensorflow.mixed_precision.experimental",
            "tensorflow.python.keras.mixed_precision.policy",
            "keras.api._v2.keras",
        ):
            print(importlib.util.find_spec(name) is not None)
        """
        )
        == ["True"] * 4
    )
