"""Collects what a program consists of, in one walk over its tree."""

import re

import libcst as cst

from tf_lso.migrate.nodes import imported_module, literal


class Facts(cst.CSTVisitor):
    """The imports, calls, names and texts of a program.

    Attributes:
      imported: the full names of all modules and names that are imported.
      defined: the names of all functions that the program defines.
      calls, chains, bases: all calls, attributes, and base classes.
      attributes: the names of all attributes that it reads.
      words: these names, and its strings.
      in_strings: the words in its strings.
      names: identifier -> its nodes, in whatever scope.
      comments: all comments.
      captured: the names that patterns of `match` bind, which LibCST does not see.
      assigned: all assignments.
    """

    def __init__(self) -> None:
        self.imported: set[str] = set()
        self.defined: set[str] = set()
        self.calls: list[cst.Call] = []
        self.chains: list[cst.Attribute] = []
        self.bases: list[cst.BaseExpression] = []
        self.attributes: set[str] = set()
        self.words: set[str] = set()
        self.in_strings: set[str] = set()
        self.captured: set[str] = set()
        self.assigned: list[cst.Assign] = []
        self.names: dict[str, list[cst.Name]] = {}
        self.comments: list[cst.Comment] = []

    def visit_Name(self, node: cst.Name) -> None:
        """Note the identifier."""
        self.names.setdefault(node.value, []).append(node)

    def visit_Comment(self, node: cst.Comment) -> None:
        """Note the comment."""
        self.comments.append(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        """Note the assignment."""
        self.assigned.append(node)

    def visit_Import(self, node: cst.Import) -> None:
        """Note the imported modules."""
        self.imported.update(alias.evaluated_name for alias in node.names)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        """Note the imported modules and names."""
        module = imported_module(node)
        names = node.names if not isinstance(node.names, cst.ImportStar) else ()
        self.imported.update(f"{module}.{alias.evaluated_name}" for alias in names)

    def visit_Call(self, node: cst.Call) -> None:
        """Note the call."""
        self.calls.append(node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Note the base classes."""
        self.bases += [base.value for base in node.bases]

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Note the name."""
        self.defined.add(node.name.value)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Note the name."""
        self.chains.append(node)
        self.attributes.add(node.attr.value)
        self.words.add(node.attr.value)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        """Note the text."""
        text = literal(node) or ""
        self.words.add(text)
        self.in_strings.update(re.findall(r"\w+", text))

    def visit_MatchAs(self, node: cst.MatchAs) -> None:
        """Note the captured name."""
        if node.name:
            self.captured.add(node.name.value)

    def visit_MatchStar(self, node: cst.MatchStar) -> None:
        """Note the captured name."""
        if node.name:
            self.captured.add(node.name.value)
