"""Find out in which format Keras is saving or loading a whole model at the moment.

When Keras asks an optimizer for its config, Keras does not pass the format, and no public
function returns the format. So this module looks at the functions on the call stack.
"""

import traceback

from tf_lso.frameworks import keras_versions

# Maps a function of Keras to the format in which the function saves a model. A key is a pair.
# The first item of the pair is the last part of the dotted name of a module, and the second
# item is the name of a function in this module. The module for .h5 files is called hdf5_format
# in Keras 2, and legacy_h5_format in Keras 3.
_WRITERS = {
    ("hdf5_format", "save_model_to_hdf5"): ".h5",
    ("legacy_h5_format", "save_model_to_hdf5"): ".h5",
    ("saving_lib", "save_model"): ".keras",
}
# Maps a function of Keras to the format from which the function loads a model. The keys are
# pairs as in `_WRITERS`. TensorFlow also has a function `load` in a module `load`, but only
# functions of Keras are looked up here.
_READERS = {
    ("saving_lib", "load_model"): ".keras",
    ("hdf5_format", "load_model_from_hdf5"): ".h5",
    ("load", "load"): "SavedModel",
}


def written() -> str | None:
    """Return ".h5" or ".keras" if Keras is saving a model in this format, else None."""
    return _running(_WRITERS)


def read() -> str | None:
    """Return ".keras", ".h5" or "SavedModel" if Keras is loading this format, else None."""
    return _running(_READERS)


def _running(functions: dict[tuple[str, str], str]) -> str | None:
    for frame, _ in traceback.walk_stack(None):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in keras_versions.PACKAGES:
            key = module.rpartition(".")[2], frame.f_code.co_name
            if key in functions:
                return functions[key]
    return None
