"""What the program itself takes care of: a use that does not fail, a guard that is silent.

Keras 3's LossScaleOptimizer divides what `apply_gradients` gets by its scale. A program
that asks whether its optimizer has the old methods, and goes on where it has not, gives
it gradients of a loss that nobody has scaled: it trains wrong, without a word.
"""

import ast
import dataclasses
from collections.abc import Iterator

from tf_lso import names
from tf_lso.source import branches, lookup
from tf_lso.source.diagnostics import FAILURES
from tf_lso.source.guards import Branch, Caught, Guard, asked_for, types_asked_for
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import UNSURE, WRONG, Verdict
from tf_lso.source.scopes import CLASS, FUNCTION, Scope, Site
from tf_lso.source.syntax import chain_of, literal

_LOSS, _GRADIENTS = names.SCALING
_SCALE_LOSS = "scale_loss"


class Care:
    """Says what takes care of the uses of one program."""

    def __init__(self, values: Inference) -> None:
        self._values = values
        self._installed = min(
            (
                site.place
                for site in values.calls_of("tf_lso.install")
                if not site.scope.enclosing(FUNCTION)
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
        if reason := self._reason(site, verdict, value, asked):
            return _add(verdict, f"Not here: {reason}."), True
        if value and not value.sure:
            return _add(verdict, "That this is TensorFlow is a guess.", UNSURE), False
        if any(map(self._depends, site.guards)):
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


def silent(verdict: Verdict) -> Verdict:
    """Return the verdict on a guarded method where today's optimizer is passed over."""
    return dataclasses.replace(
        verdict,
        status=WRONG,
        today="Trains wrong, silently: Keras 3's LossScaleOptimizer has no "
        f"{verdict.name.rpartition('.')[2]}, so the guard leaves it out. The loss is not "
        "scaled, and the gradients are divided by the scale all the same.",
        tf_lso="Its optimizers have it, so the guard finds it: under tf-lso run or "
        "tf_lso.install(), or where tf_lso wraps them.",
        error="",
    )


class Silent:
    """Answers which guards of a program pass over today's optimizer in silence."""

    def __init__(self, values: Inference) -> None:
        self._program = values.program
        self._values = values
        self._users: dict[str, set[Scope]] = {_SCALE_LOSS: set(), _LOSS: set()}
        for site in self._program.sites:
            for name in self._users.keys() & set(_attributes(site.node)):
                self._users[name].add(_outermost(site.scope))

    def asks(self, site: Site, name: str) -> bool:
        """Whether asking for the method there leaves today's optimizer unserved."""
        loud = id(site.node) in self._program.loud
        return name in names.SCALING and not (loud or self._serves_keras_3(site, name))

    def passes_over(self, site: Site, name: str) -> bool:
        """Whether guards around a use of the method do, other than by asking for it."""
        missed = name in names.SCALING and any(map(self._is_missed, site.guards))
        return missed and not self._serves_keras_3(site, name)

    def _is_missed(self, guard: Guard) -> bool:
        if isinstance(guard, Caught):
            return not guard.raises and guard.catches("AttributeError")
        if not isinstance(guard, Branch):
            return False
        # It asks for the old wrappers alone, and here none of them is bound. (One that is
        # gone and not guarded ends the program before the guard decides anything.)
        kinds = types_asked_for(guard)
        values = [v for kind in kinds for v in self._values.values(kind, guard.scope)]
        return bool(values) and all(
            value.guarded
            and lookup.symbol(value.path) in names.OPTIMIZERS
            and not lookup.in_tf_keras(value.path)
            for value in values
        )

    def _serves_keras_3(self, site: Site, name: str) -> bool:
        """Whether the program scales by `scale_loss` where the old method is missing.

        Then gradients go to the optimizer as they are.
        """
        served = self._users[_SCALE_LOSS]
        if name == _GRADIENTS or not served:
            return bool(served)
        function = _outermost(site.scope)
        return function in served or function not in self._users[_LOSS]


def _outermost(scope: Scope) -> Scope:
    """Return the outermost function around a scope, below classes, or the module."""
    outermost = None
    for inner in scope.outwards():
        if inner.kind == CLASS and outermost:
            break
        if inner.kind == FUNCTION or not (inner.parent or outermost):
            outermost = inner
    return outermost or scope


def _attributes(node: ast.AST) -> Iterator[str]:
    """Yield the names of attributes that a node reads, also by `getattr`."""
    yield from (part.attr for part in chain_of(node))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        yield from filter(None, map(literal, node.args[1:2]))
