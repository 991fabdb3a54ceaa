"""Decides what to report at each place of a program."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_COPY_BREAKS
from tf_lso.source import forms, lookup, methods, rules, wider
from tf_lso.source.diagnostics import (
    ATTRIBUTE,
    CONSTRUCTOR,
    IMPORT,
    METHOD,
    NOTE,
    Diagnostic,
)
from tf_lso.source.guarded import Care
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.source.scopes import Place, Site
from tf_lso.source.syntax import (
    GETATTR,
    HASATTR,
    IMPORTS,
    chain_of,
    imported_paths,
    last_name,
    literal,
)

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
    found = list(_Rules(values, care).all())
    counts = any(
        strict or not (use.guarded or use.verdict.status == WORKS) for use in found
    )
    more = wider.uses(values, care, counts)
    best: dict[Place, Diagnostic] = {}
    for use in sorted([*found, *more], key=lambda use: (use.place, use.rank())):
        best.setdefault(use.place, use)
    return list(best.values()), more


class _Rules:
    def __init__(self, values: Inference, care: Care) -> None:
        self.values = values
        self.program = values.program
        self.target = values.target
        self.care = care
        self.fails_first = False  # whether an import at the top fails, unguarded
        self.scales = not _SCALES.isdisjoint(values.program.words)

    def all(self) -> Iterator[Diagnostic]:
        """Yield every use, in the order of the program."""
        kinds: dict[type, tuple[Callable[[Any], Iterator[Diagnostic]], ...]] = {
            ast.Import: (self._import,),
            ast.ImportFrom: (self._import,),
            ast.Attribute: (self._attribute, self._methods),
            ast.Call: (self._call, self._custom_objects),
        }
        for site in self.program.sites:
            for rule in kinds.get(type(site.node), ()):
                yield from rule(site)

    # --- Names.

    def _import(self, site: Site) -> Iterator[Diagnostic]:
        how = lookup.how_of(site.node)
        for alias, path in zip(site.node.names, imported_paths(site.node)):
            if alias.name == "*":
                verdict = lookup.star(site.node.module, self.target)
            else:
                verdict = lookup.of_path(path, how, self.target)
            if verdict:
                use = self.care.use(site, alias, IMPORT, self._judged(path, verdict))
                fails = use.verdict.status == BREAKS and use.verdict.error
                if fails and not use.guarded and not site.scope.parent:
                    self.fails_first = True
                yield use

    def _attribute(self, site: Site) -> Iterator[Diagnostic]:
        chain = chain_of(site.node)
        if not self.values.values(chain[0].value, site.scope):
            return
        for node in (part for part in chain if isinstance(part.ctx, ast.Load)):
            alone = node is site.node and id(node) not in self.program.quiet
            for value in self.values.values(node, site.scope):
                if lookup.is_name(value.path) or (alone and not value.instance):
                    call = self.program.calls.get(id(node))
                    yield from self._reached(site, node, ATTRIBUTE, value, call)

    def _reached(
        self, site: Site, node: ast.expr, kind: str, value: Value, call: ast.Call | None
    ) -> Iterator[Diagnostic]:
        """Yield the use of a name, which may be called."""
        verdict, rule = self._of_path(value), ""
        if verdict and call:
            called = value.path, call, site.scope, self.values
            if form := forms.of_call(verdict, *called):
                rule = rules.ARGUMENTS if form.status == BREAKS else ""
                verdict = form
        elif verdict and id(node) in self.program.type_tests:
            if lookup.is_own(value.path, self.target):
                keras = 2 if self.target.has_keras_2(value.path) else 3
                today = f"The test works: it is true of Keras {keras}'s own class."
                does = "Its optimizers pass the test, too."
                verdict = verdict.but(WORKS, today, tf_lso=does)
        if verdict and (rule or kind != CONSTRUCTOR):
            verdict = self._judged(value.path, verdict)
            yield self.care.use(site, node, kind, verdict, value, rule=rule)

    def _of_path(self, value: Value) -> Verdict | None:
        return lookup.of_path(value.path, target=self.target)

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

    # --- Calls.

    def _call(self, site: Site) -> Iterator[Diagnostic]:
        node = site.node
        for value in self.values.values(node.func, site.scope):
            if value.path in (GETATTR, HASATTR) and len(node.args) > 1:
                yield from self._getattr(site, value.path)
            elif value.path in IMPORTS:
                path = literal(next(iter(node.args), None)) or ""
                if verdict := lookup.of_path(path, lookup.IMPORT, self.target):
                    yield self.care.use(site, node, IMPORT, verdict)
            elif isinstance(node.func, ast.Name) and not value.instance | value.derived:
                yield from self._reached(site, node, CONSTRUCTOR, value, node)

    def _getattr(self, site: Site, function: str) -> Iterator[Diagnostic]:
        owner, name = site.node.args[:2]
        asks = function == HASATTR or len(site.node.args) > 2
        owners, text = self.values.of(owner, site.scope), literal(name)
        if text is None:
            yield from self._computed(site, owners.values)
            return
        for value in self.values.attributes(owners, [text]).values:
            if verdict := self._of_path(value):
                verdict = _asked(verdict) if asks else verdict
                yield self.care.use(site, site.node, ATTRIBUTE, verdict, value)
        if text in names.METHODS and names.METHODS[text].seen == names.ANYWHERE:
            node = ast.Attribute(owner, text, ast.Load())
            yield from self._method(site, site.node, node, asks)

    def _computed(self, site: Site, owners: tuple[Value, ...]) -> Iterator[Diagnostic]:
        """Yield the uses of a name that only the run computes."""
        modules = (v for v in owners if v.path in lookup.MODULES and not v.instance)
        for value in modules:
            if verdict := self._of_path(value):
                if verdict.status == WORKS:
                    today = "Which name this asks for is known only when it runs."
                    verdict = verdict.but(UNSURE, today, name=f"{verdict.name}.*")
                kind, rule = ATTRIBUTE, rules.UNSEEN
                yield self.care.use(site, site.node, kind, verdict, value, rule=rule)

    def _custom_objects(self, site: Site) -> Iterator[Diagnostic]:
        call = site.node
        given = [k.value for k in call.keywords if k.arg == "custom_objects"]
        given += call.args if last_name(call.func) in _SCOPES else []
        dicts = (node for node in given if isinstance(node, ast.Dict))
        for key, value in (pair for d in dicts for pair in zip(d.keys, d.values)):
            name = literal(key) if key else None
            # An old name as the value is told of by itself.
            if key and name in _SAVED and not self.values.values(value, site.scope):
                today = "The name in a saved model stands for what is given here."
                spelled = f"keras.mixed_precision.{name}"
                does = f"tf_lso.{spelled} can be given, too."
                verdict = Verdict(f"tf.{spelled}", WORKS, today, does)
                yield self.care.use(site, key, NOTE, verdict)

    # --- Methods of optimizers.

    def _methods(self, site: Site) -> Iterator[Diagnostic]:
        for node in chain_of(site.node):
            if node.attr in names.METHODS and isinstance(node.ctx, ast.Load):
                yield from self._method(site, node, node)

    def _method(
        self, site: Site, at: ast.expr, node: ast.Attribute, asks: bool = False
    ) -> Iterator[Diagnostic]:
        """Yield the use of a method at a node; `asks` says whether it is asked for.

        A guard that passes over it in silence counts in a program that gets that far.
        """
        if verdict := methods.of_access(node, site, self.values):
            reached = verdict.status == BREAKS and not self.fails_first
            if reached and self.care.passes_over(site, node.attr, asks):
                verdict = silent(verdict)
            verdict, asked = (_asked(verdict), "") if asks else (verdict, node.attr)
            yield self.care.use(site, at, METHOD, verdict, asked=asked)


def _asked(verdict: Verdict) -> Verdict:
    """Return the verdict of a name that hasattr or a getattr with default asks for."""
    if verdict.status != BREAKS:
        return verdict
    today = "Asking works."
    if verdict.error:
        today += f" The answer is no: {verdict.today.partition(': ')[2]}"
    return verdict.but(WORKS, today, error="")


def silent(verdict: Verdict) -> Verdict:
    """Return the verdict on a guarded method where today's optimizer is passed over."""
    return verdict.but(
        lookup.WRONG,
        "Trains wrong, silently: Keras 3's LossScaleOptimizer has no "
        f"{verdict.name.rpartition('.')[2]}, so the guard leaves it out. The loss is not "
        "scaled, and the gradients are divided by the scale all the same.",
        tf_lso="Its optimizers have it, so the guard finds it: under tf-lso run or "
        "tf_lso.install(), or where tf_lso wraps them.",
        error="",
    )
