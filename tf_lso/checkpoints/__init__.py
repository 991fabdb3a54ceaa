"""Reads what legacy programs saved.

The formats: `opening` finds out what a path is, and makes a `source.Source` from it with
`checkpoint`, which reads an `object_graph`, or `keras_files`, which reads `h5`. `layouts`
has what is known of them. `matching` finds out which variable of the file is which of
`model_targets` and `optimizer_targets`. `plan` says what goes where and what does not fit.
`restoring` writes the values, or refuses.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:  # type checkers do not see `__getattr__`'s names
    from tf_lso.checkpoints.errors import CheckpointError as CheckpointError
    from tf_lso.checkpoints.report import Report as Report
    from tf_lso.checkpoints.restoring import restore as restore

# Public name -> the module that has it. Loaded when first used: TensorFlow is slow.
_NAMES = {
    "CheckpointError": "errors",
    "Report": "report",
    "restore": "restoring",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> _typing.Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_NAMES[name]}")
    return globals().setdefault(name, getattr(module, name))


def __dir__():
    return sorted({*globals(), *__all__})
