"""Rules LSO101, LSO102, LSO103, LSO108: find imports and uses of old names."""

import libcst as cst

from tf_lso.migrate import moves, verdicts
from tf_lso.migrate.findings import (
    CHANGED,
    GONE,
    SAME,
    UNSEEN,
    UNSURE,
    WORKS,
    Verdict,
)
from tf_lso.migrate.nodes import imported_module
from tf_lso.migrate.program import Program

_STORED = "The program assigns something of its own to an old name."
_LAYOUT = "There is a comment or there are parentheses inside the name."
_STAR = "A star import does not show which names it binds. Import them by name."
_TF_KERAS = "To move this use too, replace its module by tf_lso.keras.mixed_precision."
# Names that concern loss scaling, whichever module a program imports them from.
DISTINCTIVE = {
    *("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3"),
    *("DynamicLossScale", "FixedLossScale", "MixedPrecisionLossScaleOptimizer"),
    *("enable_mixed_precision_graph_rewrite", "get_layer_policy"),
}
_DECIDES = "It depends on where the name comes from."
_RELATIVE = "It comes from another module of the program, which is not read for this."


def find(program: Program) -> None:
    """Find imports and uses of old names, such as `tf.keras.mixed_precision.Policy`."""
    for star in program.nodes(cst.ImportStar):
        _star(program, star)
    for alias in program.nodes(cst.ImportAlias):
        _import(program, alias)
    for parts in program.chains():
        for part in parts:
            path = program.path(part)
            if verdicts.is_old(path):
                _use(program, part, path)
                break


def _star(program: Program, node: cst.ImportStar) -> None:
    """Report a star import such as `from tensorflow.keras.mixed_precision import *`."""
    module = imported_module(cst.ensure_type(program.parent(node), cst.ImportFrom))
    if verdict := verdicts.of_path(f"{module}.*", True, program.target):
        rule = UNSEEN if verdict.status == UNSURE else GONE
        program.report(rule, node, verdict, _STAR)


def _import(program: Program, alias: cst.ImportAlias) -> None:
    """Report an imported name that is old, and set the fix if there is one."""
    path = program.imported_path(alias)
    if path.startswith(".") and alias.evaluated_name in DISTINCTIVE:
        verdict = Verdict(alias.evaluated_name, UNSURE, _DECIDES)
        program.report(UNSEEN, alias, verdict, _RELATIVE)
    known = verdicts.of_path(path, True, program.target)
    if known is None:
        return
    found = program.report(_rule(program, path, known), alias, known)
    if verdicts.in_tf_keras(path) and known.status == WORKS:
        found.why_not = _TF_KERAS
    else:
        found.fix = known.replacement
        found.edits = {alias: known.replacement}


def _rule(program: Program, path: str, verdict: Verdict) -> str:
    if verdict.status == WORKS:
        return SAME
    return CHANGED if verdicts.is_there(path, program.target) else GONE


def _use(program: Program, node: cst.Attribute, path: str) -> None:
    """Report a chain of attributes that is an old name, and set the fix if there is one."""
    verdict = verdicts.of_path(path, False, program.target)
    if verdict is None:
        return
    found = program.report(_rule(program, path, verdict), node, verdict)
    found.why_not = _why_not(program, node, path, verdict)
    if not found.why_not:
        moves.fix(program, found, node)


def _why_not(program: Program, node: cst.Attribute, path: str, verdict: Verdict) -> str:
    """Return why `migrate` does not replace a chain of attributes, or "" if it does."""
    if program.is_stored(node):
        return _STORED
    if verdicts.in_tf_keras(path) and verdict.status == WORKS:
        return _TF_KERAS
    text = program.code(node.with_changes(lpar=(), rpar=()))
    return _LAYOUT if "#" in text or "(" in text else ""
