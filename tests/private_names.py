"""Which private names of a Keras tf_lso touches, and in which files: read by `ast`.

A private name is one with an underscore that an object of the Keras has and that tf_lso
reads or sets on it, or a module below `keras.src`. What an object has from TensorFlow is
another matter, and what a class of tf_lso calls on itself is its own.
"""

import ast
import functools
from pathlib import Path

import tensorflow as tf

ROOT = Path(__file__).parents[1]


def _is_private(name):
    return name.startswith("_") and not name.startswith("__") and name.isidentifier()


@functools.cache
def _trees():
    """{path from the root: syntax tree} of the package."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tf_lso").rglob("*.py"))
    }


def _own(tree):
    """The names that a file itself defines, or sets on `self`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr


def _modules(tree):
    """The modules that a file imports, dotted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(tree):
    """The texts in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _touched(tree):
    """The private names that a file touches, those of other objects than its own."""
    own = set(_own(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            by_self = isinstance(node.value, ast.Name) and node.value.id in (
                "self",
                "cls",
            )
            if not by_self or node.attr not in own:
                yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The name in `getattr`, `vars` and the like.
            if _is_private(node.value):
                yield node.value


def touched(modules, objects, files):
    """Return {private name of a Keras: the files that touch it}.

    Args:
      modules: the private modules by which files may name it: below `keras.src` as they
        are imported, or as they are given to `keras_versions.private`.
      objects: objects of that Keras, which have the names.
      files: function, path -> whether the file is about that Keras.
    """
    of_tensorflow = {*dir(tf.Module()), *dir(tf.Variable(0.0))}
    names = {n for one in objects for n in dir(one)} - of_tensorflow
    found = {}
    for path, tree in _trees().items():
        if not files(path):
            continue
        private = {name for name in _touched(tree) if name in names}
        private |= {m for m in _modules(tree) if m.startswith(modules)}
        private |= {text for text in _texts(tree) if text in modules}
        for name in private:
            found.setdefault(name, set()).add(path)
    return found


def check_files(found, table, shared):
    """Fail where a private name is not in the table, or another file touches it.

    Args:
      found: what `touched` returned.
      table: {name: the one file that may touch it}.
      shared: {name: (files that touch it too, reason)}.
    """
    problems = []
    for name, files in sorted(found.items()):
        allowed = {table.get(name), *shared.get(name, ((), ""))[0]}
        problems += [f"{path} touches {name}" for path in sorted(files - allowed)]
    for name, path in table.items():
        if path not in found.get(name, ()):
            problems.append(f"{path} does not touch {name}, which the table has")
    for name, (paths, _) in shared.items():
        for path in paths:
            if path not in found.get(name, ()):
                problems.append(f"{path} no longer touches {name}: take it out")
    assert not problems, "\n".join(problems)


def at_module_level(keras):
    """Return {private module: file} of what is imported when a file is imported."""
    return {
        module: path
        for path, tree in _trees().items()
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in _modules(ast.Module([node], []))
        if module.startswith(f"{keras}.src")
    }
