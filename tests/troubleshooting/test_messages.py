"""`tf-lso help` finds an entry for each message of an error that the package raises."""

import ast

import pytest

from tests.processes import ROOT
from tests.troubleshooting.page import ENTRIES

_STUCK = "The last 3 steps were all skipped, and the loss scale is at its minimum"
_TOO_MANY = "The checkpoint has more variables of the optimizer than this SGD takes."

# Maps an argument of a `raise`, if a function creates the message, to a part of the message.
MADE_BY_A_FUNCTION = {
    "_conflict(source, by_path, by_name)": "(a/kernel) belongs to b/kernel by its place in "
    "the model, and to a/kernel by its name",
    "_refusal(made.report)": "model.h5 does not fit, and nothing was changed",
    "message(optimizer, steps)": _STUCK,
    "stuck.message(optimizer, self.patience - self._batches_to_wait)": _STUCK,
    "slots.too_many(inner)": _TOO_MANY,
    "too_many(self._inner)": _TOO_MANY,
    "too_many(family.inner)": _TOO_MANY,
    "self._message": "Build it before saving or copying",
    "message": "A plot needs the package matplotlib",
}
_PYTHON = "Python uses the same words for a missing name"
_USAGE = "the command line prints the message with its usage"
_CAUGHT = "tf_lso catches the error, and shows it as a part of another message"
# Maps the beginning of a message that `tf-lso help` need not find to the reason.
NOT_FOR_HELP = {
    "IndexError: it names objects that it does not have": _CAUGHT,
    "TypeError: no further arguments": _CAUGHT,
    "TypeError: 'name' must be a str or None": _CAUGHT,
    "ValueError: It has x variables besides the slots": _CAUGHT,
    "argparse.ArgumentTypeError": _USAGE,
    "attribute_error": _PYTHON,
    "_load('names.mirror_attributes').attribute_error": _PYTHON,
    "AttributeError: x optimizer has no attribute x": _PYTHON,
    "AttributeError: x object has no attribute x": _PYTHON,
    "moved": "the function `moved` creates the error: see `test_a_name_that_has_moved`",
    "tf_private.moved": "the function `moved` creates the error",
}


def text_of(node, constants):
    """Return the text that an expression makes, with "x" for what differs each time."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, constants) for part in parts)
        case ast.BinOp(left=left, right=right):
            return text_of(left, constants) + text_of(right, constants)
        case ast.FormattedValue(value=value, conversion=conversion):
            text = text_of(value, constants)
            return repr(text) if conversion == ord("r") and text != "x" else text
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
            return text_of(constants[name], {})
        case ast.Call(func=ast.Attribute(value=template, attr="format")):
            return text_of(template, constants)
    return MADE_BY_A_FUNCTION.get(ast.unparse(node), "x")


def assignments(tree):
    """Return {name: value} for the names that are assigned to in a module or function."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def constants_of(tree):
    """Return {name: value} for the names in capitals that a module assigns to."""
    return {name: node for name, node in assignments(tree).items() if name.isupper()}


def message_calls(function):
    """Yield the calls in a function that create a raised error, or log a warning."""
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield node.exc
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("warn", "warning"):
                yield node


def messages():
    """Return {place: message} for each new error and each warning in the package."""
    # The reports of check and migrate show their messages next to the file that they are about.
    paths = {*(ROOT / "tf_lso").rglob("*.py")} - {*(ROOT / "tf_lso/migrate").rglob("*")}
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(paths)}
    constants_of_all = {}
    for tree in trees.values():
        constants_of_all |= constants_of(tree)
    found = {}
    for path, tree in trees.items():
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        for function in functions:
            # A name in the function or the module hides a constant of another module.
            constants = constants_of_all | constants_of(tree) | assignments(function)
            for node in message_calls(function):
                parts = [text_of(part, constants) for part in node.args]
                is_warning = ast.unparse(node.func).endswith(("warning", ".warn"))
                if is_warning and set(parts) == {"x"}:
                    continue  # another function makes the text
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found[place] = f"{ast.unparse(node.func)}: {' '.join(parts)}"
    return found


MESSAGES = messages()


def test_each_message_has_an_entry_or_needs_none():
    assert len(MESSAGES) > 100
    unexplained = {
        place: message
        for place, message in MESSAGES.items()
        if not message.startswith(tuple(NOT_FOR_HELP))
        and not any(entry.explains(message) for entry in ENTRIES.values())
    }
    assert not unexplained


@pytest.mark.parametrize("beginning", NOT_FOR_HELP)
def test_each_exception_to_this_is_raised(beginning):
    assert any(message.startswith(beginning) for message in MESSAGES.values())


def test_a_name_that_has_moved():
    from tf_lso.frameworks import tf_private

    error = tf_private.moved("TensorFlow", "2.99", "tensorflow.python.x", "file.py")
    assert ENTRIES["versions"].explains(f"ImportError: {error}")
