"""Rules LSO101, LSO102, LSO103, LSO108: find imports and uses of old names."""

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate import consequences, new_names
from tf_lso.migrate.findings import (
    BREAKS,
    CHANGED,
    GONE,
    SAME,
    UNSEEN,
    UNSURE,
    WORKS,
    Consequence,
)
from tf_lso.migrate.nodes import (
    attributes,
    imported_module,
    literal,
    positional,
    root,
)
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.methods import FRAMEWORKS, OTHERS
from tf_lso.names.spellings import MODULES

_STORED = "The program assigns its own value to an old name."
_LAYOUT = "The name contains a comment or parentheses."
_STAR = "A star import does not show which names it binds. Import them by name."
_TF_KERAS = "To move this use too, replace its module by tf_lso.keras.mixed_precision."
_NONE = "tf_lso has no such name. Run the program with --like, or stop using the name."
# Names that concern loss scaling, whichever module a program imports them from.
_DISTINCTIVE = {
    *("LossScaleOptimizer", "LossScaleOptimizerV1", "LossScaleOptimizerV3"),
    *("DynamicLossScale", "FixedLossScale", "MixedPrecisionLossScaleOptimizer"),
    *("enable_mixed_precision_graph_rewrite", "get_layer_policy", "set_global_policy"),
}
_DECIDES = "It depends on where the name comes from."
_RELATIVE = (
    "It is imported from another module of the program, which this check does not read."
)

_ONLY_A_RUN = "Only a run can show what this refers to."
# The meaning of names from these packages is not guessed. Other rules know the names of
# `FRAMEWORKS`, and `OTHERS` do not concern Keras.
_KNOWN = FRAMEWORKS | OTHERS
# What `x` may mean in a chain such as `x.experimental.Policy` or `x.FixedLossScale`.
_STABLE = "tensorflow.keras.mixed_precision"
_EXPERIMENTAL = (
    f"{_STABLE}.experimental",
    "tensorflow.mixed_precision.experimental",
    "tensorflow.train.experimental",
)
_SHADOWED = "The first part of the name may refer to something else. Write {} by hand."


def find(program: Program) -> None:
    """Find imports and uses of old names, such as `tf.keras.mixed_precision.Policy`."""
    for star in program.nodes(cst.ImportStar):
        _star(program, star)
    for alias in program.nodes(cst.ImportAlias):
        _import(program, alias)
    for call in program.nodes(cst.Call):
        _lookup(program, call)
    for parts in program.chains():
        for part in parts:
            if _use(program, part) or _unseen(program, part):
                break


def _star(program: Program, node: cst.ImportStar) -> None:
    module = imported_module(cst.ensure_type(program.parent(node), cst.ImportFrom))
    if consequence := consequences.of_path(f"{module}.*", True, program.target):
        rule = UNSEEN if consequence.status == UNSURE else GONE
        program.report(rule, node, consequence, _STAR)


def _import(program: Program, alias: cst.ImportAlias) -> None:
    path = program.imported_path(alias)
    if path.startswith(".") and alias.evaluated_name in _DISTINCTIVE:
        consequence = Consequence(alias.evaluated_name, UNSURE, _DECIDES)
        program.report(UNSEEN, alias, consequence, _RELATIVE)
    known = consequences.of_path(path, True, program.target)
    if known is None:
        _unknown(program, alias, path)
        return
    found = program.report(_rule(program, path, known), alias, known)
    if consequences.in_tf_keras(path) and known.status == WORKS:
        found.why_not = _TF_KERAS
    else:
        found.fix = known.replacement
        found.edits = {alias: known.replacement}


def _unknown(program: Program, alias: cst.ImportAlias, path: str) -> None:
    """Report an import of a name that tf_lso lacks from an old module that is gone."""
    module = path.rpartition(".")[0]
    is_there = consequences.is_there(module, program.target)
    if module in MODULES and not is_there:
        today = f"TensorFlow 2.16 and later have no {module}."
        program.report(GONE, alias, Consequence(path, BREAKS, today), _NONE)


def _lookup(program: Program, call: cst.Call) -> None:
    """Report an old name that `importlib.import_module` or `getattr` looks up by a string."""
    values = positional(call) or []
    text = literal(values[-1]) if values else None
    is_import = m.matches(call.func, m.Name("__import__"))
    is_import |= program.path(call.func) == "importlib.import_module"
    is_getattr = len(values) == 2 and m.matches(call.func, m.Name("getattr"))
    if text is None or not (is_import or is_getattr):
        return
    path = text if is_import else f"{program.path(values[0])}.{text}"
    known = consequences.of_path(path, is_import, program.target)
    if known is None or consequences.in_tf_keras(path):
        return
    found = program.report(_rule(program, path, known), call, known)
    found.fix = known.replacement
    found.edits = {values[-1]: f'"{found.fix}"'} if is_import else {call: found.fix}


def _rule(program: Program, path: str, consequence: Consequence) -> str:
    if consequence.status == WORKS:
        return SAME
    return CHANGED if consequences.is_there(path, program.target) else GONE


def _use(program: Program, node: cst.Attribute) -> bool:
    """Report a chain of attributes that is an old name. Return whether it is one."""
    path = program.path(node)
    if not consequences.is_old(path):
        return False
    if consequence := consequences.of_path(path, False, program.target):
        found = program.report(_rule(program, path, consequence), node, consequence)
        found.why_not = _why_not(program, node, path, consequence)
        if not found.why_not:
            new_names.fix(program, found, node)
    return True


def _why_not(
    program: Program, node: cst.Attribute, path: str, consequence: Consequence
) -> str:
    if program.is_stored(node):
        return _STORED
    if consequences.in_tf_keras(path) and consequence.status == WORKS:
        return _TF_KERAS
    text = program.code(node.with_changes(lpar=(), rpar=()))
    return _LAYOUT if "#" in text or "(" in text else ""


def _unseen(program: Program, node: cst.Attribute) -> bool:
    """Report a chain that ends like an old name, such as `x.experimental.Policy`."""
    new = _meant(program, node)
    if new:
        consequence = Consequence(program.code(node), UNSURE, _ONLY_A_RUN)
        program.report(UNSEEN, node, consequence, _SHADOWED.format(new))
    return bool(new)


def _meant(program: Program, node: cst.Attribute) -> str:
    """Return the new name for a chain that probably is an old name, or "" for other chains."""
    path = program.path(node)
    if path.partition(".")[0] in _KNOWN:
        return ""
    steps = path.split(".") if path else [program.code(root(node)), *attributes(node)]
    # The last three or more names may be the end of a path in TensorFlow or Keras.
    ends = [".".join(steps[start:]) for start in range(len(steps) - 2)]
    guesses = [f"tensorflow.{more}{end}" for end in ends for more in ("", "keras.")]
    if not path or path.startswith("."):
        if steps[-2] == "experimental":
            guesses += [f"{module}.{steps[-1]}" for module in _EXPERIMENTAL]
        elif steps[-1] in _DISTINCTIVE:
            guesses += [f"{module}.{steps[-1]}" for module in (_STABLE, *_EXPERIMENTAL)]
    for guess in (*program.paths(node), *guesses):
        consequence = consequences.of_path(guess)
        if consequence and consequences.symbol(guess):
            return consequence.replacement
    return ""
