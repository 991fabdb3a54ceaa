"""The program `tf-lso`. It parses arguments and calls the module of the chosen command."""

import argparse
import difflib
import io
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

_DESCRIPTION = """\
Run, check and migrate programs that use the mixed-precision API of TensorFlow 2.0-2.15,
so that they work with today's TensorFlow."""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an unknown option with its own usage, and suggests a similar one.

    By itself, argparse reports an unknown option of a command with the usage of `tf-lso`
    (cpython#78660).
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, and end the program if one of them is unknown."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = re.findall(r"--[\w-]+", self.format_help())
            similar = _similar(unknown[0].partition("=")[0], known)
            self.error(f"unrecognized arguments: {' '.join(unknown)}.{similar}")
        return parsed, unknown


def _similar(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean `{found[0]}`?" if found else ""


def _parser(commands: dict[str, Any]) -> argparse.ArgumentParser:
    import tf_lso

    parser = _Parser(prog="tf-lso", description=_DESCRIPTION)
    version = f"tf-lso {tf_lso.__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    added = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, module in commands.items():
        command = added.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _refuse(
    parser: argparse.ArgumentParser, word: str, commands: Iterable[str]
) -> NoReturn:
    hint = _similar(word, commands)
    if os.path.exists(word):
        hint = f" To run a program: `tf-lso run {word}`."
    parser.error(f"there is no command {word!r}.{hint}")


def main(arguments: Sequence[str] | None = None) -> int:
    from tf_lso import help
    from tf_lso.install import running
    from tf_lso.migrate import check_command, migrate_command

    commands = {
        "run": running,
        "check": check_command,
        "migrate": migrate_command,
        "help": help,
    }
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser(commands)
    if not arguments:
        parser.print_help()
        return 0
    if not arguments[0].startswith("-") and arguments[0] not in commands:
        _refuse(parser, arguments[0], commands)
    args = parser.parse_args(arguments)
    _set_output(args.command)
    try:
        code: int = args.run(args)
        if args.command != "run" and sys.stdout is not None:
            # Write all output now, so that a closed pipe raises its error here.
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has closed the pipe. Python must
        # write nothing more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        safe = "; no file is half written" if args.command == "migrate" else ""
        print(f"tf-lso {args.command}: interrupted{safe}", file=sys.stderr)
        return 128 + signal.SIGINT


def _set_output(command: str) -> None:
    """Set the encoding of the output, so that no character raises an encoding error.

    Patches from `tf-lso migrate` to a file or a pipe are in UTF-8.
    """
    if command != "run" and isinstance(sys.stdout, io.TextIOWrapper):
        errors = "replace" if command == "help" else "backslashreplace"
        sys.stdout.reconfigure(errors=errors)
        if command == "migrate" and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8", errors=errors)
