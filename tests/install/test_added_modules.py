"""Python's tools for modules, such as `importlib.reload`, work with the added modules.

`install()` adds these modules to `sys.modules` under the old names.
"""

import pytest

from tests import preloaded
from tests.generation import needs_tf_keras
from tests.processes import run

PROGRAM = """
    import contextlib
    import importlib
    import importlib.util
    import inspect
    import pickle
    import pkgutil
    import sys
    import types

    import tensorflow as tf
    import tf_lso

    with contextlib.suppress(ImportError):
        import tf_keras

    tf_lso.install()
    installed = dict(sys.modules)
    tf_lso.uninstall()
    added = [name for name in installed if sys.modules.get(name) is not installed[name]]
    tf_lso.install()
    assert len(added) > 10  # the loops below would pass without any module

    def contents(module):
        return {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("__")
        }

    for name in added:
        # Import the parent package first, as an import statement does. Keras 2.12 has no
        # package keras.src.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name.rpartition(".")[0])
        module, spec = importlib.import_module(name), importlib.util.find_spec(name)
        assert spec and spec.loader and module.__loader__, name
        assert inspect.getsource(module), name
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
            importlib.util.find_spec(found.name)
        before = contents(module)
        assert importlib.reload(module) is module is sys.modules[name], name
        # Compare only modules of tf_lso. The others belong to TensorFlow or Keras, which have
        # them under another name.
        if "tf_lso" in module.__file__:
            assert contents(module) == before, name
        if name.startswith("tensorflow."):
            for value in before.values():
                if isinstance(value, (type, types.FunctionType)):
                    assert pickle.loads(pickle.dumps(value)) is value, (name, value)

    # A module that is no longer in `sys.modules` can be imported again.
    for name in added:
        if getattr(sys.modules[name].__spec__, "name", None) == name:
            module = sys.modules.pop(name)
            assert importlib.import_module(name) is module, name
"""


@pytest.mark.parametrize(
    "legacy_keras", ["0", pytest.param("1", marks=[needs_tf_keras, pytest.mark.slow])]
)
def test_added_modules_have_a_spec_and_source_and_can_be_reloaded_and_pickled(
    legacy_keras,
):
    run(PROGRAM, preloaded.run, TF_USE_LEGACY_KERAS=legacy_keras)
