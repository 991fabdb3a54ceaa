"""LSO105, LSO106: methods that only the old optimizer has, and guards that ask for them."""

import libcst as cst

from tf_lso import names
from tf_lso.migrate import guards
from tf_lso.migrate.findings import (
    BREAKS,
    METHOD,
    SILENT,
    UNSURE,
    WORKS,
    WRONG,
    Verdict,
)
from tf_lso.migrate.nodes import literal
from tf_lso.migrate.program import OF_COPY, Program

# A file that imports one of these, but not TensorFlow, has that library's optimizers.
_OTHERS = frozenset(
    "torch apex deepspeed fairseq pytorch_lightning lightning jax flax optax mindspore "
    "mxnet oneflow paddle chainer".split()
)
_FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras", "tf_lso"})
_ELSEWHERE = (
    "Nothing in this file makes the optimizer. Migrate the file that wraps it, compiles "
    "it or sets the policy, or call tf_lso.install() at the top of the program."
)
BARE = (
    "The optimizers of tf_lso have it, also around any Keras 3 optimizer; a bare Keras 3 "
    "optimizer has not. Write `learning_rate` there."
)
_SILENT = (
    "Trains wrong, silently: Keras 3's LossScaleOptimizer has no {name}, so the guard "
    "leaves it out. The loss is not scaled, and the gradients are divided by the scale "
    "all the same."
)


class Methods(cst.BatchableCSTVisitor):
    """Finds `get_scaled_loss` and others on any object, and what asks for them."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Find `optimizer.get_scaled_loss`."""
        name = node.attr.value
        if name not in names.METHODS or not self._is_use(node, name):
            return
        verdict = _verdict(name)
        if self.program.target.keras_2:
            verdict = _on_keras_2(name)
        elif self.program.is_of_copy:
            verdict = Verdict(verdict.name, WORKS, OF_COPY, verdict.tf_lso)
        elif verdict.status == BREAKS and self._may_be_another(name):
            why = " Another class of this file, or tf_keras, may have it."
            verdict = Verdict(verdict.name, UNSURE, verdict.today + why, verdict.tf_lso)
        found = self.program.report(METHOD, node.attr, verdict)
        if verdict.status == WORKS:
            return
        found.why_not = BARE if name == "_decayed_lr" else _ELSEWHERE
        found.guarded = bool(guards.guard(self.program, node))
        if found.guarded and self._is_served():
            found.why_not = ""  # another branch is for Keras 3
        elif found.guarded and self._is_silent(name) and self._is_missed(node):
            found.rule, found.guarded = SILENT, False
            found.now(WRONG, _SILENT.format(name=name))
            found.needs_install = f"a guard that asks for `{name}`"

    def visit_Call(self, node: cst.Call) -> None:
        """Find `hasattr(optimizer, "get_scaled_loss")`."""
        name = self._asked(node)
        if not name or self.program.target.keras_2 or not self._is_silent(name):
            return
        if guards.raises(self.program, node):
            return
        does = "Its optimizers have it, so the guard finds it."
        current = names.METHODS[name].current
        verdict = Verdict(
            f"LossScaleOptimizer.{name}",
            WRONG,
            _SILENT.format(name=name),
            does,
            current,
        )
        found = self.program.report(SILENT, node, verdict, why_not=_ELSEWHERE)
        found.needs_install = f"a guard that asks for `{name}`"

    def _asked(self, node: cst.Call) -> str:
        """Return the scaling method that `hasattr`, or `getattr` with a default, asks for."""
        if not isinstance(node.func, cst.Name):
            return ""
        needed = {"hasattr": 2, "getattr": 3}.get(node.func.value)
        if needed is None or len(node.args) < needed:
            return ""
        name = literal(node.args[1].value)
        return name if name in names.SCALING else ""

    def _is_silent(self, name: str) -> bool:
        """Whether a program that lacks a method goes on with unscaled gradients."""
        if name not in names.SCALING or name in self.program.facts.defined:
            return False
        return not self._is_served() and self._has_tensorflow()

    def _is_served(self) -> bool:
        """Whether the program has a branch for Keras 3's optimizer."""
        return "scale_loss" in self.program.facts.words | self.program.facts.defined

    def _is_missed(self, node: cst.CSTNode) -> bool:
        """Whether an `except` clause goes on where the method is missing."""
        for _, parent in self.program.parents(node):
            if isinstance(parent, cst.Try):
                return not any(guards.ends(handler) for handler in parent.handlers)
        return False

    def _is_use(self, node: cst.Attribute, name: str) -> bool:
        program, seen = self.program, names.METHODS[name].seen
        if isinstance(program.parent(node), (cst.AssignTarget, cst.Del)):
            return False
        called = program.is_called(node)
        if seen != names.ANYWHERE and not (seen == names.CALLED and called):
            return False
        if _is_self(node.value) and name in program.facts.defined:
            return False
        if seen == names.CALLED and not _FRAMEWORKS & program.packages:
            return False
        return self._has_tensorflow()

    def _has_tensorflow(self) -> bool:
        packages = self.program.packages
        return bool(packages & _FRAMEWORKS) or not packages & _OTHERS

    def _may_be_another(self, name: str) -> bool:
        return name in self.program.facts.defined or "tf_keras" in self.program.packages


def _is_self(node: cst.CSTNode) -> bool:
    """Whether an object is `self`, `cls` or `super()`."""
    if isinstance(node, cst.Call):
        node = node.func
    return isinstance(node, cst.Name) and node.value in ("self", "cls", "super")


def _verdict(name: str) -> Verdict:
    method = names.METHODS[name]
    full, current = f"LossScaleOptimizer.{name}", method.current
    if not method.breaks:
        today = "Works: Keras 3's LossScaleOptimizer has it, too."
        return Verdict(full, WORKS, today, method.does, current)
    return Verdict(full, BREAKS, method.breaks.format(name), method.does, current)


def _on_keras_2(name: str) -> Verdict:
    method = names.METHODS[name]
    full = f"LossScaleOptimizer.{name}"
    if not method.callable:
        today = "TypeError: The stable class of Keras 2 has it as a tensor."
        return Verdict(full, BREAKS, today, method.does)
    return Verdict(full, WORKS, "Works as it did.", method.does)
