"""What the program itself takes care of: a use that does not fail, a guard that is silent.

Keras 3's LossScaleOptimizer divides what `apply_gradients` gets by its scale. A program
that asks whether its optimizer has the old methods, and goes on where it has not, gives
it gradients of a loss that nobody has scaled: it trains wrong, without a word.
"""

from typing import Any

from tf_lso import names
from tf_lso.source import lookup
from tf_lso.source.diagnostics import FAILURES, METHOD, OTHER, Use
from tf_lso.source.guards import DEPENDS, asked_for, outcome
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import UNSURE, WRONG, Verdict
from tf_lso.source.scopes import FUNCTION, Branch, Caught, Guard, Site
from tf_lso.source.syntax import literal

_LOSS, _GRADIENTS = names.SCALING


class Care:
    """Says what takes care of the uses of one program."""

    def __init__(self, values: Inference) -> None:
        self._values = values
        self._program = values.program
        calls = values.calls_of("tf_lso.install")
        top = (site.place for site in calls if not site.scope.enclosing(FUNCTION))
        self._installed = min(top, default=None)

    def use(
        self,
        site: Site,
        node: Any,
        kind: str,
        rule: str,
        verdict: Verdict,
        value: Value | None = None,
        asked: str = "",
    ) -> Use:
        """Return the use of a node, with what its guards add to the verdict.

        `value` is what is used, if that is known, and `asked` the attribute that a
        `hasattr` before it may have asked for.
        """
        status, guarded, why = verdict.status, False, ""
        if status in FAILURES:
            if reason := self._reason(site, verdict, value, asked):
                guarded, why = True, f" Not here: {reason}."
            elif value and not value.sure:
                status, why = UNSURE, " That this is TensorFlow is a guess."
            elif any(map(self._depends, site.guards)):
                status, why = UNSURE, " Whether this runs depends on a version."
        verdict = verdict.but(status, verdict.today + why)
        place = node.lineno, node.col_offset
        if kind in (METHOD, OTHER) and hasattr(node, "attr"):
            # It stands where the attribute's own name does.
            place = node.end_lineno, node.end_col_offset - len(node.attr.encode())
        return Use(rule, site.cell, *place, kind, guarded, verdict)

    def _reason(
        self, site: Site, verdict: Verdict, value: Value | None, asked: str
    ) -> str:
        """Return why the use does not fail, or ""."""
        for guard in site.guards:
            if isinstance(guard, Caught):
                if verdict.error in guard.errors:
                    return "an except clause takes care of it"
            elif self._values.is_dead(guard):
                return "these versions do not take this branch"
            elif asked in (literal(n) for n, _ in asked_for(guard, "hasattr")):
                return "hasattr is asked first"
        if value and value.guarded:
            return "what it comes from is not bound on these versions"
        if self._installed and (
            site.scope.enclosing(FUNCTION) or site.place > self._installed
        ):
            return "tf_lso.install() comes first"
        return ""

    def _depends(self, guard: Guard) -> bool:
        if not isinstance(guard, Branch):
            return False
        return outcome(guard.test, guard.scope, self._values) == DEPENDS

    # --- Guards that pass over today's optimizer in silence.

    def asks(self, site: Site, name: str) -> bool:
        """Whether asking for the method there leaves today's optimizer unserved."""
        loud = id(site.node) in self._program.loud
        return not loud and self._unserved(site, name)

    def passes_over(self, site: Site, name: str) -> bool:
        """Whether guards around a use of the method do, other than by asking for it."""
        return self._unserved(site, name) and any(map(self._is_missed, site.guards))

    def _is_missed(self, guard: Guard) -> bool:
        if isinstance(guard, Caught):
            return not guard.raises and "AttributeError" in guard.errors
        # It asks for the old wrappers alone, and here none of them is bound. (One that is
        # gone and not guarded ends the program before the guard decides anything.)
        kinds = asked_for(guard, "isinstance")
        values = [v for kind in kinds for v in self._values.values(*kind)]
        return bool(values) and all(
            value.guarded
            and lookup.symbol(value.path) in names.OPTIMIZERS
            and not lookup.in_tf_keras(value.path)
            for value in values
        )

    def _unserved(self, site: Site, name: str) -> bool:
        """Whether nothing calls `scale_loss` where the old method is missing.

        Where it is called, gradients go to the optimizer as they are.
        """
        words = self._program.words
        served, used = words.get("scale_loss", set()), words.get(_LOSS, set())
        function = site.scope.enclosing(FUNCTION)
        elsewhere = function in used and function not in served
        return name in names.SCALING and (not served or (name == _LOSS and elsewhere))


def silent(verdict: Verdict) -> Verdict:
    """Return the verdict on a guarded method where today's optimizer is passed over."""
    return verdict.but(
        WRONG,
        "Trains wrong, silently: Keras 3's LossScaleOptimizer has no "
        f"{verdict.name.rpartition('.')[2]}, so the guard leaves it out. The loss is not "
        "scaled, and the gradients are divided by the scale all the same.",
        tf_lso="Its optimizers have it, so the guard finds it: under tf-lso run or "
        "tf_lso.install(), or where tf_lso wraps them.",
        error="",
    )
