"""LSO108: chains that end as an old name does, behind a name that cannot be seen."""

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import UNSEEN, UNSURE, Verdict
from tf_lso.migrate.nodes import root
from tf_lso.migrate.program import Program

_TODAY = "What this stands for is known only when it runs."
_SHADOWED = (
    "The name that it starts with is bound to something else too, or cannot be seen; "
    "write {} by hand."
)
# What a chain may start with, where another module of the program or a star binds it.
_PARENTS = {"mixed_precision": "tensorflow.keras", "keras": "tensorflow"}


class Unseen(cst.BatchableCSTVisitor):
    """Finds `self.tf.keras.mixed_precision.Policy`, or `tf` of another module."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._seen: set[cst.CSTNode] = set()  # attributes within a chain

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Look at each part of a chain, the longest first."""
        if node in self._seen:
            return
        parent = self.program.parent(node)
        found = isinstance(parent, (cst.ImportFrom, cst.ImportAlias))
        part: cst.BaseExpression = node
        while isinstance(part, cst.Attribute):
            self._seen.add(part)
            new = None if found else self._meant(part)
            if new:
                verdict = Verdict(self.program.code(part), UNSURE, _TODAY)
                why = _SHADOWED.format(new)
                self.program.report(UNSEEN, part, verdict, why_not=why)
                found = True
            part = part.value

    def _meant(self, node: cst.Attribute) -> str | None:
        """Return the new name of a chain whose end is that of an old name."""
        old = {verdicts.is_old(path) for path in self.program.paths(node)}
        if len(old) == 1 or (not old and self._is_another(root(node))):
            return None  # it is an old name, or none, for certain
        steps: list[str] = []
        part: cst.BaseExpression = node
        while isinstance(part, cst.Attribute):
            steps.insert(0, part.attr.value)
            part = part.value
        paths = ["tensorflow." + ".".join(steps[i:]) for i in range(len(steps) - 2)]
        # The name may stand for Keras, which has the module `mixed_precision`.
        is_imported = isinstance(part, cst.Name) and self.program.imports(part)
        if steps[0] == "mixed_precision" and is_imported:
            paths.append(".".join(["tensorflow.keras", *steps]))
        if isinstance(part, cst.Name) and self._may_be_a_module(part):
            paths.append(".".join([_PARENTS[part.value], part.value, *steps]))
        for path in paths:
            if verdicts.is_old(path) and (verdict := verdicts.of_path(path)):
                return verdict.replacement
        return None

    def _may_be_a_module(self, first: cst.Name) -> bool:
        """Whether a name may be the old module; `from . import` brings the program's own."""
        statements = (one.node for one in self.program.imports(first))
        own = m.ImportFrom(module=None, relative=[m.AtLeastN(n=1)])
        return first.value in _PARENTS and not any(
            m.matches(s, own) for s in statements
        )

    def _is_another(self, first: cst.BaseExpression) -> bool:
        """Whether a chain starts with a module that is not TensorFlow or Keras."""
        known = self.program.paths(first)
        return bool(known) and not any(
            p.startswith(("tensorflow", "keras")) for p in known
        )
