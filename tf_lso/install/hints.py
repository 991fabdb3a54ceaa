"""Suggest an option of `tf-lso run` below the traceback of an error about Keras 3.

The hint suggests `--like` if the error comes from the use of Keras 3. In a program that runs
with `--like`, it says how to keep Keras 3 if the error is about a name that only Keras 3 has.
"""

import os
import re
import sys
import traceback
import types

from tf_lso.frameworks import keras_versions
from tf_lso.install import import_keras
from tf_lso.install import like as like_lib

_LINE = (
    "tf_lso: This error comes from Keras 3, and not from loss scaling. If the "
    "program was written for an earlier TensorFlow, run it with the Keras of that "
    "version: {} (replace 2.4 by "
    "the program's TensorFlow version)"
)
_RUN = "tf-lso run --like 2.4 {}"
_INSTALL = 'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'

# Matches Python's message about wrong arguments in a call of a method. The traceback of this
# error ends in the caller, so only the message names the class of the method.
_CALL = re.compile(r"(\w+)\.\w+\(\) (got|missing|takes) ")
# The end of Python's message about a call such as `opt.lr(step)`. In Keras 2 this was a call of
# the optimizer's schedule, and in Keras 3 `lr` and `learning_rate` are tensors.
_CALLED_RATE = "Tensor' object is not callable"
_RATES = {"lr", "learning_rate"}


def hint(error: BaseException | None, command: str | None = None) -> str | None:
    """Return the hint for an uncaught error, or None if no option would help.

    `command` is the part of the command line after the options of `tf-lso run`. In a
    notebook `command` is None.
    """
    match error:
        case AttributeError(obj=types.ModuleType(__name__=module), name=str(name)):
            needed = import_keras.only_in_keras3(f"{module}.{name}")
            if needed is not None:
                return f"tf_lso: {import_keras.message(needed)}"
    if not _like_would_help():
        return None
    while error is not None and not _is_of_keras3(error):
        # If a traced function raises an error, AutoGraph raises a new error instead. The
        # `__context__` of the new error is the original error.
        is_again = str(error).startswith("in user code:")
        error = error.__context__ if is_again else error.__cause__
    if error is None:
        return None
    return _LINE.format(_INSTALL if command is None else _RUN.format(command))


def _like_would_help():
    """Return whether the program runs on Keras 3 because it did not choose another Keras."""
    if like_lib.VARIABLE in os.environ or "tensorflow" not in sys.modules:
        return False
    try:
        return not keras_versions.is_keras2(keras_versions.package_of_tensorflow())
    except ImportError:
        # The program's own error already says that TensorFlow or Keras cannot be imported.
        return False


def _is_of_keras3(error):
    """Return whether an error comes from the use of Keras 3.

    This is the case if Keras 3 raised the error, or if the program used a name or an
    argument that Keras 3 does not have.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = frames[-1].f_globals if frames else {}
    # The cause of an OSError is a file of the program and not the version of Keras.
    is_raised = isinstance(error, Exception) and not isinstance(error, OSError)
    if is_raised and _is_keras3(names.get("__name__")):
        return True
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
        case TypeError() if frames and str(error).endswith(_CALLED_RATE):
            return not _RATES.isdisjoint(frames[-1].f_code.co_names)
    return False


def _is_keras3(module):
    return str(module).partition(".")[0] == "keras"


def _class_of_keras3(name):
    """Return an object that is called `name` in any module of Keras 3, or None."""
    modules = [module for path, module in [*sys.modules.items()] if _is_keras3(path)]
    return next((vars(m)[name] for m in modules if name in vars(m)), None)
