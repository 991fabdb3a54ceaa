"""The program `tf-lso`. It parses arguments and calls the module of the chosen command."""

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

_DESCRIPTION = """\
Run, check and migrate programs that use the mixed-precision API of TensorFlow 2.0-2.15,
so that they work with today's TensorFlow."""

# The message that is printed for the command `convert`, which no longer exists.
_CONVERT = """\
tf-lso convert: there is no such command any more. Four lines of Python read the file:

    model = build_model()  # of your program, with an Input or called once
    model.compile(tf_lso.LossScaleOptimizer(keras.optimizers.Adam()))
    tf_lso.checkpoints.restore(path, model=model, optimizer=model.optimizer)
    model.save("new.keras")
"""


def _parser() -> argparse.ArgumentParser:
    import tf_lso
    from tf_lso import help
    from tf_lso.install import program
    from tf_lso.migrate import check_command as check
    from tf_lso.migrate import migrate_command as migrate

    parser = argparse.ArgumentParser(prog="tf-lso", description=_DESCRIPTION)
    version = f"tf-lso {tf_lso.__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    modules = {"run": program, "check": check, "migrate": migrate, "help": help}
    module: Any
    for name, module in modules.items():
        added = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(added)
        added.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code.

    Args:
      arguments: list of str, the arguments of the command line. Defaults to the arguments
        of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] == "convert":
        sys.stderr.write(_CONVERT)
        return 2
    parser = _parser()
    # The shell sets `_ARGCOMPLETE` when it asks for the completions of a word.
    if "_ARGCOMPLETE" in os.environ:
        with contextlib.suppress(ImportError):
            import argcomplete

            # `autocomplete` prints the completions and ends the process.
            argcomplete.autocomplete(parser)
    args = parser.parse_args(arguments)
    _set_output(args.command)
    try:
        code: int = args.run(args)
        if args.command != "run" and sys.stdout is not None:
            # Write all output now. If the disk is full, `flush` raises an OSError, which
            # is caught below. Without `flush` Python would report the error at exit.
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has closed the pipe.
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        print(f"tf-lso {args.command}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        safe = "; no file is half written" if args.command == "migrate" else ""
        print(f"tf-lso {args.command}: interrupted{safe}", file=sys.stderr)
        return 128 + signal.SIGINT


def _set_output(command: str) -> None:
    """Set the encoding of the output, so that no character raises an encoding error.

    The patches that `tf-lso migrate` writes to a file or a pipe are encoded in UTF-8.
    """
    if command != "run" and isinstance(sys.stdout, io.TextIOWrapper):
        errors = "replace" if command == "help" else "backslashreplace"
        sys.stdout.reconfigure(errors=errors)
        if command == "migrate" and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8", errors=errors)


def _discard_output() -> None:
    """Discard the output that is not written yet, so that Python writes none at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
