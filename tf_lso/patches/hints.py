"""The line that names `--like`, after an error that Keras 3 makes of an old program.

The message shows that the program used what Keras 2 had and Keras 3 has not. An error of
the program's own has no such message, or names what no Keras had.
"""

import importlib.util
import json
import linecache
import os
import pathlib
import re
import sys
import traceback

from tf_lso import environment, keras_versions
from tf_lso.patches import like as like_lib

# What Keras 2 had and Keras 3 has not. "attributes": classes of Keras 3 -> of instances.
# "names": module of Keras -> of that module.
_GONE = pathlib.Path(__file__).with_name("names_of_keras2.json")

# What Keras 3 says of arguments that Keras 2 took: regular expressions, one a line.
_MESSAGES = pathlib.Path(__file__).with_name("keras3_messages.txt")

_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute '(\w+)'")
# The module and the name, or the reverse.
_NAME = re.compile(
    r"module '(?:keras\._tf_keras\.)?(keras[\w.]*)' has no attribute '(\w+)'"
)
_IMPORT = re.compile(
    r"cannot import name '(\w+)' from '(?:tensorflow|keras\._tf_keras)\.(keras[\w.]*)'"
)
_FILE = re.compile(r"File format not supported: filepath=(.*?)\. Keras 3 only")
_NAME_AS_RATE = re.compile(
    r"`learning_rate` should be float.*learning_rate=[A-Za-z]", re.S
)


def hint(error: BaseException | None, command: str | None = None) -> str | None:
    """Return the line for an error that nobody caught, or None.

    `command` is the command line after the options of `tf-lso run`, None in a notebook.
    """
    if like_lib.VARIABLE in os.environ or "tensorflow" not in sys.modules:
        return None
    try:
        if keras_versions.is_keras2(keras_versions.package_of_tensorflow()):
            return None
    except ImportError:
        return None  # the import of TensorFlow has failed, which the error says
    program = vars(sys.modules["__main__"]).values()
    if any(value is sys.modules["keras"] for value in program):
        return None  # it uses `import keras`, which `--like` does not change
    while error is not None and not _is_of_keras3(error):
        error = error.__cause__
    if error is None:
        return None
    major, minor = environment.tensorflow_version()
    call = 'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'
    if command is not None:
        call = f"tf-lso run --like 2.4 {command}"
    has_it = importlib.util.find_spec("tf_keras") is not None
    install = "" if has_it else f', after `pip install "tf-keras=={major}.{minor}.*"`'
    return (
        "tf_lso: This is a change of Keras 3, and not of loss scaling. The Keras that "
        f"TensorFlow 2.4 had, or the version that the program is for: {call}{install}"
    )


def _is_of_keras3(error):
    """Whether an error comes from what Keras 3 has no more."""
    message = str(error)
    for line in _MESSAGES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and re.search(line, message, re.S):
            return True
    if isinstance(error, (ImportError, AttributeError)):
        return _is_gone(message)
    found = _FILE.search(message)
    if found:
        path = found[1]  # a checkpoint, or a folder with a SavedModel
        return os.path.isdir(path) or os.path.exists(f"{path}.index")
    frames = list(traceback.walk_tb(error.__traceback__))
    if _NAME_AS_RATE.search(message):
        return any(_is_own_optimizer(frame) for frame, _ in frames)
    is_search = isinstance(error, (KeyError, IndexError, ValueError)) and frames
    return bool(is_search) and _looks_for_a_metric(*frames[-1])


def _is_gone(message):
    """Whether a message names what Keras 2 had and Keras 3 has not."""
    gone = json.loads(_GONE.read_text(encoding="utf-8"))
    found = [*_NAME.findall(message), *(m[::-1] for m in _IMPORT.findall(message))]
    if any(name in gone["names"].get(module, ()) for module, name in found):
        return True
    return any(
        attribute in attributes and cls in _names(_class_of_keras3(path))
        for cls, attribute in _ATTRIBUTE.findall(message)
        for paths, attributes in gone["attributes"].items()
        for path in paths.split()
    )


def _class_of_keras3(path):
    found = keras_versions.public("keras")
    for part in path.split("."):
        found = getattr(found, part)
    return keras_versions.variable_of_keras3() if path == "Variable" else found


def _names(base):
    """Return the names of a class and of those below it: messages have the name alone."""
    return {base.__name__}.union(*map(_names, type.__subclasses__(base)))


def _looks_for_a_metric(frame, number):
    """Whether a line of a program searches `model.metrics_names`.

    Keras 3's has "compile_metrics" in place of the names of the metrics.
    """
    line = linecache.getline(frame.f_code.co_filename, number)
    values = {**frame.f_globals, **frame.f_locals}
    names = re.findall(r"\w+", line)
    searched = [v for v in map(values.get, names) if isinstance(v, (dict, list, tuple))]
    # Arrays are not compared with texts.
    texts = [one for value in searched for one in value if isinstance(one, str)]
    return "metrics_names" in names or "compile_metrics" in texts


def _is_own_optimizer(frame):
    """Whether a frame is the constructor of a user's class of optimizers."""
    cls = type(frame.f_locals.get("self"))
    is_optimizer = issubclass(cls, _class_of_keras3("optimizers.Optimizer"))
    own = vars(cls).get("__init__")
    is_constructor = getattr(own, "__code__", None) is frame.f_code
    return is_optimizer and is_constructor and not keras_versions.is_of_one(cls)
