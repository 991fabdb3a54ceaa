"""Make the old names work in Python processes that a program under `tf-lso run` starts.

Python imports a module called `sitecustomize` when it starts. `tf_lso.install.running` puts
this folder first in PYTHONPATH. All child processes of the program inherit PYTHONPATH.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _install_when_imported() -> None:
    root = os.path.abspath(os.path.join(_HERE, *[os.pardir] * 3))
    added = importlib.util.find_spec("tf_lso") is None
    if added:
        sys.path.append(root)
    try:
        from tf_lso.install import import_hooks, install, like
    finally:
        if added:
            sys.path.remove(root)
    chosen = os.environ.get(like.VARIABLE)
    import_keras = os.environ.get(like.IMPORT_KERAS) != "0"
    import_hooks.after_import_of_frameworks(
        lambda: install(like=chosen, import_keras=import_keras)
    )


def _run_the_next() -> None:
    """Run the `sitecustomize` that Python would have found without this file."""
    elsewhere = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_install_when_imported()
_run_the_next()
