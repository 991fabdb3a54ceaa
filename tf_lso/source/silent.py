"""Guards that let today's program train wrong, without a word.

Keras 3's LossScaleOptimizer divides what `apply_gradients` gets by its scale. A program
that asks whether its optimizer has the old methods, and goes on where it has not, gives
it gradients of a loss that nobody has scaled.
"""

import ast
import dataclasses
from collections.abc import Iterator

from tf_lso import names
from tf_lso.source import lookup
from tf_lso.source.guards import Branch, Caught, Guard, types_asked_for
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import WRONG, Verdict
from tf_lso.source.scopes import CLASS, FUNCTION, Program, Scope, Site

_LOSS, _GRADIENTS = names.SCALING
_SCALE_LOSS = "scale_loss"


def verdict_of(verdict: Verdict) -> Verdict:
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

    def __init__(self, program: Program, values: Inference) -> None:
        self._program = program
        self._values = values
        self._target = values.target
        self._users: dict[str, set[Scope]] = {_SCALE_LOSS: set(), _LOSS: set()}
        for site in program.sites:
            for name in _attributes(site.node):
                if name in self._users:
                    self._users[name].add(_outermost(site.scope))

    def asks(self, site: Site, name: str) -> bool:
        """Whether asking for the method there leaves today's optimizer unserved."""
        return (
            name in names.SCALING
            and id(site.node) not in self._program.loud
            and not self._serves_keras_3(site, name)
        )

    def passes_over(self, site: Site, name: str) -> bool:
        """Whether guards around a use of the method do, other than by asking for it."""
        return (
            name in names.SCALING
            and any(map(self._is_missed, site.guards))
            and not self._serves_keras_3(site, name)
        )

    def _is_missed(self, guard: Guard) -> bool:
        if isinstance(guard, Caught):
            return not guard.raises and guard.catches("AttributeError")
        if not isinstance(guard, Branch):
            return False
        kinds = types_asked_for(guard)
        values = [v for kind in kinds for v in self._values.values(kind, guard.scope)]
        fails = any(
            not (value.guarded or value.path.startswith("tf_lso."))
            and not lookup.is_there(value.path, self._target)
            for value in values
        )
        # A class that is gone ends the program before the guard decides anything.
        return bool(values) and not fails and not any(map(self._is_served, values))

    def _is_served(self, value: Value) -> bool:
        """Whether the class has today's optimizers, or is none of the old wrappers."""
        return (
            lookup.symbol(value.path) not in names.OPTIMIZERS
            or value.path.startswith("tf_lso.")
            or lookup.in_tf_keras(value.path)
            or (not value.guarded and lookup.is_there(value.path, self._target))
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
    if isinstance(node, ast.Attribute):
        while isinstance(node, ast.Attribute):
            yield node.attr
            node = node.value
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        for argument in node.args[1:2]:
            if isinstance(argument, ast.Constant):
                yield str(argument.value)
