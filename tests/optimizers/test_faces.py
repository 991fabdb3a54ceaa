"""The hooks of a face: what it lists is what the rest of the code uses."""

import ast
import inspect
import textwrap

import pytest

from tests.families import PACKAGES, keras
from tf_lso.optimizers import experimental, loss_scale_optimizer, overrides
from tf_lso.optimizers.faces import face, families
from tf_lso.optimizers.surface import attributes, legacy, state, steps, stored
from tf_lso.optimizers.surface import keras3 as surface_keras3
from tf_lso.scaling import step

FACES = [
    one
    for package in sorted(set(PACKAGES.values()))
    for one in families.of_package(package)
]
CALLERS = [
    *(attributes, legacy, state, steps, stored, surface_keras3),
    *(loss_scale_optimizer, experimental, overrides, step, face),
]
# Programs call these, and the faces themselves; files are told by the family.
OF_PROGRAMS = {
    "_family",
    "_decayed_lr",
    "get_slot_names",
    "get_slot",
    "add_slot",
    "add_weight",
}

# What a caller calls the optimizer.
NAMES = {"self", "face", "family", "optimizer", "copied"}

HOOKS = {
    name
    for name in vars(face.Face)
    if inspect.isroutine(vars(face.Face)[name])
    or isinstance(vars(face.Face)[name], (property, bool))
} - {name for name in vars(face.Face) if name.startswith("__")}


def used(module):
    """The attributes of the optimizer that a module of tf_lso uses."""
    tree = ast.parse(inspect.getsource(module))
    others = {cls.__name__ for cls in _others(module)}
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in others]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in NAMES:
                yield node.attr


def hooks_used():
    """Those that no class below the faces has."""
    instance = {*vars(loss_scale_optimizer.LossScaleOptimizer(keras.optimizers.SGD()))}
    return {
        name
        for module in CALLERS
        for name in used(module)
        if name not in instance
        and not hasattr(loss_scale_optimizer.LossScaleOptimizer, name)
    }


def _others(module):
    """The classes of a module that are no part of the optimizer."""
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            if not any(issubclass(face_, value) for face_ in FACES) and not issubclass(
                value, legacy.Surface
            ):
                yield value


def test_the_hooks_that_are_listed_are_those_that_are_used():
    assert HOOKS == hooks_used() | OF_PROGRAMS


def test_each_hook_is_documented():
    listed = ast.parse(textwrap.dedent(inspect.getsource(face.Face))).body[0].body
    functions = [node for node in listed if isinstance(node, ast.FunctionDef)]
    assert all(ast.get_docstring(function) for function in functions)


@pytest.mark.parametrize("cls", FACES)
def test_a_face_has_all_hooks(cls):
    assert not cls.__abstractmethods__


@pytest.mark.parametrize("cls", FACES)
@pytest.mark.parametrize("hook", sorted(face.Face.__abstractmethods__))
def test_a_face_without_a_hook_cannot_be_used(cls, hook):
    lacking = type(cls)(cls.__name__, (cls,), {hook: vars(face.Face)[hook]})
    assert lacking.__abstractmethods__ == {hook}
    with pytest.raises(TypeError, match=hook):
        object.__new__(lacking)
