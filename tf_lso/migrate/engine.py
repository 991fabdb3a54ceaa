"""Examine one program: run the rules, decide what to fix, and apply the fixes."""

import ast
import contextlib
import dataclasses
import re
import sys
import warnings
from collections.abc import Iterator

import libcst as cst

from tf_lso import names
from tf_lso.migrate import added_imports, imports, whole_program
from tf_lso.migrate.findings import SAME, Examined, Finding
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules import arguments, bare, methods, saved_files
from tf_lso.migrate.rules import names as old_names
from tf_lso.names.runtimes import TODAY, like

_RULES = (old_names, arguments, bare, methods, saved_files)
# Every old name contains a match, so LibCST need not parse a program without a match.
_TOKENS = re.compile(
    "|".join(
        [
            "mixed_precision|LossScale|train.experimental|loss_scale",
            "_resource_apply_|_create_slots|_set_hyper|_get_hyper|_get_optimizer",
            *names.METHODS,
        ]
    )
)
_IGNORED = re.compile(
    r"#\s*tf-lso:\s*ignore(?![\w-])(?:\s*\[([\w,\s]*)\]|(?!\s*\[))", re.IGNORECASE
)
_SILENCED = "A comment on the line that binds its name silences it."
_LINE = re.compile(r"\r\n|\r|\n")
_FRAMEWORKS = {"tensorflow", "keras", "tf_keras"}
# The errors that the parsers of Python and LibCST raise for a text that is not Python.
ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
# LibCST needs several stack frames for each level of nesting in a program.
_FRAMES = 20_000


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `tf-lso check` or `tf-lso migrate`."""

    # The ids of the selected rules, or beginnings of ids. An empty tuple selects all rules.
    select: tuple[str, ...] = ()
    # The value of `--like`, such as "2.4". "" means today's Keras.
    like: str = ""


def may_have_old_names(text: str) -> bool:
    return _TOKENS.search(text) is not None


def examine(
    source: str | bytes, options: Options, may_install: bool = True
) -> Examined:
    """Return an `Examined` with the findings in a program, and with the migrated program.

    Without `may_install` the line that installs tf_lso is not added, but the result still says
    why the program needs this line. If `source` is not Python, one of `ERRORS` is raised.
    """
    # Python's own parser has clearer errors than LibCST, and refuses code that is nested too
    # deeply.
    check_syntax(source)
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    if not may_have_old_names(text):
        return Examined(source, source)
    with _deep_recursion(), _no_warnings():
        return _examined(source, options, may_install)


def check_syntax(source: str | bytes) -> None:
    """Raise the error of Python's own parser if a text is not Python."""
    with _no_warnings():
        ast.parse(source)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Hide warnings about the program's string literals, such as invalid escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _deep_recursion() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _examined(source: str | bytes, options: Options, may_install: bool) -> Examined:
    target = like(options.like) if options.like else TODAY
    program = Program(cst.parse_module(source), target)
    for rule in _RULES:
        rule.find(program)
    findings = _selected(program, whole_program.adjusted(program), options)
    # Leave names that still work (rule `SAME`) unchanged, unless the program also gets a fix
    # for a finding of another rule.
    if not any(found.edits and found.rule != SAME for found in findings):
        for found in findings:
            if found.fix:
                found.leave("")
    edits = {node: new for found in findings for node, new in found.edits.items()}
    installs = _installs(program, findings, bool(edits), options)
    result = Examined(source, source, findings, len(edits), sorted(installs))
    may_install &= bool(program.packages & _FRAMEWORKS)
    if edits or (installs and may_install):
        module = _applied(program, result, edits, options.like, may_install)
        result.new = _written(program, module, source)
    return result


def _installs(
    program: Program, findings: list[Finding], is_edited: bool, options: Options
) -> set[str]:
    installs = {found.needs_install for found in findings} - {""}
    if whole_program.is_installed(program):
        return installs
    if options.like and findings:
        installs = {f"the Keras of TensorFlow {options.like}"}
    if is_edited:
        installs |= whole_program.installs_for_policy(program)
    return installs


def _selected(
    program: Program, findings: list[Finding], options: Options
) -> list[Finding]:
    """Return the findings of selected rules that no comment silences."""
    lines = _LINE.split(program.module.code)
    comments = {program.line(node): node.value for node in program.nodes(cst.Comment)}
    kept, silenced = list[Finding](), set[cst.CSTNode]()
    for found in findings:
        found.code = lines[found.line - 1].strip()
        if _is_silenced(found.rule, comments.get(found.line, "")):
            silenced |= found.edits.keys()
        elif not options.select or found.rule.startswith(options.select):
            kept.append(found)
    for found in kept:
        if silenced & found.edits.keys():
            found.leave(_SILENCED)
    return kept


def _is_silenced(rule: str, comment: str) -> bool:
    ignored = _IGNORED.search(comment)
    if not ignored:
        return False
    ids = re.findall(r"\w+", (ignored[1] or "").upper())
    return not ids or rule in ids


def _applied(
    program: Program,
    result: Examined,
    edits: dict[cst.CSTNode, str],
    like: str,
    may_install: bool,
) -> cst.Module:
    module = cst.ensure_type(program.module.visit(imports.Apply(edits)), cst.Module)
    if result.installs and may_install:
        whole_program.adjust_to_install(result.findings, like)
        return added_imports.with_install(module, like)
    if any(isinstance(node, (cst.Attribute, cst.Name, cst.Call)) for node in edits):
        return added_imports.with_import(module)
    return module


def _written(program: Program, module: cst.Module, source: str | bytes) -> str | bytes:
    is_text = isinstance(source, str)
    if source != (program.module.code if is_text else program.module.bytes):
        raise ValueError("LibCST would not write it back unchanged")
    new = module.code if is_text else module.bytes
    if _compiles(source) and not _compiles(new):
        raise ValueError("the result would not be valid Python, so it is not changed")
    return new


def _compiles(source: str | bytes) -> bool:
    try:
        # IPython allows `await` outside a function.
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(source, "program", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return False
    return True
