"""The hint that names `--like`, which is shown after an error of Keras 3.

The hint is shown if Keras 3 raised the error, or if the program used a name or an argument
that Keras 3 does not have. An error that the program or another library raises gets no hint.
"""

import os
import re
import sys
import traceback
import types

from tf_lso.frameworks import keras_versions
from tf_lso.install import like as like_lib

_LINE = (
    "tf_lso: This error comes from Keras 3, and not from loss scaling. If an earlier "
    "TensorFlow ran the program, run it with the Keras of that time: {} (put the "
    "program's TensorFlow version)"
)
_RUN = "tf-lso run --like 2.4 {}"
_INSTALL = 'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'

# Matches Python's message about a method that was called with wrong arguments. Python raises
# this error in the frame of the caller.
_CALL = re.compile(r"(\w+)\.\w+\(\) (got|missing|takes) ")


def hint(error: BaseException | None, command: str | None = None) -> str | None:
    """Return the hint for an error that nobody caught, or None.

    `command` is the command line after the options of `tf-lso run`, or None in a notebook.
    """
    if not _like_would_help():
        return None
    while error is not None and not _is_of_keras3(error):
        # AutoGraph raises an error of a traced function again, as another object.
        is_again = str(error).startswith("in user code:")
        error = error.__context__ if is_again else error.__cause__
    if error is None:
        return None
    return _LINE.format(_INSTALL if command is None else _RUN.format(command))


def _like_would_help():
    """Whether the program runs on Keras 3, and `--like` would change that."""
    if like_lib.VARIABLE in os.environ or "tensorflow" not in sys.modules:
        return False
    try:
        if keras_versions.is_keras2(keras_versions.package_of_tensorflow()):
            return False
    except ImportError:
        return False  # the import of TensorFlow has failed, which the error says
    program = vars(sys.modules["__main__"]).values()
    # `--like` does not change `import keras`.
    return not any(value is sys.modules["keras"] for value in program)


def _is_of_keras3(error):
    """Whether Keras 3 raised an error, or lacks what the program used."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = frames[-1].f_globals if frames else {}  # where it was raised
    is_raised = isinstance(error, Exception) and not isinstance(error, OSError)
    if is_raised and _is_keras3(names.get("__name__")):
        return True  # an OSError is about the files of the program
    match error:
        case ImportError(name=str(module)):
            return _is_keras3(module.removeprefix("tensorflow."))
        case AttributeError(obj=types.ModuleType(__name__=module)):
            return _is_keras3(module)
        case AttributeError(obj=owner):
            return _is_keras3(type(owner).__module__)
        case TypeError() if call := _CALL.match(str(error)):
            cls = names.get(call[1]) or _class_of_keras3(call[1])
            return _is_keras3(getattr(cls, "__module__", None))
    return False


def _is_keras3(module):
    """Whether a module belongs to Keras 3. `module` is its name, or None."""
    return str(module).partition(".")[0] == "keras"


def _class_of_keras3(name):
    """Return the class that a module of Keras 3 has under this name, or None."""
    modules = [module for path, module in [*sys.modules.items()] if _is_keras3(path)]
    return next((vars(m)[name] for m in modules if name in vars(m)), None)
