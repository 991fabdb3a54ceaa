"""What the program itself takes care of: a use that does not fail, a guard that is silent.

Keras 3's LossScaleOptimizer divides what `apply_gradients` gets by its scale. A program
that asks whether its optimizer has the old methods, and goes on where it has not, gives
it gradients of a loss that nobody has scaled: it trains wrong, without a word.
"""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from tf_lso import names
from tf_lso.source import lookup
from tf_lso.source.diagnostics import FAILURES, METHOD, OTHER, Diagnostic
from tf_lso.source.guards import DEPENDS
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import UNSURE, Verdict
from tf_lso.source.scopes import Branch, Caught, Guard, Loud, Site
from tf_lso.source.syntax import last_name, listed, literal
from tf_lso.source.values import Value


class Use(NamedTuple):
    """A use as a rule finds it: what happens where nothing takes care of it."""

    rule: str
    kind: str
    node: Any
    verdict: Verdict
    value: Value | None = None  # what is used, if that is known
    asked: str = ""  # the attribute that a `hasattr` before it may have asked for


def judged(values: Inference, site: Site, use: Use) -> Diagnostic:
    """Return a use with what its guards add to the verdict."""
    node, verdict = use.node, use.verdict
    status, guarded, why = verdict.status, False, ""
    if status in FAILURES:
        if reason := _reason(values, site, use):
            guarded, why = True, f" Not here: {reason}."
        elif use.value and not use.value.sure:
            status, why = UNSURE, " That this is TensorFlow is a guess."
        elif any(values.outcome(guard) == DEPENDS for guard in site.guards):
            status, why = UNSURE, " Whether this runs depends on a version."
    verdict = verdict.but(status, verdict.today + why)
    place = node.lineno, node.col_offset
    if use.kind in (METHOD, OTHER) and hasattr(node, "attr"):
        # It stands where the attribute's own name does.
        place = node.end_lineno, node.end_col_offset - len(node.attr.encode())
    return Diagnostic(use.rule, site.cell, *place, use.kind, guarded, verdict)


def _reason(values: Inference, site: Site, use: Use) -> str:
    """Return why the use does not fail, or ""."""
    for guard in site.guards:
        if isinstance(guard, Caught) and use.verdict.error in guard.errors:
            return "an except clause takes care of it"
        if values.outcome(guard) is False:
            return "these versions do not take this branch"
        if use.asked in map(literal, _asked(guard, "hasattr")):
            return "hasattr is asked first"
    if use.value and use.value.guarded:
        return "what it comes from is not bound on these versions"
    installed = values.installed
    if installed and (site.scope.function or site.place > installed):
        return "tf_lso.install() comes first"
    return ""


def passes_over(values: Inference, site: Site, name: str, asks: bool) -> bool:
    """Whether a guard leaves today's optimizer out where it lacks a method.

    That is one around a use of the method or, if `asks`, what the site asks for it.
    """
    # Where something calls `scale_loss`, gradients go to the optimizer as they are.
    words, (loss, _) = values.program.words, names.SCALING
    served, used = words.get("scale_loss", ()), words.get(loss, ())
    function = site.scope.function
    elsewhere = function in used and function not in served
    if name not in names.SCALING or (served and not (name == loss and elsewhere)):
        return False
    if asks:
        return not any(isinstance(guard, Loud) for guard in site.guards)
    return any(_is_missed(values, guard) for guard in site.guards)


def _is_missed(values: Inference, guard: Guard) -> bool:
    if isinstance(guard, Caught):
        return not guard.raises and "AttributeError" in guard.errors
    if not isinstance(guard, Branch):
        return False
    # It asks for the old wrappers alone, and here none of them is bound. (One that is gone
    # and not guarded ends the program before the guard decides anything.)
    kinds = _asked(guard, "isinstance")
    found = [v for kind in kinds for v in values.values(kind, guard.scope)]
    return bool(found) and all(
        value.guarded
        and lookup.symbol(value.path) in names.OPTIMIZERS
        and not lookup.in_tf_keras(value.path)
        for value in found
    )


def _asked(guard: Guard, function: str) -> Iterator[ast.expr]:
    """Yield what `hasattr` or `isinstance` asks for that holds at the guard."""
    match guard:
        case Branch(ast.UnaryOp(ast.Not(), part), scope, taken):
            yield from _asked(Branch(part, scope, not taken), function)
        case Branch(ast.BoolOp(op, parts), scope, taken):
            for part in parts if isinstance(op, ast.And) == taken else ():
                yield from _asked(Branch(part, scope, taken), function)
        case Branch(ast.Call(called, [_, asked]), _, True):
            if last_name(called) == function:
                yield from listed(asked)
