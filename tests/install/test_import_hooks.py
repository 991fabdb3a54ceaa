"""An import hook calls its function once, after a module has been imported."""

import importlib
import sys

import pytest

from tests.processes import run
from tf_lso.install import import_hooks


def test_an_import_that_fails_does_not_use_up_the_hook(tmp_path, monkeypatch):
    """A notebook may repeat an import after an error."""
    (tmp_path / "not_ready.py").write_text("import not_there")
    monkeypatch.syspath_prepend(tmp_path)
    calls = []
    hook = import_hooks.ImportHook(lambda: calls.append("called"), "not_ready")
    try:
        with pytest.raises(ModuleNotFoundError, match="not_there"):
            importlib.import_module("not_ready")
        assert calls == []
        monkeypatch.setitem(sys.modules, "not_there", sys)
        importlib.import_module("not_ready")
        assert calls == ["called"]
    finally:
        hook.remove()
        sys.modules.pop("not_ready", None)


def test_the_function_is_called_after_the_outer_of_two_imports(tmp_path, monkeypatch):
    """Importing TensorFlow may import Keras, whose names TensorFlow then still lacks."""
    (tmp_path / "outer.py").write_text("import inner\nis_complete = True")
    (tmp_path / "inner.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    complete = []
    hook = import_hooks.ImportHook(
        lambda: complete.append(sys.modules["outer"].is_complete), "outer", "inner"
    )
    try:
        importlib.import_module("outer")
        assert complete == [True]
    finally:
        hook.remove()
        for name in ("outer", "inner"):
            sys.modules.pop(name, None)


@pytest.mark.slow
def test_a_search_for_keras_before_its_import_does_not_prevent_the_registration():
    program = """
        import importlib.util
        import tf_lso
        importlib.util.find_spec("keras")
        import keras
        print("tf_lso>LossScaleOptimizer" in keras.utils.get_custom_objects())
    """
    assert run(program) == ["True"]
