"""The modules that `install()` adds are modules like others for Python's own tools."""

import pytest

from tests import preloaded
from tests.generation import needs_tf_keras
from tests.processes import run

PROGRAM = """
    import contextlib
    import importlib
    import importlib.util
    import inspect
    import json
    import pickle
    import pkgutil
    import sys
    import types

    import tensorflow as tf
    import tf_lso

    try:
        import tf_keras
    except ImportError:
        pass

    tf_lso.install()
    there = dict(sys.modules)
    tf_lso.uninstall()
    added = [name for name in there if sys.modules.get(name) is not there[name]]
    tf_lso.install()

    def contents(module):
        return {n: v for n, v in vars(module).items() if not n.startswith("__")}

    def wrong(name):
        with contextlib.suppress(ModuleNotFoundError):  # in 2.12 there is no keras.src
            importlib.import_module(name.rpartition(".")[0])  # as `import` does
        module = importlib.import_module(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or module.__loader__ is None:
            yield "no spec"
        if not inspect.getsource(module):
            yield "no source"
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
            importlib.util.find_spec(found.name)
        before = contents(module)
        if importlib.reload(module) is not module or sys.modules[name] is not module:
            yield "reload makes another module"
        # Others are modules that TensorFlow or Keras has under another name.
        if "tf_lso" in module.__file__ and contents(module) != before:
            yield "reload changes it"
        for value in before.values():
            of_tensorflow = name.startswith("tensorflow.")
            if of_tensorflow and isinstance(value, (type, types.FunctionType)):
                if pickle.loads(pickle.dumps(value)) is not value:
                    yield f"{value} does not pickle"

    told = {}
    for name in added:
        try:
            told[name] = list(wrong(name))
        except Exception as error:
            told[name] = [f"{type(error).__name__}: {error}"]
    print(len(added))
    print(json.dumps({name: found for name, found in told.items() if found}))

    # Python finds them again.
    for name in added:
        if getattr(sys.modules[name].__spec__, "name", None) == name:
            module = sys.modules.pop(name)
            if importlib.import_module(name) is not module:
                print("another", name)
"""


@pytest.mark.parametrize("legacy", ["0", pytest.param("1", marks=needs_tf_keras)])
def test_spec_source_reload_pickle_and_walk(legacy):
    number, wrong, *others = run(PROGRAM, preloaded.run, TF_USE_LEGACY_KERAS=legacy)
    assert int(number) > 10
    assert (wrong, others) == ("{}", [])
