"""Find out which kind of file of a whole model Keras is writing or reading now.

When Keras asks an optimizer for its config, it does not say for which file, and no public
name tells. So this module looks at the functions that are running.
"""

import traceback

from tf_lso.frameworks import keras_versions

# (The last part of a module's name, a function in it) -> the file that it writes.
_WRITERS = {
    ("hdf5_format", "save_model_to_hdf5"): ".h5",  # of Keras 2
    ("legacy_h5_format", "save_model_to_hdf5"): ".h5",  # of Keras 3
    ("saving_lib", "save_model"): ".keras",
}
_READERS = {
    ("saving_lib", "load_model"): ".keras",
    ("hdf5_format", "load_model_from_hdf5"): ".h5",
    (
        "load",
        "load",
    ): "SavedModel",  # of Keras 2, not TensorFlow's function of this name
}


def written() -> str | None:
    """Return ".h5" or ".keras" if Keras is writing such a file of a model, else None."""
    return _running(_WRITERS)


def read() -> str | None:
    """Return ".keras", ".h5" or "SavedModel" if Keras is reading such a file, else None."""
    return _running(_READERS)


def _running(functions: dict[tuple[str, str], str]) -> str | None:
    for frame, _ in traceback.walk_stack(None):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in keras_versions.PACKAGES:
            key = module.rpartition(".")[2], frame.f_code.co_name
            if key in functions:
                return functions[key]
    return None
