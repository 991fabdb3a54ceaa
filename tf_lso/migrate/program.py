"""A parsed program: its nodes, the meaning of its names, and the findings in it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import libcst as cst
from libcst import metadata as md
from libcst.metadata.base_provider import LazyValue

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import Finding, Verdict
from tf_lso.migrate.nodes import (
    bound_name,
    imported_module,
    imported_names,
    literal,
    root,
)
from tf_lso.names.targets import TODAY, Target

# `tensorflow.compat.v2.compat.v1` is `tensorflow.compat.v1`.
_COMPAT = re.compile(r"^tensorflow(\.compat\.v[12])+(?=\.compat\.v[12]\b)")
_Node = TypeVar("_Node", bound=cst.CSTNode)


class _Collector(cst.CSTVisitor):
    """Collects the nodes of a tree by their type."""

    def __init__(self) -> None:
        self.nodes: dict[type[cst.CSTNode], list[Any]] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.nodes.setdefault(type(node), []).append(node)
        return True


class _Alias(NamedTuple):
    """The binding of a name by an assignment."""

    path: str  # the full path to which the name is bound
    expression: cst.BaseExpression  # the right side of the assignment


class Program:
    """A parsed program with LibCST's metadata and the findings of the rules.

    Attributes:
      module: LibCST's tree.
      target: the TensorFlow on which the program will run.
      findings: the findings of the rules.
      imported: the full names of all imported modules and names.
      packages: the packages of the imported modules.
      defined: the names of all functions that the program defines.
      called: the full paths of all called objects and base classes.
      words: the names of all attributes, and all strings.
    """

    def __init__(self, module: cst.Module, target: Target = TODAY) -> None:
        wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
        self.module, self.target = module, target
        self._qualified = wrapper.resolve(md.QualifiedNameProvider)
        self._scopes = wrapper.resolve(md.ScopeProvider)
        self._parents = wrapper.resolve(md.ParentNodeProvider)
        self._positions = wrapper.resolve(md.PositionProvider)
        self.findings: list[Finding] = []
        collector = _Collector()
        module.visit(collector)
        self._nodes = collector.nodes
        # The names that patterns of `match` bind. LibCST does not know them.
        patterns: list[Any] = [*self.nodes(cst.MatchAs), *self.nodes(cst.MatchStar)]
        self._captured = {p.name.value for p in patterns if p.name}
        # Qualified name of a local name, such as `f.<locals>.mp` -> its binding.
        self._aliases: dict[str, _Alias] = {}
        for node in self.nodes(cst.Assign):
            self._record_alias(node)
        self.imported = set(self._imported())
        self.packages = {path.partition(".")[0] for path in self.imported}
        self.defined = {node.name.value for node in self.nodes(cst.FunctionDef)}
        called = [node.func for node in self.nodes(cst.Call)]
        called += [base.value for c in self.nodes(cst.ClassDef) for base in c.bases]
        self.called = set(map(self.path, called))
        self.words = {node.attr.value for node in self.nodes(cst.Attribute)}
        self.words.update(literal(s) or "" for s in self.nodes(cst.SimpleString))

    def _record_alias(self, node: cst.Assign) -> None:
        """Record an assignment if it binds a name once, to a path of TensorFlow or Keras.

        An import or an earlier alias must bind the first name of the path.
        """
        path = self.path(node.value)
        is_known = all(map(self._bound, self._assignments(root(node.value))))
        if not is_known or not (verdicts.is_old(path) or path in verdicts.PREFIXES):
            return
        for target in node.targets:
            local = self._local_name(target.target)
            if local and len(self._assignments(target.target)) == 1:
                self._aliases[local] = _Alias(path, node.value)

    def _imported(self) -> Iterator[str]:
        for node in self.nodes(cst.Import):
            yield from (alias.evaluated_name for alias in node.names)
        for statement in self.nodes(cst.ImportFrom):
            module = imported_module(statement)
            for alias in imported_names(statement):
                yield f"{module}.{alias.evaluated_name}"

    # --- Nodes.

    def nodes(self, kind: type[_Node]) -> list[_Node]:
        """Return the list of all nodes of a type in their order."""
        return self._nodes.get(kind, [])

    def chains(self) -> Iterator[list[cst.Attribute]]:
        """Yield for each chain of attributes the list of its parts, the longest part first."""
        others = (cst.Attribute, cst.ImportFrom, cst.ImportAlias)
        for node in self.nodes(cst.Attribute):
            if not isinstance(self.parent(node), others):
                parts = [node]
                while isinstance(parts[-1].value, cst.Attribute):
                    parts.append(parts[-1].value)
                yield parts

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, the nearest first."""
        while parent := self._parents.get(node):
            yield parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node."""
        return self._parents.get(node)

    def is_stored(self, node: cst.CSTNode) -> bool:
        """Return whether the program assigns to an expression or deletes it."""
        return isinstance(self.parent(node), (cst.AssignTarget, cst.Del))

    def is_in_function(self, node: cst.CSTNode) -> bool:
        """Return whether a node is inside a function."""
        return any(isinstance(p, cst.FunctionDef) for p in self.parents(node))

    def code(self, node: cst.CSTNode) -> str:
        """Return the source text of a node."""
        return self.module.code_for_node(node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line number of a node, from 1."""
        return int(self._positions[node].start.line)

    def report(
        self, rule: str, node: cst.CSTNode, verdict: Verdict, why_not: str = ""
    ) -> Finding:
        """Add a finding at a node and return it."""
        start = self._positions[node].start
        finding = Finding(rule, verdict, node, start.line, start.column + 1)
        finding.why_not = why_not
        self.findings.append(finding)
        return finding

    # --- Names.

    def path(self, node: cst.CSTNode) -> str:
        """Return the dotted path to which an expression refers.

        Return "" if the path is unknown or the expression may refer to several.
        """
        paths = self.paths(node)
        return paths[0] if len(paths) == 1 else ""

    def paths(self, node: cst.CSTNode) -> list[str]:
        """Return the dotted paths to which an expression may refer. "" is an unknown path."""
        first = root(node)
        if isinstance(first, cst.Name) and first.value in self._captured:
            return []
        return sorted({self._followed(name) for name in self._names(node)})

    def _names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        found: Any = self._qualified.get(node, frozenset())
        return frozenset(found() if isinstance(found, LazyValue) else found)

    def _followed(self, name: md.QualifiedName) -> str:
        """Return the full path for a qualified name, or ""."""
        path = name.name
        if name.source is not md.QualifiedNameSource.IMPORT:
            path = self._through_alias(path)
        return "" if path.startswith(".") else _COMPAT.sub("tensorflow", path)

    def _through_alias(self, name: str) -> str:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            alias = self._aliases.get(".".join(parts[:end]))
            if alias:
                return ".".join([alias.path, *parts[end:]])
        return ""

    def _local_name(self, node: cst.CSTNode) -> str:
        """Return the qualified name of a local name, or ""."""
        names = self._names(node)
        local = [n.name for n in names if n.source is md.QualifiedNameSource.LOCAL]
        return local[0] if len(local) == len(names) == 1 else ""

    def _assignments(self, name: cst.CSTNode) -> list[md.BaseAssignment]:
        """Return the assignments that bind a name in its scope or a scope around it."""
        scope = self._scopes.get(name)
        return list(scope[name.value]) if scope and isinstance(name, cst.Name) else []

    def bindings(self, name: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the list of imported names and aliased expressions that bind a name."""
        return [node for a in self._assignments(name) for node in self._bound(a)]

    def _bound(self, assignment: md.BaseAssignment) -> list[cst.CSTNode]:
        """Return the imported names or the aliased expression of an assignment."""
        if isinstance(assignment, md.ImportAssignment):
            aliases = getattr(assignment.node, "names", ())
            return [alias for alias in aliases if bound_name(alias) == assignment.name]
        node = getattr(assignment, "node", None)
        known = self._aliases.get(self._local_name(node)) if node else None
        return [known.expression] if known else []

    def binds_otherwise(self, package: str) -> bool:
        """Return whether any scope binds a package's name to something else."""
        itself = {md.QualifiedName(package, md.QualifiedNameSource.IMPORT)}
        return package in self._captured or any(
            assignment.name.partition(".")[0] == package
            and assignment.get_qualified_names_for(package) != itself
            for scope in {scope for scope in self._scopes.values() if scope}
            for assignment in scope.assignments
        )
