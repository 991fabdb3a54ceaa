"""LSO111: calls that read files of older versions.

After tf_lso.install() such calls restore the optimizer completely or refuse the file.
"""

import libcst as cst

from tf_lso.migrate.findings import FILES, UNSURE, Verdict
from tf_lso.migrate.nodes import literal
from tf_lso.migrate.program import Program

_KERAS = ("tensorflow.keras.", "tensorflow.compat.v2.keras.", "keras.")
# The ends of the paths of Keras functions that read what an older version may have written.
_LOADING = (
    *(".load_model", ".model_from_config", ".model_from_json"),
    *(".optimizers.deserialize", ".optimizers.get"),
)
_MAKERS = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")
_RESTORING = ("restore", "read", "restore_or_initialize")
_TODAY = "An optimizer that an older version wrote is refused, or silently left out."


def find(program: Program) -> None:
    """Find `tf.keras.models.load_model(path)` and `checkpoint.restore(path)`."""
    for node in [] if program.target.keras_2 else program.nodes(cst.Call):
        path = program.path(node.func)
        name = path.rpartition(".")[2]
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
        if _loads(node, path) or _restores(program, node, name, path):
            reads = f"`{name}` of what an older version wrote"
            found = program.report(FILES, node, Verdict(reads, UNSURE, _TODAY))
            found.needs_install = reads


def _loads(node: cst.Call, path: str) -> bool:
    """Return whether a call of a Keras function may read the config of an optimizer."""
    if not (path.startswith(_KERAS) and path.endswith(_LOADING)):
        return False
    text = literal(node.args[0].value) if node.args else None
    # `optimizers.get("adam")` reads no config.
    return text is None or not path.endswith(".optimizers.get")


def _restores(program: Program, node: cst.Call, name: str, path: str) -> bool:
    """Return whether a call of a method may read the variables of an optimizer."""
    if path and not path.startswith(_MAKERS):
        return False
    if name == "load_weights":  # an HDF5 file has only the weights of layers
        text = literal(node.args[0].value) if node.args else None
        return not (text or "").endswith(("h5", "hdf5"))
    return name in _RESTORING and bool(program.called.intersection(_MAKERS))
