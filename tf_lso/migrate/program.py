"""A parsed program: its nodes, the meaning of its names, and the findings in it."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import libcst as cst
from libcst import metadata as md
from libcst.metadata.base_provider import LazyValue

from tf_lso.migrate.findings import Finding, Verdict
from tf_lso.migrate.nodes import (
    attributes,
    bound_name,
    imported_module,
    imported_names,
    literal,
    nodes_by_type,
    root,
)
from tf_lso.names.targets import TODAY, Target

# Matches what paths with several `compat` parts can omit. For example,
# `tensorflow.compat.v2.compat.v1` is the same module as `tensorflow.compat.v1`.
_COMPAT = re.compile(r"^tensorflow(\.compat\.v[12])+(?=\.compat\.v[12]\b)")
_Node = TypeVar("_Node", bound=cst.CSTNode)


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
      words: the names of all attributes, and the texts of all strings.
    """

    def __init__(self, module: cst.Module, target: Target = TODAY) -> None:
        wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
        self.module, self.target = module, target
        self._qualified = wrapper.resolve(md.QualifiedNameProvider)
        self._scopes = wrapper.resolve(md.ScopeProvider)
        self._parents = wrapper.resolve(md.ParentNodeProvider)
        self._positions = wrapper.resolve(md.PositionProvider)
        self.findings: list[Finding] = []
        self._nodes = nodes_by_type(module)
        # The names that the patterns of `match` bind. LibCST does not know these names.
        patterns: list[Any] = [*self.nodes(cst.MatchAs), *self.nodes(cst.MatchStar)]
        self._captured = {p.name.value for p in patterns if p.name}
        # Maps the target of an assignment to the chain of names on the right side.
        self._assigned: dict[cst.CSTNode, cst.BaseExpression] = {}
        for node in self.nodes(cst.Assign):
            if isinstance(node.value, (cst.Name, cst.Attribute)):
                self._assigned.update({t.target: node.value for t in node.targets})
        self._values = self._local_values()
        self._followed: list[str] = []  # the local names that `paths` is following
        self.imported = set(self._imported())
        self.packages = {path.partition(".")[0] for path in self.imported}
        self.defined = {node.name.value for node in self.nodes(cst.FunctionDef)}
        called = [node.func for node in self.nodes(cst.Call)]
        called += [base.value for c in self.nodes(cst.ClassDef) for base in c.bases]
        self.called = set(map(self.path, called))
        self.words = {node.attr.value for node in self.nodes(cst.Attribute)}
        self.words.update(literal(s) or "" for s in self.nodes(cst.SimpleString))

    def _local_values(self) -> dict[str, list[cst.BaseExpression | None]]:
        """Return {local name, such as `f.<locals>.mp`: list of its assigned values}.

        None stands for a value that is not a path. Functions with the same name share their
        local names.
        """
        values: dict[str, list[cst.BaseExpression | None]] = {}
        for scope in {scope for scope in self._scopes.values() if scope}:
            for assignment in scope.assignments:
                if type(assignment) is md.Assignment:
                    value = self._assigned.get(assignment.node)
                    if value and self._binds_later(root(value)):
                        value = None
                    for name in assignment.get_qualified_names_for(assignment.name):
                        values.setdefault(name.name, []).append(value)
        return values

    def _binds_later(self, name: cst.CSTNode) -> bool:
        """Return whether a class reads an imported name and binds this name to a value.

        An example is `mixed_precision = mixed_precision` in the body of a class.
        """
        kinds = {type(assignment) for assignment in self._assignments(name)}
        sources = {found.source for found in self._names(name)}
        return md.QualifiedNameSource.IMPORT in sources and kinds == {md.Assignment}

    def _imported(self) -> Iterator[str]:
        for node in self.nodes(cst.Import):
            yield from (alias.evaluated_name for alias in node.names)
        for statement in self.nodes(cst.ImportFrom):
            module = imported_module(statement)
            for alias in imported_names(statement):
                yield f"{module}.{alias.evaluated_name}"

    # --- Nodes.

    def nodes(self, kind: type[_Node]) -> list[_Node]:
        """Return the list of all nodes of a type, in the order of the tree."""
        return self._nodes.get(kind, [])

    def chains(self) -> Iterator[list[cst.Attribute]]:
        """Yield a list of parts for each chain of attributes, the longest part first."""
        others = (cst.Attribute, cst.ImportFrom, cst.ImportAlias)
        for node in self.nodes(cst.Attribute):
            if not isinstance(self.parent(node), others):
                parts = [node]
                while isinstance(parts[-1].value, cst.Attribute):
                    parts.append(parts[-1].value)
                yield parts

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, from the parent to the module."""
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

        Return "" if the path is unknown or the expression may refer to several paths.
        """
        paths = self.paths(node)
        return paths[0] if len(paths) == 1 else ""

    def paths(self, node: cst.CSTNode) -> list[str]:
        """Return the paths to which an expression may refer, with "" for an unknown path."""
        first = root(node)
        if isinstance(first, cst.Name) and first.value in self._captured:
            return []
        names, rest = self._names(first), attributes(node)
        return sorted({path for name in names for path in self._follow(name, rest)})

    def _names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        """Return the qualified names of a node from all its assignments, even later ones."""
        scope = self._scopes.get(node)
        if isinstance(node, cst.Name) and scope:
            return frozenset(scope.get_qualified_names_for(node.value))
        found: Any = self._qualified.get(node, frozenset())
        return frozenset(found() if isinstance(found, LazyValue) else found)

    def _follow(self, name: md.QualifiedName, rest: list[str]) -> set[str]:
        """Return the full paths for attributes of a name. "" stands for an unknown path."""
        path = ".".join([name.name, *rest])
        paths = {path}
        if name.source is not md.QualifiedNameSource.IMPORT:
            paths = self._through_values(path)
        return {
            "" if p.startswith(".") else _COMPAT.sub("tensorflow", p) for p in paths
        }

    def _through_values(self, name: str) -> set[str]:
        """Return the paths for a dotted name that begins with a local name."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            local, rest = ".".join(parts[:end]), parts[end:]
            if local in self._values:
                return {
                    path and ".".join([path, *rest])
                    for path in self._value_paths(local)
                }
        return {""}

    def _value_paths(self, local: str) -> set[str]:
        """Return the paths to which a local name may refer."""
        if local in self._followed:
            return {""}  # the name is bound to itself through other names
        self._followed.append(local)
        paths = {
            path
            for value in self._values[local]
            for path in (self.paths(value) if value else [""])
        }
        self._followed.pop()
        return paths

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
        if isinstance(assignment, md.Assignment) and assignment.node in self._assigned:
            return [self._assigned[assignment.node]]
        return []

    def binds_otherwise(self, package: str) -> bool:
        """Return whether any scope binds the name of a package to something else."""
        itself = {md.QualifiedName(package, md.QualifiedNameSource.IMPORT)}
        return package in self._captured or any(
            assignment.name.partition(".")[0] == package
            and assignment.get_qualified_names_for(package) != itself
            for scope in {scope for scope in self._scopes.values() if scope}
            for assignment in scope.assignments
        )
