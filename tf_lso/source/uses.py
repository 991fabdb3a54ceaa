"""Decides what to report at each place of a program."""

import ast
import dataclasses
from collections.abc import Callable, Iterable, Iterator
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
    Use,
)
from tf_lso.source.guarded import Care, Silent, silent
from tf_lso.source.inference import Inference, Value
from tf_lso.source.lookup import BREAKS, UNSURE, WORKS, WRONG, Verdict
from tf_lso.source.scopes import Place, Site
from tf_lso.source.syntax import (
    GETATTR,
    HASATTR,
    IMPORTS,
    chain_of,
    imported,
    imported_paths,
    last_name,
    literal,
)

_SCOPES = ("custom_object_scope", "CustomObjectScope")
# Words of programs that scale losses themselves, or train on several replicas.
_SCALES = {"distribute", "strategy", "LossScaleOptimizer", *names.SCALING}


def uses(values: Inference, strict: bool = False) -> tuple[list[Use], list[Use]]:
    """Return the uses of the old API in a program, one per position, in order.

    What is more than a name counts beside a name that is not as it was; if `strict`,
    beside any. All uses of that kind are returned a second time, by themselves.
    """
    care = Care(values)
    found = _Rules(values, care).all()
    counts = any(
        strict or not (use.guarded or use.verdict.status == WORKS) for use in found
    )
    more = wider.uses(values, care, counts)
    best: dict[Place, Use] = {}
    for use in sorted([*found, *more], key=lambda use: (use.place, use.rank())):
        best.setdefault(use.place, use)
    return list(best.values()), more


class _Rules:
    def __init__(self, values: Inference, care: Care) -> None:
        self.values = values
        self.program = values.program
        self.target = values.target
        self.care = care
        self.silent = Silent(values)
        self.quiet: set[int] = set()  # ids of expressions that other uses cover
        self.legacy = False
        self.fails_first = False  # whether an import at the top fails, unguarded
        words = {word for site in self.program.sites for word in _words(site.node)}
        self.scales = not words.isdisjoint(_SCALES)

    def all(self) -> list[Use]:
        """Return every use; calls go first, since they silence parts of themselves."""
        found = self._at(self._import, ast.Import, ast.ImportFrom)
        found += self._at(self._call, ast.Call)
        found += self._at(self._attribute, ast.Attribute)
        # The rewrite of compat.v1 is for any Keras, and tells nothing of it.
        self.legacy = any(
            use.verdict.status == BREAKS
            and not use.guarded
            and ".v1." not in use.verdict.name
            for use in found
        )
        found += self._at(self._member, ast.Compare)
        return found + self._at(self._methods, ast.Attribute)

    def _at(
        self, rule: Callable[[Site], Iterable[Use]], *types: type[ast.AST]
    ) -> list[Use]:
        sites = (s for s in self.program.sites if isinstance(s.node, types))
        return [use for site in sites for use in rule(site)]

    def _use(
        self,
        site: Site,
        node: ast.expr | ast.alias,
        kind: str,
        verdict: Verdict,
        value: Value | None = None,
        asked: str = "",
        rule: str = "",
    ) -> Use:
        rule = rule or _rule_of(verdict, kind)
        verdict, guarded = self.care.of(site, verdict, value, asked)
        place = site.cell, node.lineno, node.col_offset
        return Use(rule, *place, kind, guarded, verdict)

    # --- Names.

    def _import(self, site: Site) -> Iterator[Use]:
        how = lookup.IMPORT if isinstance(site.node, ast.Import) else lookup.FROM
        for alias, path in zip(site.node.names, imported_paths(site.node)):
            if alias.name == "*":
                verdict = lookup.star(site.node.module, self.target)
            else:
                verdict = lookup.of_path(path, how, self.target)
            if verdict:
                use = self._use(site, alias, IMPORT, self._judged(path, verdict))
                fails = use.verdict.status == BREAKS and use.verdict.error != ""
                if fails and not use.guarded and not site.scope.parent:
                    self.fails_first = True
                yield use

    def _attribute(self, site: Site) -> Iterator[Use]:
        chain = chain_of(site.node)
        if not self.values.values(chain[0].value, site.scope):
            return
        for node in chain:
            if not isinstance(node.ctx, ast.Load):
                continue
            alone = node is site.node and id(node) not in self.quiet
            for value in self.values.values(node, site.scope):
                ends = lookup.is_name(value.path) or (alone and not value.instance)
                verdict = self._of_path(value) if ends else None
                if verdict:
                    yield self._reached(site, node, value, verdict)

    def _reached(
        self, site: Site, node: ast.Attribute, value: Value, verdict: Verdict
    ) -> Use:
        rule, call = "", self.program.calls.get(id(node))
        if call is not None:
            form = self._form(site, verdict, value, call)
            rule = rules.ARGUMENTS if form and form.status == BREAKS else ""
            verdict = form or verdict
        elif id(node) in self.program.type_tests:
            if lookup.is_own(value.path, self.target):
                keras = 2 if self.target.has_keras_2(value.path) else 3
                verdict = dataclasses.replace(
                    verdict,
                    status=WORKS,
                    today=f"The test works: it is true of Keras {keras}'s own class.",
                    tf_lso="Its optimizers pass the test, too.",
                )
        verdict = self._judged(value.path, verdict)
        return self._use(site, node, ATTRIBUTE, verdict, value, rule=rule)

    def _of_path(self, value: Value) -> Verdict | None:
        return lookup.of_path(value.path, target=self.target)

    def _judged(self, path: str, verdict: Verdict) -> Verdict:
        """Return the verdict on a path in this program; a policy alone breaks nothing."""
        breaks = verdict.status == BREAKS and not verdict.error
        if verdict.today == KERAS_COPY_BREAKS and self.values.copy_only:
            today = "Works: what else the file takes of Keras is of the same copy."
            return dataclasses.replace(verdict, status=WORKS, today=today)
        if lookup.symbol(path) != "set_global_policy" or not breaks or self.scales:
            return verdict
        today = f"It works where nothing trains, or on one replica. {verdict.today}"
        return dataclasses.replace(verdict, status=UNSURE, today=today)

    # --- Calls.

    def _call(self, site: Site) -> Iterator[Use]:
        node = site.node
        for value in self.values.values(node.func, site.scope):
            if value.path in (GETATTR, HASATTR) and len(node.args) > 1:
                yield from self._getattr(site, value.path)
            elif value.path in IMPORTS:
                path = imported(node, value.path, whole=True)
                verdict = lookup.of_path(path, lookup.IMPORT, self.target)
                if verdict:
                    yield self._use(site, node, IMPORT, verdict)
            elif isinstance(node.func, ast.Name):
                yield from self._constructor(site, value)
        yield from self._custom_objects(site)

    def _constructor(self, site: Site, value: Value) -> Iterator[Use]:
        if value.instance or value.derived or not lookup.is_name(value.path):
            return
        form = self._form(site, self._of_path(value), value, site.node)
        if form and form.status == BREAKS:
            rule = rules.ARGUMENTS
            yield self._use(site, site.node, CONSTRUCTOR, form, value, rule=rule)

    def _form(
        self, site: Site, verdict: Verdict | None, value: Value, call: ast.Call
    ) -> Verdict | None:
        where = call, site.scope, self.values
        return forms.of_call(verdict, value.path, *where, self.target)

    def _getattr(self, site: Site, function: str) -> Iterator[Use]:
        owner, name = site.node.args[:2]
        asks = function == HASATTR or len(site.node.args) > 2
        owners = self.values.of(owner, site.scope)
        text = literal(name)
        if text is None:
            for value in owners.values:
                if value.path in lookup.MODULES and not value.instance:
                    self.quiet.add(id(owner))
                    yield from self._computed(site, value)
            return
        self.quiet.add(id(owner))
        for value in self.values.attributes(owners, [text]).values:
            verdict = self._of_path(value)
            if verdict:
                verdict = _asked(verdict) if asks else verdict
                yield self._use(site, site.node, ATTRIBUTE, verdict, value)
        method = names.METHODS.get(text)
        if method and method.seen == names.ANYWHERE:
            yield from self._asked_for(site, owner, text, asks)

    def _computed(self, site: Site, value: Value) -> Iterator[Use]:
        """Yield the use of a name that only the run computes."""
        verdict = self._of_path(value)
        if verdict is None:
            return
        if verdict.status == WORKS:
            verdict = dataclasses.replace(
                verdict,
                name=f"{verdict.name}.*",
                status=UNSURE,
                today="Which name this asks for is known only when it runs.",
            )
        yield self._use(site, site.node, ATTRIBUTE, verdict, value, rule=rules.UNSEEN)

    def _custom_objects(self, site: Site) -> Iterator[Use]:
        call = site.node
        given = [k.value for k in call.keywords if k.arg == "custom_objects"]
        given += call.args if last_name(call.func) in _SCOPES else []
        space = names.NAMESPACES["keras.mixed_precision"]
        known = {*names.OPTIMIZERS, *space} - {"experimental.LossScaleOptimizer"}
        for objects in given:
            if not isinstance(objects, ast.Dict):
                continue
            for key, value in zip(objects.keys, objects.values):
                if key is None or literal(key) not in known:
                    continue
                if isinstance(value, ast.Attribute):
                    if self.values.values(value, site.scope):
                        continue  # told of as an attribute
                verdict = Verdict(
                    f"tf.keras.mixed_precision.{literal(key)}",
                    WORKS,
                    "The name in a saved model stands for the class that is given here.",
                    f"tf_lso.keras.mixed_precision.{literal(key)} can be given, too.",
                )
                yield self._use(site, key, NOTE, verdict)

    # --- Methods of optimizers.

    def _methods(self, site: Site) -> Iterator[Use]:
        for node in chain_of(site.node):
            name = node.attr
            if name in names.METHODS and isinstance(node.ctx, ast.Load):
                verdict = methods.of_access(node, site, self.values, self.legacy)
                if verdict:
                    verdict = self._heard(verdict, self.silent.passes_over, site, name)
                    use = self._use(site, node, METHOD, verdict, asked=name)
                    end: Any = node  # the method's own name is what counts
                    offset = end.end_col_offset - len(name.encode())
                    yield use._replace(line=end.end_lineno, offset=offset)

    def _member(self, site: Site) -> Iterator[Use]:
        """Yield the use in `"get_scaled_loss" in dir(optimizer)`."""
        for holder in site.node.comparators:
            call = isinstance(holder, ast.Call) and len(holder.args) == 1
            if call and getattr(holder.func, "id", "") in ("dir", "vars"):
                owner = holder.args[0]
            elif isinstance(holder, ast.Attribute) and holder.attr == "__dict__":
                owner = holder.value
            else:
                continue
            yield from self._asked_for(site, owner, site.node.left.value, asks=True)

    def _asked_for(
        self, site: Site, owner: ast.expr, name: str, asks: bool
    ) -> Iterator[Use]:
        """Yield the use of a method whose name is a text."""
        node = ast.Attribute(owner, name, ast.Load())
        # A program that has tf_lso or tf_keras may be asking for its optimizers.
        legacy = not asks or name not in names.SCALING
        verdict = methods.of_access(node, site, self.values, legacy)
        if verdict is None:
            return
        passed = self.silent.asks if asks else self.silent.passes_over
        verdict = self._heard(verdict, passed, site, name)
        verdict = _asked(verdict) if asks else verdict
        yield self._use(site, site.node, METHOD, verdict)

    def _heard(
        self,
        verdict: Verdict,
        passed: Callable[[Site, str], bool],
        site: Site,
        name: str,
    ) -> Verdict:
        """Return the verdict where a guard may pass over the method in silence.

        It counts in a program that gets as far as that.
        """
        wrong = verdict.status == BREAKS and not self.fails_first and passed(site, name)
        return silent(verdict) if wrong else verdict


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield from (part.attr for part in chain_of(node))
        yield last_name(chain_of(node)[0].value)


def _rule_of(verdict: Verdict, kind: str) -> str:
    if verdict.status == WRONG:
        return rules.SILENT
    if kind == METHOD:
        return rules.METHOD
    if verdict.status == UNSURE:
        return rules.UNSEEN if verdict.name.endswith("*") else rules.CHANGED
    if verdict.status == WORKS:
        return rules.SAME
    if verdict.replacement is None:
        return rules.NO_STAND_IN
    return rules.GONE if verdict.error else rules.CHANGED


def _asked(verdict: Verdict) -> Verdict:
    """Return the verdict of a name that hasattr or a getattr with default asks for."""
    if verdict.status != BREAKS:
        return verdict
    today = "Asking works."
    if verdict.error:
        today += f" The answer is no: {verdict.today.partition(': ')[2]}"
    return dataclasses.replace(verdict, status=WORKS, today=today, error="")
