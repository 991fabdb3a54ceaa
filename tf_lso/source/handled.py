"""Whether the program itself keeps a use from making it fail."""

import ast
import dataclasses

from tf_lso.source import branches
from tf_lso.source.diagnostics import FAILURES
from tf_lso.source.guards import Branch, Caught, Guard, asked_for
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import UNSURE, Verdict
from tf_lso.source.scopes import FUNCTION, Program, Site

_INSTALL = "tf_lso.install"


class Care:
    """Says what takes care of the uses of one program."""

    def __init__(self, program: Program, values: Inference) -> None:
        self._values = values
        self._installed = min(
            (
                site.place
                for site in program.sites
                if isinstance(site.node, ast.Call)
                and not site.scope.enclosing(FUNCTION)
                and any(
                    value.path == _INSTALL and not value.instance
                    for value in values.values(site.node.func, site.scope)
                )
            ),
            default=None,
        )

    def of(
        self, site: Site, verdict: Verdict, value: Value | None, asked: str
    ) -> tuple[Verdict, bool]:
        """Return the verdict, with what the guard adds, and whether the use is guarded.

        `value` is what is used, if that is known, and `asked` the attribute that a
        `hasattr` before it may have asked for.
        """
        if verdict.status not in FAILURES:
            return verdict, False
        reason = self._reason(site, verdict, value, asked)
        if reason:
            return _add(verdict, f"Not here: {reason}."), True
        if value and not value.sure:
            return _add(verdict, "That this is TensorFlow is a guess.", UNSURE), False
        if any(self._depends(guard) for guard in site.guards):
            why = "Whether this runs depends on a version."
            return _add(verdict, why, UNSURE), False
        return verdict, False

    def _reason(
        self, site: Site, verdict: Verdict, value: Value | None, asked: str
    ) -> str:
        """Return why the use does not fail, or ""."""
        for guard in site.guards:
            if isinstance(guard, Caught):
                if verdict.error and guard.catches(verdict.error):
                    return "an except clause takes care of it"
            elif self._values.is_dead(guard):
                return "these versions do not take this branch"
            elif isinstance(guard, Branch) and asked in asked_for(guard):
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
        found = branches.outcome(guard.test, guard.scope, self._values)
        return found == branches.DEPENDS


def _add(verdict: Verdict, sentence: str, status: str | None = None) -> Verdict:
    today = f"{verdict.today} {sentence}"
    return dataclasses.replace(verdict, status=status or verdict.status, today=today)
