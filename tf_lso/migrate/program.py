"""One parsed program: its nodes, what its names stand for, and what is found in it."""

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
    """What a name is bound to: the full path, and the expression that says so."""

    path: str
    expression: cst.BaseExpression


class Program:
    """A parsed program, with LibCST's metadata, and what the rules find in it.

    Attributes:
      module: LibCST's tree.
      target: the TensorFlow that the program is to run on.
      findings: what the rules have found.
      imported: the full names of all modules and names that are imported.
      packages: the packages of these.
      defined: the names of all functions that the program defines.
      called: the full paths of what is called or derived from.
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
        # The names that patterns of `match` bind, which LibCST does not see.
        patterns: list[Any] = [*self.nodes(cst.MatchAs), *self.nodes(cst.MatchStar)]
        self._captured = {one.name.value for one in patterns if one.name}
        # Local name, such as `f.<locals>.mp` -> what it is bound to.
        self._aliases: dict[str, _Alias] = {}
        for node in self.nodes(cst.Assign):
            self._note_alias(node)
        self.imported = set(self._imported())
        self.packages = {path.partition(".")[0] for path in self.imported}
        self.defined = {node.name.value for node in self.nodes(cst.FunctionDef)}
        called = [node.func for node in self.nodes(cst.Call)]
        called += [base.value for one in self.nodes(cst.ClassDef) for base in one.bases]
        self.called = set(map(self.path, called))
        self.words = {node.attr.value for node in self.nodes(cst.Attribute)}
        self.words.update(literal(one) or "" for one in self.nodes(cst.SimpleString))

    def _note_alias(self, node: cst.Assign) -> None:
        """An alias is a name that is bound once, to a path of TensorFlow or Keras.

        The path begins with a name that an import or an alias before it binds.
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
        """Return all nodes of a type, in their order."""
        return self._nodes.get(kind, [])

    def chains(self) -> Iterator[list[cst.Attribute]]:
        """Yield the parts of each chain of attributes in an expression, the longest first."""
        others = (cst.Attribute, cst.ImportFrom, cst.ImportAlias)
        for node in self.nodes(cst.Attribute):
            if not isinstance(self.parent(node), others):
                parts = [node]
                while isinstance(parts[-1].value, cst.Attribute):
                    parts.append(parts[-1].value)
                yield parts

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, from the nearest on."""
        while parent := self._parents.get(node):
            yield parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node."""
        return self._parents.get(node)

    def is_stored(self, node: cst.CSTNode) -> bool:
        """Whether an expression is assigned to, or deleted."""
        return isinstance(self.parent(node), (cst.AssignTarget, cst.Del))

    def is_in_function(self, node: cst.CSTNode) -> bool:
        """Whether a node stands within a function."""
        return any(isinstance(one, cst.FunctionDef) for one in self.parents(node))

    def code(self, node: cst.CSTNode) -> str:
        """Return the source text of a node."""
        return self.module.code_for_node(node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line of a node, from 1."""
        return int(self._positions[node].start.line)

    def report(
        self, rule: str, node: cst.CSTNode, verdict: Verdict, why_not: str = ""
    ) -> Finding:
        """Add a finding at a node."""
        start = self._positions[node].start
        finding = Finding(rule, verdict, node, start.line, start.column + 1)
        finding.why_not = why_not
        self.findings.append(finding)
        return finding

    # --- Names.

    def path(self, node: cst.CSTNode) -> str:
        """Return the dotted path that an expression stands for.

        It is "" if the path is not known, or if the expression may stand for several.
        """
        paths = self.paths(node)
        return paths[0] if len(paths) == 1 else ""

    def paths(self, node: cst.CSTNode) -> list[str]:
        """Return the dotted paths that an expression may stand for, "" for an unknown one."""
        first = root(node)
        if isinstance(first, cst.Name) and first.value in self._captured:
            return []
        return sorted({self._followed(name) for name in self._names(node)})

    def _names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        found: Any = self._qualified.get(node, frozenset())
        return frozenset(found() if isinstance(found, LazyValue) else found)

    def _followed(self, name: md.QualifiedName) -> str:
        """Return the full path of a qualified name, or ""."""
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
        """Return what binds a name in the scope where it stands, or in one around it."""
        scope = self._scopes.get(name)
        return list(scope[name.value]) if scope and isinstance(name, cst.Name) else []

    def bindings(self, name: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the import aliases and aliased expressions that bind a name."""
        return [node for one in self._assignments(name) for node in self._bound(one)]

    def _bound(self, assignment: md.BaseAssignment) -> list[cst.CSTNode]:
        """Return what an import or an alias binds, or nothing."""
        if isinstance(assignment, md.ImportAssignment):
            aliases = getattr(assignment.node, "names", ())
            return [one for one in aliases if bound_name(one) == assignment.name]
        node = getattr(assignment, "node", None)
        known = self._aliases.get(self._local_name(node)) if node else None
        return [known.expression] if known else []

    def binds_otherwise(self, package: str) -> bool:
        """Whether any scope binds a package's name to something else than the package."""
        itself = {md.QualifiedName(package, md.QualifiedNameSource.IMPORT)}
        return package in self._captured or any(
            one.name.partition(".")[0] == package
            and one.get_qualified_names_for(package) != itself
            for scope in {scope for scope in self._scopes.values() if scope}
            for one in scope.assignments
        )
