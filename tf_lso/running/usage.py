"""Which old names a program used, and where."""

import dataclasses
import sys
import threading
import types

from tf_lso import names

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
    """One old name in one place.

    Attributes:
      file: path of the program's file.
      line: its line, an int.
      name: the old dotted name, beginning with `tf.`.
    """

    file: str
    line: int
    name: str


class Usage:
    """What `install` sees a program use."""

    def __init__(self):
        self._used = set()
        self._lock = threading.Lock()

    def used(self):
        """Return what was used so far, a sorted list of `Used`."""
        with self._lock:
            return sorted(self._used)

    def note(self, name):
        """Write down that the code which runs now used `name`."""
        frame = sys._getframe(2)
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] in _PACKAGES and module != "__main__":
            return
        file, line = _origin(frame)
        with self._lock:
            self._used.add(Used(file, line, name))

    def watch(self, ledger, module, namespace):
        """Note what is read of a module that stands for `namespace`."""
        uses = names.mirror_names(namespace)
        if not uses or getattr(type(module), "_watched_by_tf_lso", False):
            return
        watched = {name for name, use in uses.items() if not use.versions.endswith("-")}
        note = self.note

        def read(self, name):
            if name in watched:
                note(f"tf.{namespace}.{name}")
            return super(cls, self).__getattribute__(name)

        before = type(module)
        cls = type(
            before.__name__,
            (before,),
            {"__getattribute__": read, "_watched_by_tf_lso": True},
        )
        _set_class(module, cls)
        ledger.on_undo(lambda: _set_class(module, before))


def _origin(frame):
    """The file and line of a frame, also of code that AutoGraph has rewritten."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    if "__autograph_generated_file" not in file:
        return file, line
    # What AutoGraph's own tracebacks go by; without it the place is the rewritten one.
    caller = frame.f_back
    while caller is not None:
        source_map = getattr(caller.f_locals.get("converted_f"), "ag_source_map", {})
        for location, origin in source_map.items():
            if (location.filename, location.lineno) == (file, line):
                return origin.loc.filename, origin.loc.lineno
        caller = caller.f_back
    return file, line


def _set_class(module, cls):
    """Make a module an instance of `cls`."""
    # Modules of tf.compat.v1 pass assignments on; not so the class that theirs extends.
    for base in type(module).__mro__:
        if not isinstance(vars(base).get("__setattr__"), types.FunctionType | None):
            break
    base.__setattr__(module, "__class__", cls)


def report(used):
    """Return the text that tells a person which old names a program used.

    Args:
      used: list of `Used`.
    """
    if not used:
        return "tf-lso: the program used none of the old names.\n"
    places = {}
    for one in used:
        places.setdefault(one.name, []).append(f"{one.file}:{one.line}")
    lines = [f"tf-lso: the program used {len(places)} old names:"]
    for name in sorted(places):
        symbol = names.SYMBOLS[_use(name).symbol]
        current = symbol.current or "nothing takes its place"
        lines += [f"  {name}", f"    today: {current}"]
        lines += [f"    at {place}" for place in places[name]]
    return "\n".join(lines) + "\n"


def _use(name):
    namespace, _, last = name.removeprefix("tf.").rpartition(".")
    return names.mirror_names(namespace)[last]
