"""Decides what to report at each place of a program."""

import ast
from collections.abc import Iterator
from typing import Any

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_COPY_BREAKS
from tf_lso.source import diagnostics, forms, lookup, methods, rules, syntax, wider
from tf_lso.source.diagnostics import ATTRIBUTE, IMPORT, Diagnostic
from tf_lso.source.guarded import Use, judged
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.source.scopes import Place, Site
from tf_lso.source.syntax import chain_of, imported_paths, last_name, literal
from tf_lso.source.values import Value

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
    program, found = values.program, list[Diagnostic]()
    fails_first = False  # whether an import at the top fails, unguarded
    for site in program.sites:
        named = [judged(values, site, use) for use in _names(values, site)]
        if isinstance(site.node, syntax.IMPORT_STATEMENTS) and not site.scope.parent:
            fails_first |= any(use.fails and use.verdict.error for use in named)
        called = methods.uses(values, site, not fails_first)
        found += [*named, *(judged(values, site, use) for use in called)]
    counts = any(
        strict or not (use.guarded or use.verdict.status == WORKS) for use in found
    )
    more = [
        judged(values, site, use)
        for site in (*program.sites, *program.texts)
        for use in wider.uses(values, site, counts)
    ]
    best: dict[Place, Diagnostic] = {}
    for use in sorted([*found, *more], key=lambda use: (use.place, use.rank())):
        best.setdefault(use.place, use)
    return list(best.values()), more


def _names(values: Inference, site: Site) -> Iterator[Use]:
    """Yield the uses of names and modules at a site."""
    node, scope, program = site.node, site.scope, values.program
    match node:
        case ast.Import() | ast.ImportFrom():
            how = lookup.how_of(node)
            for alias, path in zip(node.names, imported_paths(node)):
                yield from _name(values, site, alias, Value(path), IMPORT, how)
        case ast.Attribute():
            for part in chain_of(node):
                if not isinstance(part.ctx, ast.Load):
                    continue
                alone = part is node and id(part) not in program.quiet
                call = program.calls.get(id(part))
                for value in values.values(part, scope):
                    if lookup.is_name(value.path) or (alone and not value.instance):
                        yield from _name(values, site, part, value, call=call)
        case ast.Call(func, args):
            for value in values.values(func, scope):
                if value.path in syntax.IMPORTS and args:
                    named, how = Value(literal(args[0]) or ""), lookup.IMPORT
                    yield from _name(values, site, node, named, IMPORT, how)
                elif isinstance(func, ast.Name) and value.named:
                    kind = diagnostics.CONSTRUCTOR
                    yield from _name(values, site, node, value, kind, call=node)
            for part, asks in values.asked(site):
                if not part.attr:
                    yield from _computed(values, site, part.value)
                for value in values.values(part, scope) if part.attr else ():
                    yield from _name(values, site, node, value, asks=asks)
            yield from _custom_objects(values, site)


def _name(
    values: Inference,
    site: Site,
    node: Any,
    value: Value,
    kind: str = ATTRIBUTE,
    how: str = lookup.ACCESS,
    call: ast.Call | None = None,
    asks: bool = False,
) -> Iterator[Use]:
    """Yield the use of a name or module, if it is one of the old API.

    It may be called, or only asked for.
    """
    target, rule = values.target, ""
    verdict = lookup.of_path(value.path, how, target)
    if verdict is None:
        return
    if asks:
        verdict = verdict.asked()
    elif call:
        form = forms.of_call(verdict, value.path, call, site.scope, values)
        rule = rules.ARGUMENTS if form and form.status == BREAKS else ""
        verdict = form or verdict
    elif id(node) in values.program.type_tests and lookup.is_own(value.path, target):
        keras = 2 if target.has_keras_2(value.path) else 3
        today = f"The test works: it is true of Keras {keras}'s own class."
        verdict = verdict.but(WORKS, today, tf_lso="Its optimizers pass the test, too.")
    # Where a name is imported, it is told of without its arguments.
    if rule or kind != diagnostics.CONSTRUCTOR:
        verdict = _in_program(values, value.path, verdict)
        yield Use(rule or _rule_of(verdict), kind, node, verdict, value)


def _rule_of(verdict: Verdict) -> str:
    if verdict.status == UNSURE:
        return rules.UNSEEN if verdict.name.endswith("*") else rules.CHANGED
    if verdict.status == WORKS:
        return rules.SAME
    if verdict.replacement is None:
        return rules.NO_STAND_IN
    return rules.GONE if verdict.error else rules.CHANGED


def _in_program(values: Inference, path: str, verdict: Verdict) -> Verdict:
    """Return the verdict on a path in this program; a policy alone breaks nothing."""
    if verdict.today == KERAS_COPY_BREAKS and values.copy_only:
        today = "Works: what else the file takes of Keras is of the same copy."
        return verdict.but(WORKS, today)
    breaks = verdict.status == BREAKS and not verdict.error
    scales = not _SCALES.isdisjoint(values.program.words)
    if lookup.symbol(path) != "set_global_policy" or not breaks or scales:
        return verdict
    today = f"It works where nothing trains, or on one replica. {verdict.today}"
    return verdict.but(UNSURE, today)


def _computed(values: Inference, site: Site, owner: ast.expr) -> Iterator[Use]:
    """Yield the use of a module if only a run tells which of its names is meant."""
    for value in values.values(owner, site.scope):
        verdict = lookup.of_path(value.path, target=values.target)
        if verdict and value.path in lookup.MODULES and not value.instance:
            if verdict.status == WORKS:
                today = "Which name this asks for is known only when it runs."
                verdict = verdict.but(UNSURE, today, name=f"{verdict.name}.*")
            yield Use(rules.UNSEEN, ATTRIBUTE, site.node, verdict, value)


def _custom_objects(values: Inference, site: Site) -> Iterator[Use]:
    call = site.node
    given = [k.value for k in call.keywords if k.arg == "custom_objects"]
    given += call.args if last_name(call.func) in _SCOPES else []
    dicts = (node for node in given if isinstance(node, ast.Dict))
    for key, value in (pair for d in dicts for pair in zip(d.keys, d.values)):
        name = literal(key)
        # An old name as the value is told of by itself.
        if name in _SAVED and not values.values(value, site.scope):
            today = "The name in a saved model stands for what is given here."
            spelled = f"keras.mixed_precision.{name}"
            does = f"tf_lso.{spelled} can be given, too."
            verdict = Verdict(f"tf.{spelled}", WORKS, today, does)
            yield Use(rules.SAME, diagnostics.NOTE, key, verdict)
