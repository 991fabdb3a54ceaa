"""What a whole program says about single findings."""

import libcst as cst
import libcst.matchers as m

from tf_lso import names
from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import (
    ARGUMENTS,
    CHANGED,
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
from tf_lso.migrate.rules.constructors import NUMBER
from tf_lso.migrate.rules.methods import BARE
from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY

# Calls that wrap an optimizer, or make `compile` do it.
_WRAPPING = {*names.OPTIMIZERS, "set_global_policy", "set_policy"}
_KERAS_3 = "The file uses what only Keras 3 has, and nothing of the old API."
_KERAS_3_PATHS = tuple(
    f"{keras}.{name}."
    for keras in ("keras", "tensorflow.keras")
    for name in KERAS_3_ONLY
)
_OWN_NAME = "The program uses the name tf_lso for something of its own."
_INSTALLED = "tf_lso.install() is called in this file."
_BY_MAKER = "by the name that makes the optimizer"
# What install() makes work.
_INSTALLABLE = (GONE, CHANGED, ARGUMENTS, METHOD, SILENT)


def settle(program: Program) -> list[Finding]:
    """Return the findings after what the program as a whole says about them."""
    found = _merged(program.findings)
    if all(one.rule == OPTIMIZER for one in found):
        return []  # it has nothing to do with loss scaling
    if is_installed(program):
        _settle_installed(found)
    elif _is_for_keras_3(program, found):
        for one in found:
            if one.rule in (CHANGED, SAME, ARGUMENTS):
                one.leave(_KERAS_3)
                one.now(WORKS, "Keras 3's own.")
    elif not program.target.keras_2:
        _settle_methods(program, found)
    if program.binds_otherwise("tf_lso"):
        for one in found:
            if one.fix or one.needs_install:
                one.leave(_OWN_NAME)
                one.needs_install = ""
    return found


def settle_by_install(findings: list[Finding]) -> None:
    """What install() makes work is not left to a person."""
    for found in findings:
        of_method = found.rule in (METHOD, SILENT) and found.why_not != BARE
        if of_method or (found.needs_install and not found.guarded):
            found.fix, found.why_not = "tf_lso.install()", ""


def is_installed(program: Program) -> bool:
    """Whether the program calls `tf_lso.install()`."""
    return "tf_lso.install" in program.called


def _merged(findings: list[Finding]) -> list[Finding]:
    """Return one finding for each place: what a call says counts more than its name."""
    by_place: dict[tuple[int, int], Finding] = {}
    for one in findings:
        if one.rule == ARGUMENTS or (one.line, one.column) not in by_place:
            by_place[one.line, one.column] = one
    return [by_place[place] for place in sorted(by_place)]


def _settle_installed(findings: list[Finding]) -> None:
    """Nothing has to change where install() is called, but for a bare optimizer."""
    for one in findings:
        if one.rule in _INSTALLABLE and one.why_not != BARE:
            one.leave("")
            one.now(WORKS, _INSTALLED)
            one.needs_install = ""


def _is_for_keras_3(program: Program, findings: list[Finding]) -> bool:
    """Whether the program uses what only Keras 3 has, and nothing of the old API."""
    if any(one.rule in (GONE, METHOD, SILENT) and one.is_problem for one in findings):
        return False
    words = program.words
    if words.intersection(names.SCALING):
        return False
    if words.intersection(KERAS_3_METHODS):
        return True
    if {one.why_not for one in findings if one.rule == ARGUMENTS} == {NUMBER}:
        return True
    used = program.imported | program.called
    return any(f"{path}.".startswith(_KERAS_3_PATHS) for path in used)


def _settle_methods(program: Program, findings: list[Finding]) -> None:
    """The methods are there once the program makes optimizers of tf_lso."""
    already = any(map(_wraps_already, program.called))
    if already or any(_moving_symbol(path) in _WRAPPING for path in program.called):
        for one in findings:
            if one.why_not == BARE:
                one.now(UNSURE, f"{one.verdict.today} tf_lso's optimizers have it.")
            elif one.rule in (METHOD, SILENT):
                one.fix = "" if already else _BY_MAKER
                one.why_not = one.needs_install = ""
                if already:
                    one.now(WORKS, "Works: this file makes optimizers of tf_lso.")
    elif _tests_type(program):  # for the class of tf_lso, once it is migrated
        for one in findings:
            if one.rule == METHOD and one.is_problem:
                one.needs_install = (
                    f"`{one.verdict.name}` of an optimizer made elsewhere"
                )


def _moving_symbol(path: str) -> str:
    """Return the symbol of a name that does not work today, and moves to tf_lso, or ""."""
    verdict = verdicts.of_path(path)
    return verdicts.symbol(path) if verdict and verdict.status != WORKS else ""


def _wraps_already(path: str) -> bool:
    return path.startswith("tf_lso.") and path.rpartition(".")[2] in _WRAPPING


def _tests_type(program: Program) -> bool:
    """Whether the program has `isinstance(optimizer, LossScaleOptimizer)` of an old class."""
    for call in program.nodes(cst.Call):
        if m.matches(call.func, m.Name("isinstance")):
            kinds = m.findall(call, m.Name() | m.Attribute())
            symbols = {_moving_symbol(program.path(kind)) for kind in kinds}
            if symbols.intersection(names.OPTIMIZERS):
                return True
    return False
