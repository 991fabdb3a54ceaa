"""Find the nodes of a parsed program, and what the names in the program refer to."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import libcst as cst
from libcst import metadata as md
from libcst.metadata.base_provider import LazyValue

from tf_lso.migrate.nodes import (
    assigned_values,
    attributes,
    bound_name,
    imported_module,
    nodes_by_type,
    root,
)

# Matches the redundant beginning of a path with several `compat` parts. For example,
# `tensorflow.compat.v2.compat.v1` is the same module as `tensorflow.compat.v1`.
_COMPAT = re.compile(r"^tensorflow(\.compat\.v[12])+(?=\.compat\.v[12]\b)")
_Node = TypeVar("_Node", bound=cst.CSTNode)


class Scopes:
    """The nodes of LibCST's tree, and the dotted paths to which names in the tree refer."""

    def __init__(self, wrapper: md.MetadataWrapper) -> None:
        self._qualified = wrapper.resolve(md.QualifiedNameProvider)
        self._scopes = wrapper.resolve(md.ScopeProvider)
        self._parents = wrapper.resolve(md.ParentNodeProvider)
        self._contexts = wrapper.resolve(md.ExpressionContextProvider)
        self._nodes = nodes_by_type(wrapper.module)
        # The names that patterns of `match` statements bind. LibCST does not record these
        # bindings, so `paths` must treat the names as unknown.
        patterns: list[Any] = [*self.nodes(cst.MatchAs), *self.nodes(cst.MatchStar)]
        self._captured = {p.name.value for p in patterns if p.name}
        self._assigned = assigned_values(self._nodes)
        scopes = {scope for scope in self._scopes.values() if scope}
        self._all_assignments = [a for scope in scopes for a in scope.assignments]
        self._values = self._local_values()
        # The local names whose values `paths` is looking up now. `paths` needs this list to
        # detect names that refer to themselves.
        self._followed: list[str] = []

    # --- Nodes.

    def nodes(self, kind: type[_Node]) -> list[_Node]:
        """Return the list of all nodes of a type, in the order of the program."""
        return self._nodes.get(kind, [])

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield all nodes that contain a node, from the parent up to the module."""
        while parent := self._parents.get(node):
            yield parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node."""
        return self._parents.get(node)

    def is_stored(self, node: cst.CSTNode) -> bool:
        """Return whether the program assigns to an expression or deletes it.

        `x += 1` is not counted, since it reads the expression too.
        """
        is_read = isinstance(self.parent(node), cst.AugAssign)
        return self._stores(node) and not is_read

    def _stores(self, node: cst.CSTNode) -> bool:
        return self._contexts.get(node) not in (None, md.ExpressionContext.LOAD)

    def binds_attribute(self, node: cst.CSTNode) -> bool:
        """Return whether `node` is the target `C.mp` of `C.mp = mp`, where `C` is a class."""
        return self.is_stored(node) and any(self._class_attribute(node))

    # --- Names.

    def imported_path(self, alias: cst.ImportAlias) -> str:
        """Return the full path of an imported module or name."""
        statement = self.parent(alias)
        if isinstance(statement, cst.ImportFrom):
            return f"{imported_module(statement)}.{alias.evaluated_name}"
        return alias.evaluated_name

    def path(self, node: cst.CSTNode) -> str:
        """Return the dotted path to which an expression refers.

        Return "" if the path is unknown or the expression may refer to several paths.
        """
        paths = self.paths(node)
        return paths[0] if len(paths) == 1 else ""

    def sources(self, name: cst.CSTNode) -> list[str]:
        """Return the full names of the imports that may bind a name.

        For `tf` after `from .compat import tf`, the list is [".compat.tf"].
        """
        source = md.QualifiedNameSource.IMPORT
        return sorted(n.name for n in self._names(name) if n.source is source)

    def paths(self, node: cst.CSTNode) -> list[str]:
        """Return the dotted paths to which an expression may refer. "" is an unknown path."""
        if isinstance(node, cst.ImportAlias):
            return [self.imported_path(node)]
        first = root(node)
        if isinstance(first, cst.Name) and first.value in self._captured:
            return []
        names, rest = self._names(first), attributes(node)
        return sorted({path for name in names for path in self._follow(name, rest)})

    def _names(self, node: cst.CSTNode) -> frozenset[md.QualifiedName]:
        """Return LibCST's qualified names of a node.

        The set has a qualified name for each assignment that may bind the name, including
        assignments after the node.
        """
        scope = self._scopes.get(node)
        if isinstance(node, cst.Name) and scope:
            return frozenset(scope.get_qualified_names_for(node.value))
        found: Any = self._qualified.get(node, frozenset())
        return frozenset(found() if isinstance(found, LazyValue) else found)

    def _follow(self, name: md.QualifiedName, rest: list[str]) -> set[str]:
        """Return the paths to which `name` and the attributes `rest` after it may refer.

        "" stands for an unknown path.
        """
        path = ".".join([name.name, *rest])
        paths = {path}
        if name.source is not md.QualifiedNameSource.IMPORT:
            paths = self._through_values(path)
        return {
            "" if p.startswith(".") else _COMPAT.sub("tensorflow", p) for p in paths
        }

    def _through_values(self, name: str) -> set[str]:
        """Return the paths to which a dotted name may refer if it begins with a local name.

        The function replaces the local name by each of the values that are assigned to it.
        """
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
        """Return the paths to which the assigned values of a local name refer."""
        if local in self._followed:
            # The program has assigned the name to itself, possibly through other names.
            return {""}
        self._followed.append(local)
        paths = {
            path
            for value in self._values[local]
            for path in (self.paths(value) if value else []) or [""]
        }
        self._followed.pop()
        return paths

    def _assignments(self, name: cst.CSTNode) -> list[md.BaseAssignment]:
        """Return LibCST's list of the assignments to which a use of a name may refer."""
        scope = self._scopes.get(name)
        return list(scope[name.value]) if scope and isinstance(name, cst.Name) else []

    def bindings(self, name: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the nodes to which the program binds a name.

        A node is an imported name, or the expression `a.b` in an assignment `name = a.b`.
        """
        return [node for a in self._assignments(name) for node in self._bound(a)]

    def _bound(self, assignment: md.BaseAssignment) -> list[cst.CSTNode]:
        """Return the nodes to which one assignment binds its name, as `bindings` explains."""
        if isinstance(assignment, md.ImportAssignment):
            aliases = getattr(assignment.node, "names", ())
            return [alias for alias in aliases if bound_name(alias) == assignment.name]
        if isinstance(assignment, md.Assignment) and assignment.node in self._assigned:
            return [self._assigned[assignment.node]]
        return []

    def binds_otherwise(self, package: str) -> bool:
        """Return whether the program binds the name `package` to anything but this package."""
        itself = {md.QualifiedName(package, md.QualifiedNameSource.IMPORT)}
        return package in self._captured or any(
            assignment.name.partition(".")[0] == package
            and assignment.get_qualified_names_for(package) != itself
            for assignment in self._all_assignments
        )

    # --- The values of local names.

    def _local_values(self) -> dict[str, list[cst.CSTNode | None]]:
        """Return a dict that maps each local name to the list of values assigned to the name.

        A local name is qualified by its function or class, such as `f.<locals>.mp` or `C.mp`.
        Functions of the same name share their local names. None in the list stands for a value
        that is not a dotted name.
        """
        values: dict[str, list[cst.CSTNode | None]] = {}
        for assignment in self._all_assignments:
            for name, value in self._values_of(assignment):
                values.setdefault(name, []).append(value)
        for target in filter(self._stores, self.nodes(cst.Attribute)):
            for name in self._class_attribute(target):
                values.setdefault(name, []).append(self._assigned.get(target))
        return values

    def _values_of(
        self, assignment: md.BaseAssignment
    ) -> Iterator[tuple[str, cst.CSTNode | None]]:
        """Yield (local name, value) for an assignment, or for an import in the body of a class.

        The value is None if the function cannot determine the path to which the value refers.
        """
        scope, name = assignment.scope, assignment.name
        if type(assignment) is md.Assignment and not self._declares(assignment.node):
            value = self._assigned.get(assignment.node)
            if value and self._binds_later(root(value)):
                value = None
            for local in assignment.get_qualified_names_for(name):
                yield local.name, value
        elif type(assignment) is md.ImportAssignment and type(scope) is md.ClassScope:
            aliases: list[Any] = self._bound(assignment)
            for alias in aliases:
                binds_package = not alias.asname and "." in alias.evaluated_name
                for local in self._names(scope.node):
                    yield f"{local.name}.{name}", None if binds_package else alias

    def _declares(self, target: cst.CSTNode) -> bool:
        """Return whether a statement such as `x: Any` only declares the target."""
        statement = self.parent(target)
        return isinstance(statement, cst.AnnAssign) and statement.value is None

    def _class_attribute(self, target: cst.CSTNode) -> Iterator[str]:
        """Yield the local name of a target such as `C.mp`, if `C` is a class of the program."""
        first, names = root(target), attributes(target)
        bound = {type(getattr(a, "node", a)) for a in self._assignments(first)}
        if len(names) == 1 and bound == {cst.ClassDef}:
            for local in self._names(first):
                yield f"{local.name}.{names[0]}"

    def _binds_later(self, name: cst.CSTNode) -> bool:
        """Return whether a class body reads an imported name and also assigns to this name.

        An example is `mixed_precision = mixed_precision` in the body of a class.
        """
        kinds = {type(assignment) for assignment in self._assignments(name)}
        sources = {found.source for found in self._names(name)}
        return md.QualifiedNameSource.IMPORT in sources and kinds == {md.Assignment}
