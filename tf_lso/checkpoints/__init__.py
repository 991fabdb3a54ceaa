"""Reads what legacy programs saved: a file is opened, matched, planned and restored.

`object_graph` and `h5` read the formats into a `source.Source`, by the names in `layouts`;
`matching` finds the `targets`; `plan` says what fits; `restoring` writes, or refuses.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:  # type checkers do not see `__getattr__`'s names
    from tf_lso.checkpoints.report import Report as Report
    from tf_lso.checkpoints.restoring import restore as restore
    from tf_lso.checkpoints.source import CheckpointError as CheckpointError

# Public name -> the module that has it. Loaded when first used: TensorFlow is slow.
_NAMES = {"CheckpointError": "source", "Report": "report", "restore": "restoring"}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> _typing.Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_NAMES[name]}")
    return globals().setdefault(name, getattr(module, name))


def __dir__():
    return sorted({*globals(), *__all__})
