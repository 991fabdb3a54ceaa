"""One parsed program: what its names stand for, where its nodes are, what it imports."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst import metadata as md
from libcst.metadata.base_provider import LazyValue

from tf_lso.migrate import install, verdicts
from tf_lso.migrate.facts import Facts
from tf_lso.migrate.findings import WORKS, Finding, Verdict
from tf_lso.migrate.nodes import bound_name, root
from tf_lso.names.targets import TODAY, Target

# `tensorflow.compat.v2.compat.v1` is `tensorflow.compat.v1`.
_COMPAT = re.compile(r"^tensorflow(\.compat\.v[12])+(?=\.compat\.v[12]\b)")

OF_COPY = "Works: TensorFlow's own copy of Keras still has it."


class Program:
    """A parsed program, with LibCST's metadata, and what the rules find in it.

    Attributes:
      module: LibCST's tree.
      target: the TensorFlow that the program is to run on.
      facts: its imports, calls, names and texts.
      aliases: local name, such as `f.<locals>.mp` -> the expression that it is bound to,
        for names that stand for one module or class of the old API.
      findings: what the rules have found.
    """

    def __init__(self, module: cst.Module, target: Target = TODAY) -> None:
        wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
        self.module, self.target = module, target
        self._qualified = wrapper.resolve(md.QualifiedNameProvider)
        self._scopes = wrapper.resolve(md.ScopeProvider)
        self._parents = wrapper.resolve(md.ParentNodeProvider)
        self._positions = wrapper.resolve(md.PositionProvider)
        self.findings: list[Finding] = []
        self.aliases: dict[str, cst.BaseExpression] = {}
        self._followed_now: list[cst.BaseExpression] = []
        self._wrapper = wrapper
        self.facts = Facts()
        module.visit(self.facts)
        for node in self.facts.assigned:
            self._note_alias(node)

    def _note_alias(self, node: cst.Assign) -> None:
        """An alias is a name that is bound once, to a path of TensorFlow or Keras."""
        if not isinstance(node.value, (cst.Attribute, cst.Name)):
            return
        for target in node.targets:
            name = target.target
            if not isinstance(name, cst.Name) or len(self.assignments(name)) != 1:
                continue
            paths = self.paths(node.value)
            known = (verdicts.is_old(p) or p in verdicts.PREFIXES for p in paths)
            if len(paths) == 1 and all(known) and self.local_name(name):
                self.aliases[self.local_name(name)] = node.value

    def visit(self, rules: list[cst.BatchableCSTVisitor]) -> None:
        """Let the rules look at each node; they add to `findings`."""
        self._wrapper.visit_batched(rules)

    @property
    def is_installed(self) -> bool:
        """Whether the program calls `tf_lso.install()`."""
        return any(
            "tf_lso.install" in self.paths(call.func) for call in self.facts.calls
        )

    @property
    def scopes(self) -> Iterable[md.Scope]:
        """All scopes."""
        return {scope for scope in self._scopes.values() if scope}

    # --- Nodes.

    def parents(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """Yield (child, parent) from a node upwards."""
        while parent := self._parents.get(node):
            yield node, parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node."""
        return self._parents.get(node)

    def is_called(self, node: cst.CSTNode) -> bool:
        """Whether an expression is the function of a call."""
        parent = self.parent(node)
        return isinstance(parent, cst.Call) and parent.func is node

    def code(self, node: cst.CSTNode) -> str:
        """Return the source text of a node."""
        return self.module.code_for_node(node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line of a node, from 1."""
        return int(self._positions[node].start.line)

    def report(
        self, rule: str, node: cst.CSTNode, verdict: Verdict, **fields: Any
    ) -> Finding:
        """Add a finding at a node."""
        start = self._positions[node].start
        finding = Finding(rule, verdict, start.line, start.column + 1, **fields)
        # Defaults and decorators run where the function is defined.
        finding.in_function = any(
            isinstance(parent, cst.FunctionDef) and parent.body is child
            for child, parent in self.parents(node)
        )
        finding.in_main = any(install.is_main(p) for _, p in self.parents(node))
        self.findings.append(finding)
        return finding

    # --- Names.

    def paths(self, node: cst.CSTNode) -> frozenset[str]:
        """Return the dotted paths that an expression may stand for.

        The set is empty if one of them is not known.
        """
        found = set()
        first = root(node) if isinstance(node, cst.BaseExpression) else node
        if isinstance(first, cst.Name) and first.value in self.facts.captured:
            return frozenset()
        for name in self._bound_names(node):
            path = self._followed(name)
            if not path:
                return frozenset()
            found.add(_COMPAT.sub("tensorflow", path))
        return frozenset(found)

    def called_in_keras3(self, node: cst.Call) -> str:
        """Return the only path that a call's function may stand for on Keras 3, or ""."""
        paths = self.paths(node.func)
        return next(iter(paths)) if len(paths) == 1 and not self.target.keras_2 else ""

    def _bound_names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        """Return the qualified names, but for one that an `except` clause sets to None."""
        found = self._names(node)
        local = {n for n in found if n.source is md.QualifiedNameSource.LOCAL}
        first = root(node) if isinstance(node, cst.BaseExpression) else node
        if not local or local == found or not isinstance(first, cst.Name):
            return found
        others = [
            assignment
            for assignment in self.assignments(first)
            if not isinstance(assignment, md.ImportAssignment)
        ]
        return found - local if all(map(self._is_none, others)) else found

    def _is_none(self, assignment: md.BaseAssignment) -> bool:
        """Whether an assignment is `name = None`."""
        return m.matches(self._assigned(assignment), m.Name("None"))

    def _assigned(self, assignment: md.BaseAssignment) -> cst.CSTNode:
        """Return the expression that an assignment binds, or the module."""
        target = self.parent(getattr(assignment, "node", self.module))
        statement = self.parent(target) if target else None
        return statement.value if isinstance(statement, cst.Assign) else self.module

    def _names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        found: Any = self._qualified.get(node, frozenset())
        return frozenset(found() if isinstance(found, LazyValue) else found)

    def _followed(self, name: md.QualifiedName) -> str:
        """Return the full path of a qualified name, through the aliases, or ""."""
        if name.source is md.QualifiedNameSource.IMPORT:
            return "" if name.name.startswith(".") else name.name
        parts = name.name.split(".")
        for end in range(len(parts), 0, -1):
            bound = self.aliases.get(".".join(parts[:end]))
            if bound is None or bound in self._followed_now:
                continue  # it is bound to itself, by way of others
            self._followed_now.append(bound)
            paths = self.paths(bound)
            self._followed_now.pop()
            return ".".join([*paths, *parts[end:]]) if len(paths) == 1 else ""
        return ""

    def local_name(self, node: cst.CSTNode) -> str:
        """Return the qualified name of a local name, or ""."""
        names = self._names(node)
        local = [n.name for n in names if n.source is md.QualifiedNameSource.LOCAL]
        return local[0] if len(local) == len(names) == 1 else ""

    def assignments(self, name: cst.Name) -> list[md.BaseAssignment]:
        """Return what binds a name in the scope where it stands, or in one around it."""
        scope = self._scopes.get(name)
        found = list(scope[name.value]) if scope else []
        bound = (self._assigned(one) for one in found)
        if scope and any(
            isinstance(b, (cst.Name, cst.Attribute)) and root(b) is name for b in bound
        ):
            return list(scope.parent[name.value])  # `mp = mp` of a class
        return found

    def imports(self, name: cst.Name) -> list[md.ImportAssignment]:
        """Return the imports that bind a name."""
        found = self.assignments(name)
        return [one for one in found if isinstance(one, md.ImportAssignment)]

    def bindings(self, name: cst.Name) -> Iterator[cst.CSTNode]:
        """Yield the import aliases and aliased expressions that bind a name."""
        for assignment in self.assignments(name):
            if isinstance(assignment, md.ImportAssignment):
                for alias in getattr(assignment.node, "names", ()):
                    if bound_name(alias) == name.value:
                        yield alias
            elif isinstance(assignment, md.Assignment):
                bound = self.aliases.get(self.local_name(assignment.node))
                if bound is not None:
                    yield bound

    # --- What the program is.

    @property
    def packages(self) -> set[str]:
        """The packages that are imported."""
        return {path.partition(".")[0] for path in self.facts.imported}

    @property
    def is_of_copy(self) -> bool:
        """Whether its only Keras is TensorFlow's own copy, as in that copy itself."""
        public = ("tensorflow", "tensorflow.keras", "keras")
        others = [
            path
            for path in self.facts.imported
            if path in public or path.startswith(("keras.", "tensorflow.keras."))
        ]
        return any(map(verdicts.in_copy, self.facts.imported)) and not others

    def verdict(self, path: str, imported: bool = False) -> Verdict | None:
        """Return the verdict on a path in this program."""
        verdict = verdicts.of_path(path, imported, self.target)
        if verdict and verdicts.in_copy(path) and self.is_of_copy:
            if verdicts.is_there(path):
                return Verdict(verdict.name, WORKS, OF_COPY, verdict.tf_lso)
        return verdict
