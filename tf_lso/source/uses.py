"""Decides what to report at each place of a program."""

import ast
from collections.abc import Iterator
from typing import Any

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_COPY_BREAKS
from tf_lso.source import diagnostics, forms, lookup, methods, rules, syntax, wider
from tf_lso.source.diagnostics import ATTRIBUTE, IMPORT, Diagnostic
from tf_lso.source.guarded import Care
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.source.scopes import Place, Site
from tf_lso.source.syntax import chain_of, imported_paths, last_name, literal

_SCOPES = ("custom_object_scope", "CustomObjectScope")
# Words of programs that scale losses themselves, or train on several replicas.
_SCALES = {"distribute", "strategy", "LossScaleOptimizer", *names.SCALING}
# Names in saved models that `custom_objects` may give a class for.
_SAVED = {*names.OPTIMIZERS, *names.NAMESPACES["keras.mixed_precision"]}


def uses(
    values: Inference, strict: bool = False
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the uses of the old API in a program, one per position, in order.

    What is more than a name counts beside a name that is not as it was; if `strict`,
    beside any. All uses of that kind are returned a second time, by themselves.
    """
    care = Care(values)
    each = _Rules(values, care)
    found = [use for site in values.program.sites for use in each.of(site)]
    counts = any(
        strict or not (use.guarded or use.verdict.status == WORKS) for use in found
    )
    more = wider.uses(values, care, counts)
    best: dict[Place, Diagnostic] = {}
    for use in sorted([*found, *more], key=lambda use: (use.place, use.rank())):
        best.setdefault(use.place, use)
    return list(best.values()), more


class _Rules:
    """The rules about names, calls and methods, for sites in the order of the program."""

    def __init__(self, values: Inference, care: Care) -> None:
        self.values, self.care = values, care
        self.program, self.target = values.program, values.target
        self.fails_first = False  # whether an import at the top fails, unguarded
        self.scales = not _SCALES.isdisjoint(values.program.words)

    def of(self, site: Site) -> Iterator[Diagnostic]:
        """Yield the uses at a site."""
        node, scope, values = site.node, site.scope, self.values
        match node:
            case ast.Import() | ast.ImportFrom():
                for alias, path in zip(node.names, imported_paths(node)):
                    how = lookup.how_of(node)
                    for use in self._name(site, alias, Value(path), IMPORT, how):
                        fails = use.fails and use.verdict.error and not scope.parent
                        self.fails_first |= bool(fails)
                        yield use
            case ast.Attribute():
                for part in chain_of(node):
                    if not isinstance(part.ctx, ast.Load):
                        continue
                    alone = part is node and id(part) not in self.program.quiet
                    call = self.program.calls.get(id(part))
                    for value in values.values(part, scope):
                        if lookup.is_name(value.path) or (alone and not value.instance):
                            yield from self._name(site, part, value, call=call)
                    if part.attr in names.METHODS:
                        yield from self._method(site, part, part)
            case ast.Call(func, args):
                for value in values.values(func, scope):
                    if value.path in (syntax.GETATTR, syntax.HASATTR) and len(args) > 1:
                        asks = value.path == syntax.HASATTR or len(args) > 2
                        yield from self._getattr(site, args[0], literal(args[1]), asks)
                    elif value.path in syntax.IMPORTS and args:
                        named, how = Value(literal(args[0]) or ""), lookup.IMPORT
                        yield from self._name(site, node, named, IMPORT, how)
                    elif isinstance(func, ast.Name) and value.named:
                        yield from self._name(
                            site, node, value, diagnostics.CONSTRUCTOR, call=node
                        )
                yield from self._custom_objects(site)

    # --- Names, and what the arguments of their calls add.

    def _name(
        self,
        site: Site,
        node: Any,
        value: Value,
        kind: str = ATTRIBUTE,
        how: str = lookup.ACCESS,
        call: ast.Call | None = None,
        asks: bool = False,
        computed: bool = False,
    ) -> Iterator[Diagnostic]:
        """Yield the use of a name or module, if it is one of the old API.

        It may be called or only asked for, or only a run tells which of its names is
        meant: it is computed.
        """
        verdict, rule = lookup.of_path(value.path, how, self.target), ""
        if verdict is None:
            return
        if computed:
            rule = rules.UNSEEN
            if verdict.status == WORKS:
                today = "Which name this asks for is known only when it runs."
                verdict = verdict.but(UNSURE, today, name=f"{verdict.name}.*")
        elif asks:
            verdict = _asked(verdict)
        elif call:
            form = forms.of_call(verdict, value.path, call, site.scope, self.values)
            rule = rules.ARGUMENTS if form and form.status == BREAKS else ""
            verdict = form or verdict
        elif id(node) in self.program.type_tests:
            if lookup.is_own(value.path, self.target):
                keras = 2 if self.target.has_keras_2(value.path) else 3
                today = f"The test works: it is true of Keras {keras}'s own class."
                does = "Its optimizers pass the test, too."
                verdict = verdict.but(WORKS, today, tf_lso=does)
        # Where a name is imported, it is told of without its arguments.
        if rule or kind != diagnostics.CONSTRUCTOR:
            verdict = self._judged(value.path, verdict)
            yield self.care.use(site, node, kind, verdict, value, rule=rule)

    def _getattr(
        self, site: Site, owner: ast.expr, name: str | None, asks: bool
    ) -> Iterator[Diagnostic]:
        if name is None:
            for value in self.values.values(owner, site.scope):
                if value.path in lookup.MODULES and not value.instance:
                    yield from self._name(site, site.node, value, computed=True)
            return
        node = ast.Attribute(owner, name, ast.Load())
        for value in self.values.values(node, site.scope):
            yield from self._name(site, site.node, value, asks=asks)
        if name in names.METHODS and names.METHODS[name].seen == names.ANYWHERE:
            yield from self._method(site, site.node, node, asks)

    def _judged(self, path: str, verdict: Verdict) -> Verdict:
        """Return the verdict on a path in this program; a policy alone breaks nothing."""
        if verdict.today == KERAS_COPY_BREAKS and self.values.copy_only:
            today = "Works: what else the file takes of Keras is of the same copy."
            return verdict.but(WORKS, today)
        breaks = verdict.status == BREAKS and not verdict.error
        if lookup.symbol(path) != "set_global_policy" or not breaks or self.scales:
            return verdict
        today = f"It works where nothing trains, or on one replica. {verdict.today}"
        return verdict.but(UNSURE, today)

    def _custom_objects(self, site: Site) -> Iterator[Diagnostic]:
        call = site.node
        given = [k.value for k in call.keywords if k.arg == "custom_objects"]
        given += call.args if last_name(call.func) in _SCOPES else []
        dicts = (node for node in given if isinstance(node, ast.Dict))
        for key, value in (pair for d in dicts for pair in zip(d.keys, d.values)):
            name = literal(key)
            # An old name as the value is told of by itself.
            if name in _SAVED and not self.values.values(value, site.scope):
                today = "The name in a saved model stands for what is given here."
                spelled = f"keras.mixed_precision.{name}"
                does = f"tf_lso.{spelled} can be given, too."
                verdict = Verdict(f"tf.{spelled}", WORKS, today, does)
                yield self.care.use(site, key, diagnostics.NOTE, verdict)

    # --- Methods of optimizers.

    def _method(
        self, site: Site, at: ast.expr, node: ast.Attribute, asks: bool = False
    ) -> Iterator[Diagnostic]:
        """Yield the use of a method at a node; `asks` says whether it is asked for.

        A guard that passes over it in silence counts in a program that gets that far.
        """
        if verdict := methods.of_access(node, site, self.values):
            reached = verdict.status == BREAKS and not self.fails_first
            if reached and self.care.passes_over(site, node.attr, asks):
                verdict = _silent(verdict, node.attr)
            verdict, asked = (_asked(verdict), "") if asks else (verdict, node.attr)
            yield self.care.use(site, at, diagnostics.METHOD, verdict, asked=asked)


def _silent(verdict: Verdict, name: str) -> Verdict:
    """Return the verdict on a guarded method where today's optimizer is passed over."""
    return verdict.but(
        lookup.WRONG,
        f"Trains wrong, silently: Keras 3's LossScaleOptimizer has no {name}, so the "
        "guard leaves it out. The loss is not scaled, and the gradients are divided by "
        "the scale all the same.",
        tf_lso="Its optimizers have it, so the guard finds it: under tf-lso run or "
        "tf_lso.install(), or where tf_lso wraps them.",
        error="",
    )


def _asked(verdict: Verdict) -> Verdict:
    """Return the verdict of a name that hasattr or a getattr with default asks for."""
    if verdict.status != BREAKS:
        return verdict
    today = "Asking works."
    if verdict.error:
        today += f" The answer is no: {verdict.today.partition(': ')[2]}"
    return verdict.but(WORKS, today, error="")
