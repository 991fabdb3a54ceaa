"""Which old names a program used, and where."""

import dataclasses
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

from tf_lso import names
from tf_lso.names.targets import prefixes
from tf_lso.names.today import MODULES_TODAY

# Whose code does not count as the program's.
_PACKAGES = (
    "tensorflow",
    "keras",
    "tf_keras",
    "tf_lso",
    "importlib",
    "_frozen_importlib",
)


@dataclasses.dataclass(frozen=True, order=True)
class Used:
    """One old name in one place."""

    file: str
    line: int
    name: str  # the old dotted name, beginning with `tf.`


class Usage:
    """What `install` sees a program use."""

    def __init__(self) -> None:
        self._used: set[Used] = set()
        self._lock = threading.Lock()

    def used(self) -> list[Used]:
        """Return what was used so far, sorted.

        A module counts where a program imports it or passes it on, and not on the way
        to one of its names in the same line.
        """
        with self._lock:
            used = sorted(self._used)
        ways = {(one.file, one.line, way) for one in used for way in prefixes(one.name)}
        return [one for one in used if (one.file, one.line, one.name) not in ways]

    def note(self, name: str) -> None:
        """Write down that the code which runs now used `name`."""
        frame = sys._getframe(2)
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] in _PACKAGES and module != "__main__":
            return
        file, line = _origin(frame)
        with self._lock:
            self._used.add(Used(file, line, name))

    def watch(self, ledger: Any, module: types.ModuleType, namespace: str) -> None:
        """Note what is read of a module that stands for `namespace`."""
        watched = names.modules_in(namespace) | {
            name
            for name, use in names.mirror_names(namespace).items()
            if not use.versions.endswith("-")
        }
        if not watched or getattr(type(module), "_watched_by_tf_lso", False):
            return
        note = self.note
        before = type(module)
        getattribute = before.__getattribute__

        def read(self: types.ModuleType, name: str) -> object:
            if name in watched:
                note(f"tf.{namespace}.{name}")
            return getattribute(self, name)

        cls = type(
            before.__name__,
            (before,),
            {"__getattribute__": read, "_watched_by_tf_lso": True},
        )
        _set_class(module, cls)
        ledger.on_undo(lambda: _set_class(module, before))


def _origin(frame: types.FrameType) -> tuple[str, int]:
    """Return the file and line of a frame, also of code that AutoGraph has rewritten."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    if "__autograph_generated_file" not in file:
        return file, line
    # AutoGraph's own tracebacks use this map. Without it, the place in the rewritten
    # code is returned.
    caller = frame.f_back
    while caller is not None:
        source_map = getattr(caller.f_locals.get("converted_f"), "ag_source_map", {})
        for location, origin in source_map.items():
            if (location.filename, location.lineno) == (file, line):
                return str(origin.loc.filename), int(origin.loc.lineno)
        caller = caller.f_back
    return file, line


def _set_class(module: types.ModuleType, cls: type) -> None:
    """Make a module an instance of `cls`."""
    # Modules of tf.compat.v1 forward assignments; the class that theirs extends does not.
    for base in type(module).__mro__:
        if not isinstance(vars(base).get("__setattr__"), types.FunctionType | None):
            break
    set_attribute: Any = base.__setattr__
    set_attribute(module, "__class__", cls)


def report(used: Sequence[Used]) -> str:
    """Return the text that tells a person which old names a program used."""
    if not used:
        return "tf-lso: the program used none of the old names.\n"
    places: dict[str, list[str]] = {}
    for one in used:
        places.setdefault(one.name, []).append(f"{one.file}:{one.line}")
    count = f"{len(places)} old name{'s' if len(places) > 1 else ''}"
    lines = [f"tf-lso: the program used {count}:"]
    for name in sorted(places):
        lines += [f"  {name}", f"    today: {_today(name)}"]
        lines += [f"    at {place}" for place in places[name]]
    return "\n".join(lines) + "\n"


def _today(name: str) -> str:
    path = name.removeprefix("tf.")
    namespace, _, last = path.rpartition(".")
    use = names.mirror_names(namespace).get(last)
    if use is not None:
        return names.SYMBOLS[use.symbol].current or "nothing takes its place"
    if f"tensorflow.{path}" in MODULES_TODAY:
        return "the module is there"
    return f"no such module; tf_lso.{path} has what it had"
