"""Adjust the findings of a program to facts about the whole program."""

import libcst as cst
import libcst.matchers as m

from tf_lso import names
from tf_lso.migrate import added_imports, consequences, guards
from tf_lso.migrate.findings import (
    ARGUMENTS,
    CHANGED,
    FILES,
    GONE,
    METHOD,
    OPTIMIZER,
    SAME,
    SILENT,
    UNSURE,
    WORKS,
    Finding,
)
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.arguments import NUMBER
from tf_lso.migrate.rules.methods import BARE, IS_BARE
from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY

# After a call of these functions, `compile` wraps the optimizer in a LossScaleOptimizer.
_POLICY = {"set_global_policy", "set_policy"}
_WRAPPING = {*names.OPTIMIZERS, *_POLICY}
_KERAS_3 = "The file uses names that only Keras 3 has, and nothing of the old API."
_KERAS_3_PATHS = tuple(
    f"{keras}.{name}."
    for keras in ("keras", "tensorflow.keras")
    for name in KERAS_3_ONLY
)
_BARE = (BARE, IS_BARE)
_INSTALLED = "This file installs tf_lso."
_BY_MAKER = "by renaming the class in the call that creates the optimizer"
# The rules for uses that need no change of their own if the program calls `install()`.
_INSTALLABLE = (GONE, CHANGED, ARGUMENTS, METHOD, SILENT, FILES)
_GUARDABLE = (GONE, CHANGED, SAME, ARGUMENTS, METHOD, OPTIMIZER)


def adjusted(program: Program) -> list[Finding]:
    findings = _merged(program.findings)
    for found in findings:
        _adjust_guard(program, found)
    if all(found.rule in (OPTIMIZER, FILES) for found in findings):
        # Optimizers and calls that read files do not concern loss scaling by themselves.
        return []
    if is_installed(program):
        _adjust_installed(findings)
    elif _is_for_keras_3(program, findings):
        _adjust_keras_3(findings)
    elif not program.target.keras_2:
        _adjust_methods(program, findings)
    return findings


def adjust_to_install(findings: list[Finding], like: str) -> None:
    """Set the fix of findings that need only the line that installs tf_lso."""
    for found in findings:
        of_method = found.rule in (METHOD, SILENT) and found.why_not not in _BARE
        if of_method or (found.needs_install and not found.guarded):
            found.fix, found.why_not = added_imports.line(like), ""


def installs_for_policy(program: Program) -> set[str]:
    """Return a set with the reason for `install()` if `compile` would wrap an optimizer."""
    sets = any(consequences.symbol(path) in _POLICY for path in program.called)
    if sets and "compile" in program.words and not program.target.keras_2:
        return {"`compile` under a policy"}
    return set()


def is_installed(program: Program) -> bool:
    return "tf_lso.install" in program.called or "tf_lso.installed" in program.imported


def _adjust_guard(program: Program, found: Finding) -> None:
    """Remove the fix of a finding if its use, or code that the fix edits, is inside a guard."""
    if found.rule not in _GUARDABLE:
        return
    phrases = [guards.guard(program, node) for node in (found.node, *found.edits)]
    phrase = next(filter(None, phrases), "")
    found.guarded = bool(phrase)
    if phrase and found.rule == OPTIMIZER:
        found.leave(f"{phrase}.")
    elif phrase and found.fix:
        found.leave(f"{phrase}: tf_lso.install() handles it.")
        if found.is_problem or guards.asks_for_gone(program, found.node):
            found.needs_install = "names inside a guard"


def _merged(findings: list[Finding]) -> list[Finding]:
    """Return one finding for each position, if possible the one about arguments."""
    merged: dict[tuple[int, int], Finding] = {}
    for found in sorted(findings, key=lambda found: found.rule != ARGUMENTS):
        merged.setdefault((found.line, found.column), found)
    return [merged[position] for position in sorted(merged)]


def _adjust_installed(findings: list[Finding]) -> None:
    for found in findings:
        if found.rule in _INSTALLABLE and found.why_not not in _BARE:
            found.leave("")
            found.now(WORKS, _INSTALLED)
        found.needs_install = ""


def _adjust_keras_3(findings: list[Finding]) -> None:
    for found in findings:
        if found.rule in (CHANGED, SAME, ARGUMENTS):
            found.leave(_KERAS_3)
            found.now(WORKS, "This is Keras 3's own name.")
            found.needs_install = ""


def _is_for_keras_3(program: Program, findings: list[Finding]) -> bool:
    if any(f.rule in (GONE, METHOD, SILENT) and f.is_problem for f in findings):
        return False
    words = program.words
    if words.intersection(names.SCALING):
        return False
    if words.intersection(KERAS_3_METHODS):
        return True
    if {f.why_not for f in findings if f.rule == ARGUMENTS} == {NUMBER}:
        return True
    used = program.imported | program.called
    return any(f"{path}.".startswith(_KERAS_3_PATHS) for path in used)


def _adjust_methods(program: Program, findings: list[Finding]) -> None:
    """Adjust findings about methods if the migrated program makes tf_lso's optimizers."""
    already = any(map(_wraps_already, program.called))
    if already or any(_moving_symbol(path) in _WRAPPING for path in program.called):
        for found in findings:
            if found.why_not == BARE:
                found.now(
                    UNSURE, f"{found.consequence.today} tf_lso's optimizers have it."
                )
            elif found.rule in (METHOD, SILENT) and found.why_not != IS_BARE:
                found.fix = "" if already else _BY_MAKER
                found.why_not = found.needs_install = ""
                if already:
                    found.now(WORKS, "Works: this file makes optimizers of tf_lso.")
    elif _tests_type(program):
        # After the migration, the program's `isinstance` tests for tf_lso's class. Optimizers
        # that are made elsewhere have this class only if `install()` is called.
        for found in findings:
            if found.rule == METHOD and found.is_problem:
                name = found.consequence.name
                found.needs_install = f"`{name}` of an optimizer made elsewhere"


def _moving_symbol(path: str) -> str:
    """Return the key in `names.SYMBOLS` for a path, or "" if the path works or is not old."""
    consequence = consequences.of_path(path)
    return (
        consequences.symbol(path) if consequence and consequence.status != WORKS else ""
    )


def _wraps_already(path: str) -> bool:
    return path.startswith("tf_lso.") and path.rpartition(".")[2] in _WRAPPING


def _tests_type(program: Program) -> bool:
    for call in program.nodes(cst.Call):
        if m.matches(call.func, m.Name("isinstance")):
            kinds = m.findall(call, m.Name() | m.Attribute())
            symbols = {_moving_symbol(program.path(kind)) for kind in kinds}
            if symbols.intersection(names.OPTIMIZERS):
                return True
    return False
