"""Which rooms may know of which others: read from the imports, nothing is imported.

An import inside a function is an arrow like any other, but for those of `LATE`.
"""

import ast
import functools
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).parents[1] / "tf_lso"

# Room -> the rooms of tf_lso that its modules may import, beside itself.
ROOMS = {
    "names": {"environment"},
    "source": {"names", "optimizer_table", "mirror_attributes"},
    "commands": {"names", "pages", "progress", "source"},
    "debugging": {
        "variables",
        "environment",
        "keras_versions",
        "optimizers.validation",
        "optimizers.wrapping",
        "scaling.gradients",
        "tf_private",
    },
    "running": {"environment", "patches"},
    "scaling": {
        "environment",
        "graphs",
        "log",
        "pages",
        "replica",
        "tf_private",
        "thread_switch",
    },
    "optimizers": {
        "optimizer_table",
        "variables",
        "environment",
        "graphs",
        "keras3_private",
        "keras_versions",
        "log",
        "pages",
        "replica",
        "scaling",
        "tf_private",
        "thread_switch",
    },
    "policies": {
        "environment",
        "keras_versions",
        "log",
        "optimizers",
        "scaling",
        "tf_private",
    },
    "checkpoints": {
        "optimizer_table",
        "variables",
        "environment",
        "keras3_private",
        "keras_versions",
        "optimizers",
        "pages",
        "scaling",
    },
    # The mirrors too: old names lead to them.
    "patches": {
        "optimizer_table",
        "variables",
        "checkpoints",
        "compat",
        "environment",
        "keras",
        "keras3_private",
        "keras_versions",
        "log",
        "mixed_precision",
        "names",
        "optimizers",
        "pages",
        "policies",
        "scaling",
        "tf_private",
        "thread_switch",
        "train",
    },
}

# Within `optimizers`, from the bottom up: a module may import what is in an earlier row,
# or in its own.
LEVELS = [
    {"families.keras3_views", "hyperparameters", "keras_configs", "scheduled_rate"},
    {"validation", "slots", "state"},
    {"families.family"},
    {"families.keras2", "families.keras2_legacy", "families.keras3"},
    {"families"},
    {"binding", "config"},
    {"loss_scale_optimizer"},
    {"experimental"},
    {"wrapping"},
]

# (Module, what it imports) -> why. Each is an import in a function that goes up: below it
# is only needed when a program does something, and then what is above is asked.
LATE = {
    ("optimizers.loss_scale_optimizer", "patches.table"): (
        "The first optimizer of a Keras 2 that is wrapped changes how that Keras saves."
    ),
    ("policies.api", "patches.table"): (
        "A policy that is set changes what `compile` of that Keras wraps."
    ),
    ("optimizers.config", "optimizers.loss_scale_optimizer"): (
        "Configs are read for the class that reads them."
    ),
    ("optimizers.config", "optimizers.experimental"): (
        "A config of either class may make the other."
    ),
}

# Circles of imports that remain, each as its modules, with the reason.
CIRCLES: dict[frozenset[str], str] = {}


def _is_for_types(node):
    """Whether an `if` is `if TYPE_CHECKING:`, which never runs."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _nodes(tree, in_functions):
    for node in ast.iter_child_nodes(tree):
        if not _is_for_types(node):
            yield node
            if in_functions or not isinstance(node, ast.FunctionDef):
                yield from _nodes(node, in_functions)


def imported_by(path, in_functions=True):
    """The parts of tf_lso that a file imports, as `room` and `room.module`."""
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), in_functions):
        if isinstance(node, ast.ImportFrom) and node.module == "tf_lso":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("tf_lso."):
            module = node.module.removeprefix("tf_lso.")
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("tf_lso."):
                    yield alias.name.removeprefix("tf_lso.")
        elif path.name == "__init__.py" and ast.unparse(node).startswith("_NAMES = {"):
            # Names that a package loads from its modules when they are first used.
            room = ".".join(path.relative_to(_PACKAGE).parent.parts)
            for module in ast.literal_eval(node.value).values():
                yield f"{room}.{module}".lstrip(".")
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            for argument in node.args:
                name = getattr(argument, "value", None)
                if isinstance(name, str) and name.startswith("tf_lso."):
                    yield name.removeprefix("tf_lso.")


def _module_of(path):
    parts = path.relative_to(_PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _arrows_of(path):
    """What a file imports, without what `LATE` lists for it."""
    module = _module_of(path)
    return [part for part in imported_by(path) if (module, part) not in LATE]


@functools.cache
def _modules():
    """{module of tf_lso: the modules that it imports}."""
    files = {_module_of(path): path for path in _PACKAGE.rglob("*.py")}
    return {
        module: {
            next(name for name in (part, part.rpartition(".")[0], "") if name in files)
            for part in _arrows_of(path)
        }
        for module, path in files.items()
    }


def _reached(module, arrows, seen):
    for part in arrows[module] - seen:
        seen.add(part)
        _reached(part, arrows, seen)
    return seen


def circles(arrows):
    """The sets of modules that import one another, directly or through others."""
    reached = {module: _reached(module, arrows, set()) for module in arrows}
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in arrows
        if module in reached[module]
    }


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room):
    allowed = {room, *ROOMS[room]}
    for path in (_PACKAGE / room).rglob("*.py"):
        for part in _arrows_of(path):
            above = [part.split(".")[0], ".".join(part.split(".")[:2])]
            assert allowed.intersection(above), f"{path} imports {part}"


def _level(module):
    """The number of the row of a module, by its own name or by that of its room."""
    for names in (module, module.split(".")[0]):
        for number, row in enumerate(LEVELS):
            if names in row:
                return number
    raise AssertionError(f"optimizers.{module} has no level")


def test_no_arrow_within_optimizers_goes_up():
    for module, imports in _modules().items():
        own = module.removeprefix("optimizers.")
        if own == module:
            continue
        if (_PACKAGE / module.replace(".", "/") / "__init__.py").exists():
            continue  # a package's own file
        for part in imports:
            other = part.removeprefix("optimizers.")
            if other != part:
                assert _level(other) <= _level(own), f"{module} imports {part}"


def test_no_modules_import_one_another():
    assert circles(_modules()) == set(CIRCLES)


def test_a_circle_is_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}
    assert circles(arrows) == {frozenset("abc"), frozenset("e")}


@pytest.mark.parametrize("module, part", LATE)
def test_a_late_import_that_goes_up_is_in_a_function(module, part):
    path = _PACKAGE / f"{module.replace('.', '/')}.py"
    assert part in imported_by(path)
    assert part not in imported_by(path, in_functions=False)


def test_late_imports_are_arrows(tmp_path):
    file = tmp_path / "one.py"
    file.write_text(
        "if typing.TYPE_CHECKING:\n    from tf_lso import cli\n"
        "def late():\n    from tf_lso.optimizers import table\n    import tf_lso.log\n"
        "    importlib.import_module('tf_lso.patches.ledger')\n"
    )
    assert list(imported_by(file)) == ["optimizers.table", "log", "patches.ledger"]
