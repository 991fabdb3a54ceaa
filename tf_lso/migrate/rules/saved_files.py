"""Rule LSO111: find calls that may read files of an older version.

After tf_lso.install() such a call either restores the whole optimizer or raises an error.
"""

import libcst as cst

from tf_lso.migrate.findings import FILES, UNSURE, Consequence
from tf_lso.migrate.nodes import literal
from tf_lso.migrate.program import Program

_KERAS = ("tensorflow.keras.", "tensorflow.compat.v2.keras.", "keras.")
# The ends of the paths of Keras functions that may read files or configs of older versions.
_LOADING = (
    *(".load_model", ".model_from_config", ".model_from_json"),
    *(".optimizers.deserialize", ".optimizers.get"),
)
_MAKERS = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")
_RESTORING = ("restore", "read", "restore_or_initialize")
_TODAY = "An optimizer that an older version wrote is refused, or silently left out."


def find(program: Program) -> None:
    """Find calls such as `tf.keras.models.load_model(path)` and `checkpoint.restore(path)`."""
    for node in [] if program.target.keras_2 else program.nodes(cst.Call):
        path = program.path(node.func)
        name = path.rpartition(".")[2]
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
        if _loads(node, path) or _restores(program, node, name, path):
            reads = f"`{name}` of a file from an older version"
            found = program.report(FILES, node, Consequence(reads, UNSURE, _TODAY))
            found.needs_install = reads


def _loads(node: cst.Call, path: str) -> bool:
    """Return whether a call may make an optimizer from a config that Keras has saved."""
    if not (path.startswith(_KERAS) and path.endswith(_LOADING)):
        return False
    text = literal(node.args[0].value) if node.args else None
    # A call such as `optimizers.get("adam")` makes an optimizer from a name, not from a config.
    return text is None or not path.endswith(".optimizers.get")


def _restores(program: Program, node: cst.Call, name: str, path: str) -> bool:
    if path and not path.startswith((".", *_MAKERS)):
        return False
    if name == "load_weights":
        # Ignore HDF5 files, because they have only the weights of layers.
        text = literal(node.args[0].value) if node.args else None
        return not (text or "").endswith(("h5", "hdf5"))
    return name in _RESTORING and bool(program.called.intersection(_MAKERS))
