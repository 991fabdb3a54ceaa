"""The verdict on an old name: what `tf_lso.names` knows of a dotted path of a program."""

import ast
import dataclasses

from tf_lso import mirror_attributes, names
from tf_lso.names.keras3_names import KERAS_COPY, KERAS_COPY_BREAKS, SHARED
from tf_lso.names.spellings import CONTRIB
from tf_lso.names.targets import OLDER, TODAY, Target, prefixes

WRONG = "wrong"  # silently computes something else
BREAKS = "breaks"  # fails, or does something else
WORKS = "works"  # listed to be complete
UNSURE = "unsure"  # depends on what only a run can tell

# The worst first, in words for people.
LABELS = {WRONG: "trains wrong, silently", **{s: s for s in (BREAKS, UNSURE, WORKS)}}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on one old name, wherever it is used."""

    name: str  # dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, WORKS or UNSURE
    today: str  # what happens on the TensorFlow that is asked about
    tf_lso: str  # what tf_lso does about it
    error: str = ""  # the exception that the very place of use raises
    current: str = ""  # what today's own API has instead
    replacement: str | None = None  # dotted name in tf_lso

    def but(self, status: str, today: str, **changes: str) -> "Verdict":
        """Return the verdict with another status, and what else is different."""
        return dataclasses.replace(self, status=status, today=today, **changes)

    def asked(self) -> "Verdict":
        """Return that of what hasattr, or getattr with a default, asks for."""
        if self.status != BREAKS:
            return self
        answer = f" The answer is no: {self.today.partition(': ')[2]}"
        return self.but(WORKS, "Asking works." + answer * bool(self.error), error="")


_CONTRIB = "tensorflow.contrib.mixed_precision"
MODULES = {
    **names.MODULES,
    **names.TF_KERAS_MODULES,
    _CONTRIB: "contrib.mixed_precision",
}
# Packages that have or had the API.
FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras"})
# How a program reaches a path: as an attribute, by `import path`, or by `from … import`.
ACCESS, IMPORT, FROM = "access", "import", "from"
_NAMES = {**names.NAMESPACES, **names.PRIVATE}
# Paths on the way to a module, as `tensorflow` and `tensorflow.keras`.
PREFIXES = frozenset().union(*map(prefixes, MODULES)) - MODULES.keys()

# Each old name contains one of these. A file without them is not parsed.
TOKENS = (
    *b"mixed_precision LossScale train.experimental loss_scale".split(),
    *b"optimizer._optimizer opt._optimizer _resource_apply_ _create_slots".split(),
    *b"_set_hyper _get_hyper".split(),
    *(
        name.encode()
        for name, method in names.METHODS.items()
        if method.seen in (names.ANYWHERE, names.CALLED)
    ),
)


def how_of(node: ast.AST) -> str:
    """Return how a node reaches the paths that it leads to."""
    return {ast.Import: IMPORT, ast.ImportFrom: FROM}.get(type(node), ACCESS)


def may_have_old_names(text: str | bytes) -> bool:
    """Whether a text has a part of an old name."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return any(token in data for token in TOKENS)


def split(path: str) -> tuple[str, str]:
    """Return the module that a path leads through, and the name in it, or "" each."""
    module, name = path, ""
    while module and module not in MODULES:
        module, _, name = module.rpartition(".")
    return module, name if module else ""


def is_name(path: str) -> bool:
    """Whether the path is a name directly in one of the modules, known or not."""
    return path not in MODULES and path.rpartition(".")[0] in MODULES


def is_known(path: str) -> bool:
    """Whether the path is one of the modules, above one, or directly in one."""
    return path in PREFIXES or path in MODULES or is_name(path)


def in_tf_keras(path: str) -> bool:
    """Whether the path leads through tf_keras, which still has the API."""
    return path.partition(".")[0] == "tf_keras"


def is_own(path: str, target: Target = TODAY) -> bool:
    """Whether the path is a name of the Keras that `tf.keras` is."""
    kept = path.startswith(KERAS_COPY) or in_tf_keras(path)
    return not kept and is_name(path) and is_there(path, target)


def symbol(path: str) -> str:
    """Return the key in `names.SYMBOLS` of a path, or ""."""
    module, _, name = path.rpartition(".")
    use = _NAMES.get(MODULES.get(module, ""), {}).get(name)
    return use.symbol if use else ""


def is_there(path: str, target: Target = TODAY) -> bool:
    """Whether TensorFlow, its Keras or tf_keras has the path."""
    if path in MODULES or path in PREFIXES:
        return path in target.modules or path in target.prefixes
    module, _, name = path.rpartition(".")
    if module not in target.modules:
        return False
    return name in target.modules[module] or (not symbol(path) and _has_more(module))


def _is_importable(module: str, target: Target) -> bool:
    attributes = tuple(f"{keras}." for keras in target.by_attribute)
    return is_there(module, target) and not f"{module}.".startswith(attributes)


def _is_shared(module: str) -> bool:
    return MODULES[module].removeprefix("compat.v2.") in SHARED


def _is_private(module: str) -> bool:
    return MODULES[module] in names.PRIVATE or ".python." in module or ".src." in module


def _has_more(module: str) -> bool:
    """Whether a module that is there has other names than the old ones."""
    return _is_shared(module) or _is_private(module)


def _failure(path: str, how: str, target: Target) -> tuple[str, str]:
    """Return the exception's name and a sentence for a path that is gone, or "" each."""
    there = is_there(path, target)
    above = path if how == IMPORT else path.rpartition(".")[0]
    importable = _is_importable(above, target)
    if there and (how == ACCESS or importable):
        return "", ""
    error, gone = "AttributeError", path
    if how == FROM and importable:
        error = "ImportError"
    elif how != ACCESS:
        error, gone = "ModuleNotFoundError", above
    if there:
        return error, f"{error}: {gone} can be reached as an attribute only."
    library = "tf_keras has" if in_tf_keras(path) else target.library
    return error, f"{error}: {library} no {gone}."


def of_path(path: str, how: str = ACCESS, target: Target = TODAY) -> Verdict | None:
    """Return the verdict on a path, aliases resolved, or None if it is no old name.

    Whether it is by ACCESS, IMPORT or FROM counts: they raise different exceptions, and
    a few modules can be reached as attributes only.
    """
    module, _, name = (path, "", "") if path in MODULES else path.rpartition(".")
    if module not in MODULES:
        return None
    if name == "*" and (module == _CONTRIB or not _is_importable(module, target)):
        return of_path(module, IMPORT, target)
    if module == _CONTRIB:
        return _of_contrib(path)
    old, new = _spelled(module)
    if name == "*":
        today = (
            "Which old names this brings cannot be seen: those that are gone will be "
        )
        today += "missing where they are used."
        does = f"{new} has all of them. Import them by name, and check again."
        return Verdict(f"{old}.*", UNSURE, today, does, replacement=new)
    error, today = _failure(path, how, target)
    known = _NAMES.get(MODULES[module], {})
    if name in known:
        about = Verdict(f"{old}.{name}", WORKS, today, "", error, "", f"{new}.{name}")
        return _of_name(path, known[name], about, target)
    if not name and error:
        does = "Has what the module had."
        return Verdict(old, BREAKS, today, does, error, replacement=new)
    if not name:
        today, does = "The module is there.", "Mirrors it."
        there = Verdict(old, WORKS, today, does, replacement=new)
        return None if _is_shared(module) else there
    if name.startswith("__") or (module in target.modules and _has_more(module)):
        return None
    if not _is_private(module):
        today += " No such name is public in any version."
    does = f"Nothing: {mirror_attributes.attribute_error(new, name, known)}"
    return Verdict(f"{old}.{name}", BREAKS, today, does, error)


def _spelled(module: str) -> tuple[str, str]:
    """Return the public old name of a module, and its name in tf_lso."""
    namespace = MODULES[module]
    if in_tf_keras(module):  # the two generations of its API have the same names
        return f"tf_keras.{namespace.partition('keras.')[2]}", f"tf_lso.{namespace}"
    return f"tf.{namespace}", f"tf_lso.{namespace}"


def _of_name(
    path: str, use: names.Use, known: Verdict, target: Target
) -> Verdict | None:
    """Return the verdict on a name of a module; `known` has its names and its failure."""
    symbol, of_tf_keras = names.SYMBOLS[use.symbol], in_tf_keras(path)
    of_keras_2, of_keras_3 = target.has_keras_2(path), use.versions.startswith("2.16")
    if known.error and of_keras_2 and of_keras_3:
        name = path.rpartition(".")[2]
        everywhere = f"tf_lso.keras.mixed_precision.{OLDER.get(name, name)}"
        does = f"Nothing: it is a name of Keras 3. {everywhere} works in all versions."
        today = f"{known.today} {TODAY.library} it."
        return Verdict(known.name, BREAKS, today, does, known.error)
    if of_keras_3 and not known.error:
        return None  # a name of Keras 3's API only
    # What `tf.keras` has now is Keras 3's, and nothing for a program of tf_keras.
    now = symbol.current.partition("(")[0].replace("tf.", "tensorflow.", 1)
    has_now = not target.keras_2 or is_there(now, target)
    current = symbol.current if has_now and not of_tf_keras else ""
    status, today = WORKS, "Works as it did."
    breaks = symbol.keras_2 if of_keras_2 else symbol.breaks
    if known.error:
        had = "" if of_tf_keras else f" TensorFlow {use.versions} had it."
        status, today = BREAKS, known.today + had
    elif of_tf_keras:
        today = "Works: tf_keras still has it, for its own optimizers."
    elif path.startswith(KERAS_COPY):
        status, today = BREAKS, KERAS_COPY_BREAKS
    elif breaks and use.today == names.CHANGED:
        status, today = BREAKS, breaks
    return known.but(status, today, tf_lso=symbol.does, current=current)


def _of_contrib(path: str) -> Verdict:
    name, use = path.replace("tensorflow", "tf", 1), CONTRIB.get(path, "")
    instead = f"Write {use} and check again." if use else "Rewrite it by hand."
    today = "tf.contrib is gone since TensorFlow 2.0."
    does = f"Nothing: it has no stand-in for tf.contrib. {instead}"
    return Verdict(name, BREAKS, today, does, "ModuleNotFoundError", use)
