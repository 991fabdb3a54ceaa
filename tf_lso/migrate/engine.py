"""Reads one program: runs the rules, decides what is fixed, and applies the fixes."""

import ast
import dataclasses
import re
import sys
import warnings
from typing import NamedTuple

import libcst as cst

from tf_lso import names
from tf_lso.migrate import imports, install, own_name, settle
from tf_lso.migrate.findings import METHOD, SAME, SILENT, Edit, Finding
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules.constructors import Constructors
from tf_lso.migrate.rules.files import Files
from tf_lso.migrate.rules.methods import BARE, Methods
from tf_lso.migrate.rules.names import Names
from tf_lso.migrate.rules.optimizers import Optimizers
from tf_lso.migrate.rules.protocol import Protocol
from tf_lso.migrate.rules.unseen import Unseen
from tf_lso.names.targets import TODAY, like

_RULES = (Names, Constructors, Methods, Optimizers, Protocol, Files, Unseen)
# Each old name contains one of these. A text without any of them is not parsed.
_TOKENS = re.compile(
    "|".join(
        [
            "mixed_precision|LossScale|train.experimental|loss_scale",
            "_resource_apply_|_create_slots|_set_hyper|_get_hyper|_get_optimizer",
            *(n for n, how in names.METHODS.items() if how.seen in names.BY_NAME),
        ]
    )
)
_IGNORED = re.compile(
    r"#\s*tf-lso:\s*ignore(?![\w-])(?:\s*\[([\w,\s]*)\]|(?!\s*\[))", re.IGNORECASE
)
_SILENCED = "A comment on the line that binds its name silences it."
_LINE = re.compile(r"\r\n|\r|\n")
_FRAMEWORKS = {"tensorflow", "keras", "tf_keras"}
# LibCST visits a tree with some frames for each level.
_FRAMES = 20_000


@dataclasses.dataclass(frozen=True)
class Options:
    """What a command was asked for.

    Attributes:
      select: the rules that count, or beginnings of them; empty for all.
      like: the version of `tf-lso run --like`, or "".
    """

    select: tuple[str, ...] = ()
    like: str = ""


class Place(NamedTuple):
    """What may be done in a file at its place.

    Attributes:
      adds_install: whether `tf_lso.install()` may be added. Otherwise the result only
        says what it is needed for.
      drops_imports: whether imports that are no longer used may go. Other files may
        import them from a module of a package.
      words: the words of text that belongs to the program and is not parsed.
    """

    adds_install: bool = True
    drops_imports: bool = True
    words: frozenset[str] = frozenset()


SCRIPT = Place()


@dataclasses.dataclass
class Result:
    """What is found in one text, and what the fixes make of it.

    Attributes:
      findings: what is found, in the order of the places.
      text: the new text.
      places: how many places the fixes change.
      installs: what the program needs `tf_lso.install()` for.
    """

    findings: list[Finding]
    text: str
    places: int = 0
    installs: list[str] = dataclasses.field(default_factory=list)


def may_have_old_names(text: str) -> bool:
    """Whether a text has a part of an old name."""
    return _TOKENS.search(text) is not None


def examine(text: str, options: Options, place: Place = SCRIPT) -> Result:
    """Return what is found in a program, and what `migrate` makes of it.

    Args:
      text: the program.
      options: what the command was asked for.
      place: what may be done in a file at its place.

    Raises:
      SyntaxError, ValueError, RecursionError, MemoryError: if the text is not Python.
    """
    limit = sys.getrecursionlimit()
    check_syntax(text)
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        with warnings.catch_warnings():  # the program's own, about its texts
            warnings.simplefilter("ignore")
            return _examined(text, options, place)
    except KeyError as error:  # LibCST raises it where the stack ends its walk
        if _is_of_recursion(error):
            raise RecursionError from error
        raise
    finally:
        sys.setrecursionlimit(limit)


def _is_of_recursion(error: BaseException) -> bool:
    """Whether an error was raised while a RecursionError was handled."""
    while error.__context__ and not isinstance(error, RecursionError):
        error = error.__context__
    return isinstance(error, RecursionError)


def _examined(text: str, options: Options, place: Place) -> Result:
    target = like(options.like) if options.like else TODAY
    program = Program(cst.parse_module(text), target)
    program.visit([rule(program) for rule in _RULES])
    findings = _chosen(program, settle.settle(program, program.findings), options)
    if not any(found.fix and found.rule != SAME for found in findings):
        for found in findings:
            found.stay()  # nothing that breaks moves, so all of it stays
    result = _applied(program, findings, options, place)
    if not result.places and program.module.code == result.text:
        result.text = text
    elif program.module.code != text:
        raise ValueError("LibCST would not write it back as it is")
    return result


def check_syntax(text: str) -> None:
    """Raise what Python's parser does: it says more, and refuses deep nesting."""
    with warnings.catch_warnings():  # the program's own, about its texts
        warnings.simplefilter("ignore")
        ast.parse(text)


def _compiles(text: str) -> bool:
    """Whether Python compiles a text; `await` may stand anywhere, as in notebooks."""
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(text, "program", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _chosen(
    program: Program, findings: list[Finding], options: Options
) -> list[Finding]:
    """Return the findings that are selected, and that no comment silences."""
    lines = _LINE.split(program.module.code)
    comments = {program.line(node): node.value for node in program.facts.comments}
    kept, silenced = list[Finding](), set[cst.CSTNode]()
    for found in findings:
        found.code = lines[found.line - 1].strip()
        if _is_silenced(found.rule, comments.get(found.line, "")):
            silenced |= found.edits.keys() | found.moved.keys()
        elif not options.select or found.rule.startswith(options.select):
            kept.append(found)
    for found in kept:
        if silenced & (found.edits.keys() | found.moved.keys()):
            found.leave(_SILENCED)
    return kept


def _is_silenced(rule: str, comment: str) -> bool:
    """Whether the comment on its line silences a rule."""
    ignored = _IGNORED.search(comment)
    if not ignored:
        return False
    ids = re.findall(r"\w+", (ignored[1] or "").upper())
    return not ids or rule in ids


def _settled_by_install(findings: list[Finding]) -> None:
    """What install() makes work is not left to a person."""
    for found in findings:
        of_method = found.rule in (METHOD, SILENT) and found.why_not != BARE
        if of_method or (found.needs_install and not found.guarded):
            found.fix, found.why_not = "tf_lso.install()", ""


def _applied(
    program: Program, findings: list[Finding], options: Options, place: Place
) -> Result:
    """Return the result, with the new text."""
    edits: dict[cst.CSTNode, Edit] = {}
    moved: dict[cst.ImportAlias, str] = {}
    for found in findings:
        edits |= found.edits
        moved |= found.moved
    needing = [found for found in findings if found.needs_install]
    installs = sorted({found.needs_install for found in needing})
    if options.like and findings and not program.is_installed:
        installs = [f"the Keras of TensorFlow {options.like}"]
    has_framework = bool(program.packages & _FRAMEWORKS)
    adds = bool(installs) and place.adds_install and has_framework
    if adds:
        _settled_by_install(findings)
    if not (edits or moved or adds):
        return Result(findings, program.module.code, 0, installs)
    chains = [node for node in edits if isinstance(node, cst.BaseExpression)]
    unused = set[cst.ImportAlias]()
    if place.drops_imports:
        unused = imports.unused(program, chains, place.words)
    changed = program.module.visit(imports.Apply(edits, moved, unused))
    module = cst.ensure_type(changed, cst.Module)
    if adds:
        waits = all(found.in_function or found.in_main for found in needing)
        early = options.like or not waits or own_name.is_shadowed(program)
        late = not early and install.may_be_late(module)
        module = install.with_install(module, options.like, late)
    elif chains and not own_name.is_imported_before(program, chains):
        module = install.with_import(module)
    if _compiles(program.module.code) and not _compiles(module.code):
        raise ValueError("its migration would be no Python; it stays as it is")
    return Result(findings, module.code, len(edits) + len(moved), installs)
