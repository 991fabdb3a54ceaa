"""Reads what legacy programs saved, and converts it.

`opening` finds out what a path is and makes a `source.Source` from it. `plan` compares the
source with the variables of a model and an optimizer. `restoring` writes the values, or
refuses. `converting` builds the model that a file describes (`blueprint`), restores the
file into it, and lets Keras save it. `layouts` has what is known of the layouts of files.
"""

import importlib as _importlib

# Public name -> the module that has it. Loaded when first used: the command line asks
# for the module `command` alone, which needs no TensorFlow.
_NAMES = {
    "CheckpointError": "errors",
    "Report": "report",
    "convert": "converting",
    "restore": "restoring",
}

__all__ = sorted(_NAMES)


def __getattr__(name):
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_NAMES[name]}")
    return globals().setdefault(name, getattr(module, name))


def __dir__():
    return sorted({*globals(), *__all__})
