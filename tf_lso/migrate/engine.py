"""Examine one program: run the rules, decide what to fix, and apply the fixes."""

import ast
import dataclasses
import re
import sys
import warnings

import libcst as cst

from tf_lso import names
from tf_lso.migrate import imports, install, settle
from tf_lso.migrate.findings import SAME, Examined, Finding
from tf_lso.migrate.program import Program
from tf_lso.migrate.rules import arguments, files, methods
from tf_lso.migrate.rules import names as old_names
from tf_lso.names.targets import TODAY, like

_RULES = (old_names, arguments, methods, files)
# Matches a part of an old name. Every old name contains a match. So a program without a match
# need not be parsed.
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
# The recursion limit of Python while LibCST works. LibCST needs several stack frames for each
# level of nesting in a program.
_FRAMES = 20_000


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `tf-lso check` or `tf-lso migrate`.

    Attributes:
      select: the ids of the selected rules, or beginnings of ids. An empty tuple selects all
        rules.
      like: the argument of `--like`, a TensorFlow version such as "2.4". The program will run
        with the Keras of this version, under `tf-lso run --like`. "" means today's Keras.
    """

    select: tuple[str, ...] = ()
    like: str = ""


def may_have_old_names(text: str) -> bool:
    """Return whether a text contains a part of an old name."""
    return _TOKENS.search(text) is not None


def examine(
    source: str | bytes, options: Options, may_install: bool = True
) -> Examined:
    """Return an `Examined` with the findings in a program, and with the migrated program.

    Args:
      source: the program, as a text or as the bytes of a file.
      options: the options of the command.
      may_install: bool, whether the migrated program may get a call of `tf_lso.install()`.
        If False, the function does not add the call, but still returns the reasons why the
        program needs it.

    Raises:
      SyntaxError, ValueError, RecursionError, MemoryError: if `source` is not Python.
    """
    limit = sys.getrecursionlimit()
    check_syntax(source)
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        # Hide warnings about the program's string literals, such as invalid escapes.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _examined(source, options, may_install)
    finally:
        sys.setrecursionlimit(limit)


def check_syntax(source: str | bytes) -> None:
    """Raise the error of Python's own parser if a text is not Python.

    `examine` calls this function before LibCST parses the text. The error of Python's parser
    says more than the error of LibCST. Python's parser also refuses code that is nested too
    deeply.
    """
    # Hide warnings about the program's string literals, such as invalid escapes.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(source)


def _examined(source: str | bytes, options: Options, may_install: bool) -> Examined:
    target = like(options.like) if options.like else TODAY
    program = Program(cst.parse_module(source), target)
    for rule in _RULES:
        rule.find(program)
    findings = _selected(program, settle.settle(program), options)
    # Leave names that still work (rule `SAME`) unchanged, unless the program also gets a fix
    # for a finding of another rule.
    if not any(found.edits and found.rule != SAME for found in findings):
        for found in findings:
            if found.fix:
                found.leave("")
    installs = {found.needs_install for found in findings} - {""}
    if options.like and findings and not settle.is_installed(program):
        installs = {f"the Keras of TensorFlow {options.like}"}
    may_install &= bool(program.packages & _FRAMEWORKS)
    may_install &= not program.binds_otherwise("tf_lso")
    edits = {node: new for found in findings for node, new in found.edits.items()}
    if edits and not settle.is_installed(program):
        installs |= settle.installs_for_policy(program)
    result = Examined(source, source, findings, len(edits), sorted(installs))
    if edits or (installs and may_install):
        module = _applied(program, result, edits, options.like, may_install)
        is_text = isinstance(source, str)
        if source != (program.module.code if is_text else program.module.bytes):
            raise ValueError("LibCST would not write it back unchanged")
        result.new = module.code if is_text else module.bytes
        if _compiles(source) and not _compiles(result.new):
            raise ValueError("its migration would not be Python; it is not changed")
    return result


def _selected(
    program: Program, findings: list[Finding], options: Options
) -> list[Finding]:
    """Return the findings of the selected rules, without the findings that are silenced.

    A comment `# tf-lso: ignore` silences findings on the same line. Another finding loses its
    fix if the fix has an edit in common with a silenced finding.
    """
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
    """Return whether a comment such as `# tf-lso: ignore[LSO101]` silences a rule."""
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
    """Return the tree with the edits applied.

    The function also adds `import tf_lso` or a call of `tf_lso.install()` if the migrated
    program needs it.
    """
    module = cst.ensure_type(program.module.visit(imports.Apply(edits)), cst.Module)
    if result.installs and may_install:
        settle.settle_by_install(result.findings)
        module = install.with_install(module, like)
    elif any(isinstance(node, (cst.Attribute, cst.Name)) for node in edits):
        module = install.with_import(module)
    return module


def _compiles(source: str | bytes) -> bool:
    """Return whether a program compiles.

    `await` may stand outside a function, because IPython allows this in notebooks.
    """
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(source, "program", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return False
    return True
