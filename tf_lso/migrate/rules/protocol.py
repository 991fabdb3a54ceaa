"""LSO110, LSO112: optimizer classes by the old protocol, and TensorFlow's private state."""

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.findings import BREAKS, PRIVATE, PROTOCOL, UNSURE, Verdict
from tf_lso.migrate.program import Program
from tf_lso.names import old_behaviors

# A private class of the state of a loss scale, which programs derived from.
_STATE = "_DynamicLossScaleState"
_OWN_SCALE = "tf_lso.LossScale is the base class for loss scales of your own."
# Private names of loss scaling -> what happens today, and what tf_lso has instead.
_PRIVATE = {
    _STATE: ("AttributeError: Keras 3 has no such class.", _OWN_SCALE),
    "_loss_scale": (
        "Keras 3 does not read it, and tf_lso does not either.",
        _OWN_SCALE,
    ),
    "_get_optimizer": (
        "Keras 3's models have none, and its `compile` does not call it.",
        "tf_lso.install() gives models one that wraps an optimizer. `compile` does not "
        "call a model's own.",
    ),
}
_CLASS = (
    "The optimizers of TensorFlow 2.11 and later neither have nor call it: the class "
    "trains as its base class does, or fails."
)
_LIKE = "tf-lso run --like 2.4 and install(like='2.4') give it the old base class."
# Base classes that still call the old protocol.
_KEPT = ("tf_keras.", ".legacy.", ".compat.v1.train.", ".object")


class Protocol(cst.BatchableCSTVisitor):
    """Finds optimizer classes by the old protocol, and private names."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Find `def _resource_apply_dense` in a class."""
        if self.program.target.legacy_optimizers or not node.bases:
            return
        paths = [path for base in node.bases for path in self._paths(base.value)]
        if any(kept in f".{path}" for path in paths for kept in _KEPT):
            return
        used: dict[str, cst.Name] = {}
        for found in m.findall(node.body, m.FunctionDef() | m.Attribute()):
            name = found.name if isinstance(found, cst.FunctionDef) else found.attr  # type: ignore[attr-defined]
            used.setdefault(name.value, name)
        old = next((name for name in old_behaviors.PROTOCOL if name in used), None)
        if old is None:
            return
        known = any("keras.optimizers." in path for path in paths)
        status = BREAKS if known else UNSURE
        verdict = Verdict(f"`{old}` of an optimizer class", status, _CLASS, _LIKE)
        self.program.report(PROTOCOL, used[old], verdict, why_not=_LIKE)

    def _paths(self, base: cst.BaseExpression) -> frozenset[str]:
        return self.program.paths(base) or frozenset({self.program.code(base)})

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Find `optimizer._loss_scale = …` and others."""
        name = node.attr.value
        parent = self.program.parent(node)
        stored = isinstance(parent, cst.AssignTarget)
        if name not in _PRIVATE or stored != (name == "_loss_scale"):
            return
        if stored and "opt" not in self.program.code(node.value).lower():
            return
        status = UNSURE if name == "_get_optimizer" else BREAKS  # others may have one
        today, instead = _PRIVATE[name]
        verdict = Verdict(f"`{self.program.code(node)}`", status, today, instead)
        self.program.report(PRIVATE, node.attr, verdict, why_not=instead)
