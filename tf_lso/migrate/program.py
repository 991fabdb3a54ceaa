"""Define `Program`, which holds a parsed program, facts about it, and its findings."""

from collections.abc import Iterator

import libcst as cst
from libcst import metadata as md

from tf_lso.migrate.findings import Finding, Verdict
from tf_lso.migrate.nodes import literal
from tf_lso.migrate.scopes import Scopes
from tf_lso.names.targets import TODAY, Target


class Program(Scopes):
    """A parsed program with LibCST's metadata and the findings of the rules.

    Attributes:
      module: LibCST's tree.
      target: the TensorFlow on which the program will run.
      findings: the findings that the rules have reported so far.
      imported: the full names of all imported modules and names.
      packages: the top-level packages of all imports.
      defined: the names of all functions that the program defines.
      called: the full paths of all called objects and base classes.
      words: the names of all attributes and the texts of all string literals.
    """

    def __init__(self, module: cst.Module, target: Target = TODAY) -> None:
        wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
        super().__init__(wrapper)
        self.module, self.target = module, target
        self._positions = wrapper.resolve(md.PositionProvider)
        self.findings: list[Finding] = []
        self.imported = set(map(self.imported_path, self.nodes(cst.ImportAlias)))
        self.packages = {path.partition(".")[0] for path in self.imported}
        self.defined = {node.name.value for node in self.nodes(cst.FunctionDef)}
        called = [node.func for node in self.nodes(cst.Call)]
        called += [base.value for c in self.nodes(cst.ClassDef) for base in c.bases]
        self.called = set(map(self.path, called))
        self.words = {node.attr.value for node in self.nodes(cst.Attribute)}
        self.words.update(literal(s) or "" for s in self.nodes(cst.SimpleString))

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
        """Return the source text of a node."""
        return self.module.code_for_node(node)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line number of a node, from 1."""
        return int(self._positions[node].start.line)

    def report(
        self, rule: str, node: cst.CSTNode, verdict: Verdict, why_not: str = ""
    ) -> Finding:
        """Make a finding at the position of a node, add it to `findings` and return it."""
        start = self._positions[node].start
        finding = Finding(rule, verdict, node, start.line, start.column + 1)
        finding.why_not = why_not
        self.findings.append(finding)
        return finding
