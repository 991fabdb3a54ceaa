"""What a whole program says about single findings."""

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from tf_lso import names
from tf_lso.migrate import own_name, verdicts
from tf_lso.migrate.findings import (
    ARGUMENTS,
    CHANGED,
    FILES,
    GONE,
    METHOD,
    OPTIMIZER,
    SAME,
    SILENT,
    UNKNOWN,
    UNSURE,
    WORKS,
    Finding,
)
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.constructors import is_of_keras_3
from tf_lso.migrate.rules.methods import BARE
from tf_lso.names.keras3_names import KERAS_3_METHODS, KERAS_3_ONLY

# Calls that wrap an optimizer, or make `compile` do it.
_WRAPPING = {*names.OPTIMIZERS, "set_global_policy", "set_policy"}
# Calls that return something else with a `loss_scale`.
_WITH_SCALE = {"experimental.Policy", "experimental.global_policy", "get_layer_policy"}
_KERAS_3 = (
    "The file uses what only Keras 3 has, and nothing of the old API: this is Keras 3's "
    "own."
)
_KERAS_3_PATHS = tuple(
    f"{keras}.{name}."
    for keras in ("keras", "tensorflow.keras")
    for name in KERAS_3_ONLY
)
_OWN_NAME = "The program uses the name tf_lso for something of its own."
_INSTALLED = "tf_lso.install() is called in this file."


def settle(program: Program, findings: list[Finding]) -> list[Finding]:
    """Return the findings after what the program as a whole says about them."""
    found = list(_merged(findings))
    if all(one.rule in (OPTIMIZER, FILES) for one in found):
        return []  # it has nothing to do with loss scaling
    if _is_for_keras_3(program, found):
        _leave_to_keras_3(found)
    if not program.target.keras_2:
        _settle_objects(program, found)
    if own_name.is_shadowed(program):
        for one in found:
            if one.fix:
                one.leave(_OWN_NAME)
    return found


def _settle_objects(program: Program, findings: list[Finding]) -> None:
    """The methods of an object depend on what makes it."""
    _settle_scales(program, findings)
    installed = program.is_installed
    if installed or _wraps(program):
        _settle_methods(findings, installed or _wraps_already(program))
    elif any(_is_type_test(program, call) for call in program.facts.calls):
        _settle_type_tests(findings)
    if installed:
        _settle_installed(findings)


def _is_type_test(program: Program, call: cst.Call) -> bool:
    """Whether a call is `isinstance(optimizer, LossScaleOptimizer)` of an old class."""
    named = m.matches(call.func, m.Name("isinstance")) and len(call.args) == 2
    kinds = m.findall(call.args[1], m.Name() | m.Attribute()) if named else ()
    paths = (path for kind in kinds for path in program.paths(kind))
    return any(verdicts.symbol(path) in names.OPTIMIZERS for path in paths)


def _settle_type_tests(findings: list[Finding]) -> None:
    """A test for the class of tf_lso needs optimizers of tf_lso."""
    for one in findings:
        if one.rule == METHOD and one.is_problem:
            one.needs_install = f"`{one.verdict.name}` of an optimizer made elsewhere"


def _merged(findings: list[Finding]) -> Iterator[Finding]:
    """Yield one finding for each place: what a call says counts more than its name."""
    by_place: dict[tuple[int, int], Finding] = {}
    for one in findings:
        place = one.line, one.column
        other = by_place.get(place)
        if other is None or (one.of_call and not other.of_call):
            by_place[place] = one
    yield from (by_place[place] for place in sorted(by_place))


def _leave_to_keras_3(findings: list[Finding]) -> None:
    for one in findings:
        if one.rule in (CHANGED, SAME, ARGUMENTS):
            one.leave(_KERAS_3)
            one.now(WORKS, "Keras 3's own.")


def _is_for_keras_3(program: Program, findings: list[Finding]) -> bool:
    """Whether the program uses what only Keras 3 has, and nothing of the old API."""
    if any(one.rule in (GONE, METHOD, SILENT) and one.is_problem for one in findings):
        return False
    if program.facts.words.intersection(names.SCALING):
        return False
    if program.facts.attributes.intersection(KERAS_3_METHODS):
        return True
    if any(is_of_keras_3(program, call) for call in program.facts.calls):
        return True
    used = set(program.facts.imported).union(*map(program.paths, program.facts.chains))
    return any(f"{path}.".startswith(_KERAS_3_PATHS) for path in used)


def _wraps(program: Program) -> bool:
    """Whether the migrated program itself wraps optimizers by tf_lso."""
    return _wraps_already(program) or any(
        verdicts.symbol(path) in _WRAPPING and not verdicts.in_tf_keras(path)
        for path in _called(program)
    )


def _wraps_already(program: Program) -> bool:
    return any(
        path.startswith("tf_lso.") and path.rpartition(".")[2] in _WRAPPING
        for path in _called(program)
    )


def _called(program: Program) -> Iterator[str]:
    """Yield the full paths of what is called, or derived from."""
    for call in program.facts.calls:
        yield from program.paths(call.func)
    for base in program.facts.bases:
        yield from program.paths(base)


def _settle_scales(program: Program, findings: list[Finding]) -> None:
    """What the old policies and loss scales have as `loss_scale` moves with them."""
    if any(verdicts.symbol(path) in _WITH_SCALE for path in _called(program)):
        for one in findings:
            if one.rule == METHOD and one.verdict.name.endswith(".loss_scale"):
                one.fix, one.why_not = "by the name that makes the object", ""


def _settle_methods(findings: list[Finding], already: bool) -> None:
    """The methods are there once the program makes optimizers of tf_lso."""
    for one in findings:
        if one.rule not in (METHOD, SILENT):
            continue
        if one.why_not == BARE:
            one.now(UNSURE, f"{one.verdict.today} tf_lso's optimizers have it.")
            continue
        one.fix = None if already else "by the name that makes the optimizer"
        one.why_not = one.needs_install = ""
        if already:
            one.now(WORKS, "Works: this file makes optimizers of tf_lso.")


def _settle_installed(findings: list[Finding]) -> None:
    """What install() makes work needs nothing more."""
    for one in findings:
        if one.needs_install or one.rule in (GONE, CHANGED, ARGUMENTS):
            if one.rule != UNKNOWN:
                one.needs_install = ""
                one.why_not = "" if one.guarded or not one.fix else one.why_not
                one.now(WORKS, _INSTALLED)
