"""What the program itself takes care of: a use that does not fail, a guard that is silent.

Keras 3's LossScaleOptimizer divides what `apply_gradients` gets by its scale. A program
that asks whether its optimizer has the old methods, and goes on where it has not, gives
it gradients of a loss that nobody has scaled: it trains wrong, without a word.
"""

import ast
from collections.abc import Iterator
from typing import Any

from tf_lso import names
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import FAILURES, METHOD, OTHER, Diagnostic
from tf_lso.source.guards import DEPENDS
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import UNSURE, WORKS, WRONG, Verdict
from tf_lso.source.scopes import Branch, Caught, Guard, Site
from tf_lso.source.syntax import last_name, listed, literal


class Care:
    """Says what takes care of the uses of one program."""

    def __init__(self, values: Inference) -> None:
        self._values = values
        calls = values.calls_of("tf_lso.install")
        top = (site.place for site in calls if not site.scope.function)
        self._installed = min(top, default=None)

    def use(
        self,
        site: Site,
        node: Any,
        kind: str,
        verdict: Verdict,
        value: Value | None = None,
        asked: str = "",
        rule: str = "",
    ) -> Diagnostic:
        """Return the use of a node, with what its guards add to the verdict.

        `value` is what is used, if that is known, and `asked` the attribute that a
        `hasattr` before it may have asked for. Without a `rule` the verdict tells it.
        """
        rule = rule or _rule_of(verdict, kind)
        status, guarded, why = verdict.status, False, ""
        if status in FAILURES:
            if reason := self._reason(site, verdict, value, asked):
                guarded, why = True, f" Not here: {reason}."
            elif value and not value.sure:
                status, why = UNSURE, " That this is TensorFlow is a guess."
            elif any(self._values.outcome(guard) == DEPENDS for guard in site.guards):
                status, why = UNSURE, " Whether this runs depends on a version."
        verdict = verdict.but(status, verdict.today + why)
        place = node.lineno, node.col_offset
        if kind in (METHOD, OTHER) and hasattr(node, "attr"):
            # It stands where the attribute's own name does.
            place = node.end_lineno, node.end_col_offset - len(node.attr.encode())
        return Diagnostic(rule, site.cell, *place, kind, guarded, verdict)

    def _reason(
        self, site: Site, verdict: Verdict, value: Value | None, asked: str
    ) -> str:
        """Return why the use does not fail, or ""."""
        for guard in site.guards:
            if isinstance(guard, Caught) and verdict.error in guard.errors:
                return "an except clause takes care of it"
            if self._values.outcome(guard) is False:
                return "these versions do not take this branch"
            if asked in map(literal, _asked(guard, "hasattr")):
                return "hasattr is asked first"
        if value and value.guarded:
            return "what it comes from is not bound on these versions"
        if self._installed and (site.scope.function or site.place > self._installed):
            return "tf_lso.install() comes first"
        return ""

    # --- Guards that pass over today's optimizer in silence.

    def passes_over(self, site: Site, name: str, asks: bool) -> bool:
        """Whether a guard leaves today's optimizer out where it lacks a method.

        That is one around a use of the method or, if `asks`, what the site asks for it.
        """
        # Where something calls `scale_loss`, gradients go to the optimizer as they are.
        program, (loss, _) = self._values.program, names.SCALING
        served, used = (program.words.get(word, ()) for word in ("scale_loss", loss))
        function = site.scope.function
        elsewhere = function in used and function not in served
        if name not in names.SCALING or (served and not (name == loss and elsewhere)):
            return False
        if asks:
            return id(site.node) not in program.loud
        return any(map(self._is_missed, site.guards))

    def _is_missed(self, guard: Guard) -> bool:
        if isinstance(guard, Caught):
            return not guard.raises and "AttributeError" in guard.errors
        # It asks for the old wrappers alone, and here none of them is bound. (One that is
        # gone and not guarded ends the program before the guard decides anything.)
        kinds = _asked(guard, "isinstance")
        values = [v for kind in kinds for v in self._values.values(kind, guard.scope)]
        return bool(values) and all(
            value.guarded
            and lookup.symbol(value.path) in names.OPTIMIZERS
            and not lookup.in_tf_keras(value.path)
            for value in values
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


def _rule_of(verdict: Verdict, kind: str) -> str:
    if kind == METHOD:
        return rules.SILENT if verdict.status == WRONG else rules.METHOD
    if verdict.status == UNSURE:
        return rules.UNSEEN if verdict.name.endswith("*") else rules.CHANGED
    if verdict.status == WORKS:
        return rules.SAME
    if verdict.replacement is None:
        return rules.NO_STAND_IN
    return rules.GONE if verdict.error else rules.CHANGED
