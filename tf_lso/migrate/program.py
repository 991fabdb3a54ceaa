"""Define `Program`, which holds a parsed program, facts about it, and its findings."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import libcst as cst
from libcst import metadata as md

from tf_lso.migrate.findings import Consequence, Finding
from tf_lso.migrate.nodes import (
    attributes,
    bound_name,
    imported_module,
    literal,
    nodes_by_type,
    root,
)
from tf_lso.names.runtimes import Runtime

# The nested module `tensorflow.compat.v2.compat.v1` is the same as `tensorflow.compat.v1`.
_COMPAT = re.compile(r"^tensorflow(\.compat\.v[12])+(?=\.compat\.v[12]\b)")
_Node = TypeVar("_Node", bound=cst.CSTNode)


class Program:
    """A parsed program with LibCST's metadata and the findings of the rules.

    Attributes:
      imported: the full names of all imports. `packages` contains their first parts.
      defined: the names of all functions.
      called: the paths of all called objects and of all base classes.
      words: the names of all attributes and the texts of all string literals.
    """

    def __init__(self, module: cst.Module, target: Runtime) -> None:
        self.module, self.target = module, target
        self.findings: list[Finding] = []
        wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
        self._positions = wrapper.resolve(md.PositionProvider)
        self._scopes = wrapper.resolve(md.ScopeProvider)
        self._parents = wrapper.resolve(md.ParentNodeProvider)
        self._contexts = wrapper.resolve(md.ExpressionContextProvider)
        self._nodes = nodes_by_type(module)
        # LibCST does not record the names that patterns of `match` statements bind.
        patterns: list[Any] = [*self.nodes(cst.MatchAs), *self.nodes(cst.MatchStar)]
        self._captured = {p.name.value for p in patterns if p.name}
        # `_assigned` maps the target of `x = a.b` to `a.b`, `_made` that of `x = f()` to `f()`.
        self._assigned: dict[Any, cst.BaseExpression] = {}
        self._made: dict[Any, cst.Call] = {}
        for node in self.nodes(cst.Assign):
            for assigned in node.targets:
                if isinstance(node.value, (cst.Name, cst.Attribute)):
                    self._assigned[assigned.target] = node.value
                elif isinstance(node.value, cst.Call):
                    self._made[assigned.target] = node.value
        # The values that `paths` is looking up now, to detect names that refer to themselves.
        self._followed: list[cst.CSTNode] = []
        self.imported = set(map(self.imported_path, self.nodes(cst.ImportAlias)))
        self.packages = {path.partition(".")[0] for path in self.imported}
        self.defined = {node.name.value for node in self.nodes(cst.FunctionDef)}
        called = [node.func for node in self.nodes(cst.Call)]
        called += [base.value for c in self.nodes(cst.ClassDef) for base in c.bases]
        self.called = set(map(self.path, called))
        self.words = {node.attr.value for node in self.nodes(cst.Attribute)}
        self.words.update(literal(s) or "" for s in self.nodes(cst.SimpleString))

    # --- Nodes.

    def chains(self) -> Iterator[list[cst.Attribute]]:
        """Yield a list of nodes for each chain of attributes: [`a.b.c`, `a.b`] for `a.b.c`."""
        others = (cst.Attribute, cst.ImportFrom, cst.ImportAlias)
        for node in self.nodes(cst.Attribute):
            if not isinstance(self.parent(node), others):
                parts = [node]
                while isinstance(parts[-1].value, cst.Attribute):
                    parts.append(parts[-1].value)
                yield parts

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line number of a node, from 1."""
        return int(self._positions[node].start.line)

    def report(
        self, rule: str, node: cst.CSTNode, consequence: Consequence, why_not: str = ""
    ) -> Finding:
        """Make a finding at the position of a node, add it to `findings` and return it."""
        start = self._positions[node].start
        finding = Finding(rule, consequence, node, start.line, start.column + 1)
        finding.why_not = why_not
        self.findings.append(finding)
        return finding

    def nodes(self, kind: type[_Node]) -> list[_Node]:
        return self._nodes.get(kind, [])

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        while parent := self._parents.get(node):
            yield parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def is_stored(self, node: cst.CSTNode) -> bool:
        """Return whether the program assigns to an expression, but does not read it."""
        stores = self._contexts.get(node) not in (None, md.ExpressionContext.LOAD)
        return stores and not isinstance(self.parent(node), cst.AugAssign)

    # --- Names.

    def imported_path(self, alias: cst.ImportAlias) -> str:
        statement = self.parent(alias)
        if not isinstance(statement, cst.ImportFrom):
            return alias.evaluated_name
        return f"{imported_module(statement)}.{alias.evaluated_name}"

    def path(self, node: cst.CSTNode) -> str:
        """Return the dotted path of an expression, or "" unless exactly one is possible.

        The path begins with a dot if it comes from a relative import.
        """
        paths = self.paths(node)
        return paths[0] if len(paths) == 1 else ""

    def paths(self, node: cst.CSTNode) -> list[str]:
        """Return the dotted paths to which an expression may refer. "" is an unknown path."""
        if isinstance(node, cst.ImportAlias):
            return [self.imported_path(node)]
        first, rest = root(node), attributes(node)
        if isinstance(first, cst.Name) and first.value in self._captured:
            return []
        starts = {p for a in self._assignments(first) for p in self._paths_of(a)}
        paths = {start and ".".join([start, *rest]) for start in starts}
        return sorted({_COMPAT.sub("tensorflow", path) for path in paths})

    def makers(self, node: cst.CSTNode) -> list[str]:
        """Return the paths of the functions that may have made the value of an expression.

        "" stands for an unknown function. The list is empty for a name that is bound nowhere.
        """
        if isinstance(node, cst.Call):
            return [self.path(node.func)]
        calls = [
            self._made.get(getattr(a, "node", None)) for a in self._assignments(node)
        ]
        return [self.path(call.func) if call else "" for call in calls]

    def _paths_of(self, assignment: md.BaseAssignment) -> list[str]:
        if isinstance(assignment, md.ImportAssignment):
            names = assignment.get_qualified_names_for(assignment.name)
            return [name.name for name in names]
        value = self._assigned.get(getattr(assignment, "node", None))
        if value is None or value in self._followed:
            return [""]
        self._followed.append(value)
        paths = self.paths(value)
        self._followed.pop()
        return paths or [""]

    def _assignments(self, name: cst.CSTNode) -> list[md.BaseAssignment]:
        scope = self._scopes.get(name)
        return list(scope[name.value]) if scope and isinstance(name, cst.Name) else []

    def bindings(self, name: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the imported names and the expressions to which the program binds a name."""
        for assignment in self._assignments(name):
            node = getattr(assignment, "node", None)
            if isinstance(node, (cst.Import, cst.ImportFrom)):
                aliases = () if isinstance(node.names, cst.ImportStar) else node.names
                yield from (a for a in aliases if bound_name(a) == assignment.name)
            elif node in self._assigned:
                yield self._assigned[node]
