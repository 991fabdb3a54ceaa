"""Rules LSO105, LSO106, LSO110, LSO112: find methods and attributes of old classes."""

import libcst as cst
import libcst.matchers as m

from tf_lso import names
from tf_lso.migrate import guards
from tf_lso.migrate.findings import (
    BREAKS,
    METHOD,
    PRIVATE,
    PROTOCOL,
    SILENT,
    UNSURE,
    WORKS,
    WRONG,
    Consequence,
)
from tf_lso.migrate.nodes import literal
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules import bare

FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras", "tf_lso"})
# Other libraries that have optimizers. If a program imports one of them and no package of
# `FRAMEWORKS`, its optimizers are not those of Keras.
OTHERS = frozenset({"torch", "apex", "jax", "optax", "mindspore", "mxnet", "paddle"})
_ELSEWHERE = (
    "Nothing in this file makes the optimizer. Migrate the file that wraps it, compiles "
    "it or sets the policy, or call tf_lso.install() at the top of the program."
)
IS_BARE = (
    "This is an unwrapped Keras 3 optimizer. Wrap it by tf_lso.LossScaleOptimizer."
)
BARE = (
    "The optimizers of tf_lso have it, but a bare Keras 3 optimizer does not. Write "
    "`learning_rate` there."
)
_SILENT = (
    "Trains wrong, silently: Keras 3's LossScaleOptimizer has no {}, so the guarded call "
    "is left out. The loss is not scaled, but the gradients are divided by the scale."
)
_LIKE = "tf-lso run --like 2.4 and install(like='2.4') give it the old base class."
# Private methods of old optimizer classes. Up to version 2.10, TensorFlow called some of them.
_PROTOCOL = (
    *("_resource_apply_dense", "_resource_apply_sparse", "_create_slots"),
    *("_resource_apply_sparse_duplicate_indices", "_set_hyper", "_get_hyper"),
)
# Maps a private name to (rule, what happens today, what to do).
_PRIVATE = {
    **dict.fromkeys(
        _PROTOCOL,
        (
            PROTOCOL,
            "In TensorFlow 2.11 and later only the legacy optimizers have or call it. "
            "Another class trains as its base class does, or fails.",
            _LIKE,
        ),
    ),
    "_DynamicLossScaleState": (
        PRIVATE,
        "Keras 3 has no such class.",
        "tf_lso.LossScale is the base class for loss scales of your own.",
    ),
    "_get_optimizer": (
        PRIVATE,
        "Keras 3's models do not have it, and `compile` does not call it.",
        "tf_lso.install() adds a method that wraps an optimizer. `compile` does not call "
        "a method that the model defines itself.",
    ),
}
_TESTS = m.Call(m.Name("hasattr"), [m.Arg(), m.Arg()]) | m.Call(
    m.Name("getattr"), [m.Arg(), m.Arg(), m.Arg()]
)
_SELF = m.Name("self") | m.Name("cls") | m.Name("super")


def find(program: Program) -> None:
    """Find uses of methods such as `get_scaled_loss`, and tests for such methods."""
    if not program.packages & FRAMEWORKS and program.packages & OTHERS:
        return
    for node in program.nodes(cst.Attribute):
        if not program.is_stored(node):
            _attribute(program, node, node.attr.value)
    for function in program.nodes(cst.FunctionDef):
        _private(program, function.name)
    for call in program.nodes(cst.Call):
        _guard(program, call)


def _attribute(program: Program, node: cst.Attribute, name: str) -> None:
    if m.matches(node.value, _SELF | m.Call(_SELF)) and name in program.defined:
        return
    _private(program, node.attr)
    if name in names.METHODS:
        _method(program, node, name)


def _private(program: Program, node: cst.Name) -> None:
    rule, today, why = _PRIVATE.get(node.value, ("", "", ""))
    has_protocol = program.target.legacy_optimizers or "tf_keras" in program.packages
    if rule and not (rule == PROTOCOL and has_protocol):
        program.report(rule, node, Consequence(f"`{node.value}`", UNSURE, today), why)


def _method(program: Program, node: cst.Attribute, name: str) -> None:
    full, today = f"LossScaleOptimizer.{name}", names.METHODS[name]
    if program.target.keras_2 or not today:
        program.report(METHOD, node.attr, Consequence(full, WORKS, "Works as before."))
        return
    status = BREAKS
    if name in program.defined or "tf_keras" in program.packages:
        status = UNSURE
        today += " Another class of this file, or tf_keras, may have it."
    why = BARE if name == "_decayed_lr" else _ELSEWHERE
    if bare.is_bare(program, node.value):
        status, why = BREAKS, IS_BARE
    if _is_served(program) and guards.guard(program, node):
        # The program has another branch for Keras 3.
        why = ""
    program.report(METHOD, node.attr, Consequence(full, status, today), why)


def _guard(program: Program, node: cst.Call) -> None:
    name = _tested_method(node)
    if not name or name in program.defined or _is_served(program):
        return
    if program.target.keras_2 or guards.raises(program, node):
        return
    consequence = Consequence(f"LossScaleOptimizer.{name}", WRONG, _SILENT.format(name))
    found = program.report(SILENT, node, consequence, _ELSEWHERE)
    found.needs_install = f"a guard that tests for `{name}`"


def _tested_method(node: cst.Call) -> str:
    method = literal(node.args[1].value) if m.matches(node, _TESTS) else None
    return method if method in names.SCALING else ""


def _is_served(program: Program) -> bool:
    """Return whether the program also uses `scale_loss`, a method of Keras 3's optimizers."""
    return "scale_loss" in program.words | program.defined
