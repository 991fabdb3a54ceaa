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
    there = dict(sys.modules)
    tf_lso.uninstall()
    added = [name for name in there if sys.modules.get(name) is not there[name]]
    tf_lso.install()
    assert len(added) > 10

    def contents(module):
        return {n: v for n, v in vars(module).items() if not n.startswith("__")}

    for name in added:
        with contextlib.suppress(ModuleNotFoundError):  # in 2.12 there is no keras.src
            importlib.import_module(name.rpartition(".")[0])  # as `import` does
        module, spec = importlib.import_module(name), importlib.util.find_spec(name)
        assert spec and spec.loader and module.__loader__, name
        assert inspect.getsource(module), name
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
            importlib.util.find_spec(found.name)
        before = contents(module)
        assert importlib.reload(module) is module is sys.modules[name], name
        # Others are modules that TensorFlow or Keras has under another name.
        if "tf_lso" in module.__file__:
            assert contents(module) == before, name
        if name.startswith("tensorflow."):
            for value in before.values():
                if isinstance(value, (type, types.FunctionType)):
                    assert pickle.loads(pickle.dumps(value)) is value, (name, value)

    for name in added:
        if getattr(sys.modules[name].__spec__, "name", None) == name:
            module = sys.modules.pop(name)
            assert importlib.import_module(name) is module, name
"""


@pytest.mark.parametrize("legacy", ["0", pytest.param("1", marks=needs_tf_keras)])
def test_spec_source_reload_pickle_and_walk(legacy):
    run(PROGRAM, preloaded.run, TF_USE_LEGACY_KERAS=legacy)
