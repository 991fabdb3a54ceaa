"""LSO111: files of older versions that are read, which tf_lso.install() restores whole."""

import re

import libcst as cst

from tf_lso.migrate.findings import FILES, UNSURE, Verdict
from tf_lso.migrate.nodes import keywords, literal
from tf_lso.migrate.program import Program
from tf_lso.names import old_behaviors

_KERAS = re.compile(r"^(tensorflow\.(compat\.v[12]\.)?)?keras\.(.*)")
_MAKERS = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")
_WEIGHTS = re.compile(r"(?<!\.weights)\.(h5|hdf5)$")
_TODAY = "An optimizer that an older version wrote is refused, or silently left out."
_DOES = "Under tf_lso.install() it is restored whole."


class Files(cst.BatchableCSTVisitor):
    """Finds calls that read models, weights and checkpoints."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._found: list[tuple[cst.CSTNode, str]] = []
        self._makes_checkpoints = False

    def visit_Call(self, node: cst.Call) -> None:
        """Find `tf.keras.models.load_model(path)` and `checkpoint.restore(path)`."""
        paths = self.program.paths(node.func)
        self._makes_checkpoints |= bool(paths.intersection(_MAKERS))
        text = literal(node.args[0].value) if node.args else None
        for path in paths:
            found = _KERAS.match(path)
            name = found[3].removeprefix("models.") if found else ""
            # `optimizers.get("adam")` reads no config.
            if name in old_behaviors.LOADING and (
                name != "optimizers.get" or text is None
            ):
                self._report(node, name.rpartition(".")[2])
        is_made = all(path.startswith(_MAKERS) for path in paths)
        if is_made and isinstance(node.func, cst.Attribute):
            self._method(node, node.func.attr.value, text)

    def _method(self, node: cst.Call, name: str, text: str | None) -> None:
        if name == "load_weights":
            # A .h5 file, and `by_name`, are about the weights of layers.
            if not _WEIGHTS.search(text or "") and "by_name" not in keywords(node):
                self._report(node, name)
        elif name in old_behaviors.RESTORING:
            self._found.append((node, name))

    def leave_Module(self, original_node: cst.Module) -> None:
        """Report `restore` where the program makes checkpoints."""
        for node, name in self._found if self._makes_checkpoints else ():
            self._report(node, name)

    def _report(self, node: cst.CSTNode, name: str) -> None:
        if self.program.target.keras_2:
            return
        verdict = Verdict(
            f"`{name}` of what an older version wrote", UNSURE, _TODAY, _DOES
        )
        found = self.program.report(FILES, node, verdict)
        found.needs_install = f"`{name}` of what an older version wrote"
