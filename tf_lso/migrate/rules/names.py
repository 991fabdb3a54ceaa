"""LSO101, LSO102, LSO103, LSO107: the names of the old API, by their qualified name."""

import libcst as cst

from tf_lso.migrate import guards, moves, verdicts
from tf_lso.migrate.findings import (
    CHANGED,
    GONE,
    LABELS,
    SAME,
    UNKNOWN,
    UNSEEN,
    UNSURE,
    WORKS,
    Verdict,
)
from tf_lso.migrate.nodes import imported_module
from tf_lso.migrate.program import Program

_SEVERAL = "It stands for one of several things, which have different new names."
_STORED = "It puts something of the program's own in the place of an old name."
_LAYOUT = "A comment or parentheses stand within the name."
_STAR = "Which names a star import brings cannot be seen; import them by name."
_TF_KERAS = (
    "tf_keras still has it, for its own optimizers. To move these too, write "
    "tf_lso.keras.mixed_precision for its module."
)
# Names that nothing but loss scaling has.
_DISTINCTIVE = {
    *("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3"),
    *("DynamicLossScale", "FixedLossScale", "MixedPrecisionLossScaleOptimizer"),
    *("enable_mixed_precision_graph_rewrite", "get_layer_policy"),
}
_RELATIVE = "It comes from another module of the program, which is not looked into."


def _rule(path: str, verdict: Verdict, program: Program) -> str:
    """Return the rule that a name belongs to."""
    if verdict.status == WORKS:
        return SAME
    if path.endswith("*") and verdict.status == UNSURE:
        return UNSEEN
    if not verdict.replacement:
        return UNKNOWN
    there = verdicts.is_there(path.removesuffix(".*"), program.target)
    return CHANGED if there else GONE


class Names(cst.BatchableCSTVisitor):
    """Finds imports of old names, and chains such as `tf.keras.mixed_precision.Policy`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._seen: set[cst.CSTNode] = set()  # attributes within a chain

    # --- Imports.

    def visit_Import(self, node: cst.Import) -> None:
        """Find `import tensorflow.keras.mixed_precision.experimental`."""
        for alias in node.names:
            self._import(node, alias, alias.evaluated_name)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        """Find `from tensorflow.keras.mixed_precision import Policy`."""
        module = imported_module(node)
        if isinstance(node.names, cst.ImportStar):
            if verdict := self.program.verdict(f"{module}.*", imported=True):
                rule = _rule(f"{module}.*", verdict, self.program)
                self.program.report(rule, node.names, verdict, why_not=_STAR)
            return
        for alias in node.names:
            name = alias.evaluated_name
            if module.startswith(".") and name in _DISTINCTIVE:
                verdict = Verdict(name, UNSURE, "Where it comes from decides.")
                self.program.report(UNSEEN, alias, verdict, why_not=_RELATIVE)
            self._import(node, alias, f"{module}.{name}")

    def _import(self, node: cst.CSTNode, alias: cst.ImportAlias, path: str) -> None:
        verdict = self.program.verdict(path, imported=True)
        if verdict is None:
            return
        found = self.program.report(_rule(path, verdict, self.program), alias, verdict)
        if why := _kept(path, verdict):
            found.why_not = why
            found.guarded = bool(guards.guard(self.program, node))
        elif verdict.replacement and not moves.is_guarded(self.program, found, node):
            found.fix = verdict.replacement
            found.moved = {alias: verdict.replacement}

    # --- Chains of attributes.

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Find the longest part of a chain that is an old name or module."""
        if node in self._seen:
            return
        part: cst.BaseExpression = node
        while isinstance(part, cst.Attribute):
            self._seen.add(part)
            paths = self.program.paths(part)
            is_name = paths and not part.attr.value.startswith("__")
            if is_name and all(map(verdicts.is_old, paths)):
                self._use(part, sorted(paths))
                break
            part = part.value
        while isinstance(part, cst.Attribute):
            self._seen.add(part)
            part = part.value

    def _use(self, node: cst.Attribute, paths: list[str]) -> None:
        statuses = list(LABELS)
        known = {
            path: verdict for path in paths if (verdict := self.program.verdict(path))
        }
        if len(known) < len(paths):
            return

        def rank(path: str) -> tuple[bool, int]:
            verdict = known[path]
            return verdict.replacement is None, statuses.index(verdict.status)

        path = min(known, key=rank)
        verdict = known[path]
        rule = _rule(path, verdict, self.program)
        found = self.program.report(rule, node, verdict)
        if why := self._why_not(node, path, list(known.values())):
            found.leave(why)
            found.guarded = bool(guards.guard(self.program, node))
            if why == _SEVERAL:
                moves.binding_is_guarded(self.program, found, node)
        else:
            moves.fix(self.program, found, node)

    def _why_not(self, node: cst.Attribute, path: str, found: list[Verdict]) -> str:
        """Return why a chain is not replaced, or ""."""
        if isinstance(self.program.parent(node), (cst.AssignTarget, cst.Del)):
            return _STORED
        kinds = {(one.replacement, one.name.partition(".")[0]) for one in found}
        if len(kinds) > 1:
            return _SEVERAL
        text = self.program.code(node.with_changes(lpar=(), rpar=()))
        layout = _LAYOUT if "#" in text or "(" in text else ""
        return _kept(path, found[0]) or layout


def _kept(path: str, verdict: Verdict) -> str:
    """Return why a name has no other name that is certain, or ""."""
    if verdicts.in_tf_keras(path) and verdict.status == WORKS:
        return _TF_KERAS
    if not verdict.replacement and verdict.status != WORKS:
        return verdict.tf_lso
    return ""
