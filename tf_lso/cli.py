"""The command `tf-lso`: parsing only."""

import argparse
import os
import signal
import sys

_DESCRIPTION = """\
Run, check and move programs that use the mixed-precision API of TensorFlow 2.0-2.15 on
today's TensorFlow."""

_RUN = """\
Run a program as `python` would, with every old loss-scaling name in place.

The program needs no change. In its own file the same is done by one line at the top:

    import tf_lso; tf_lso.install()
"""

_RUN_EXAMPLES = """\
examples:
  tf-lso run train.py --epochs 3          the script, with its own arguments
  tf-lso run --report train.py            and say which old names it used, and where
  tf-lso run -m mypackage.train --gpus 2  a module, as `python -m` does

The exit code is the program's.
"""


def _run(args):
    from tf_lso.running import program

    if args.module is not None:
        if not args.module:
            args.parser.error("argument -m: expected the name of a module")
        return program.run(args.module, module=True, report=args.report)
    if not args.program:
        args.parser.error("the script to run is missing; see the examples in --help")
    return program.run(args.program, report=args.report)


def _add_run(commands):
    parser = commands.add_parser(
        "run",
        help="run a program with the old names in place",
        description=_RUN,
        epilog=_RUN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="tf-lso run [--report] (SCRIPT | -m MODULE) [ARGS ...]",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print at the end which old names were used, where, and today's names",
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="run a module as a script, as `python -m` does",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="the script, and its arguments",
    )
    parser.set_defaults(run=_run, parser=parser)


def _add_check(commands):
    from tf_lso import check

    parser = commands.add_parser("check", help=check.SUMMARY)
    check.add_arguments(parser)
    parser.set_defaults(run=check.run)


def _add_convert(commands):
    from tf_lso.checkpoints import command

    parser = commands.add_parser("convert", help=command.SUMMARY)
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)


def _add_migrate(commands):
    from tf_lso import migrate

    parser = commands.add_parser("migrate", help=migrate.SUMMARY)
    migrate.add_arguments(parser)
    parser.set_defaults(run=migrate.run)


def _parser():
    parser = argparse.ArgumentParser(prog="tf-lso", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_check(commands)
    _add_convert(commands)
    _add_migrate(commands)
    return parser


def _version():
    import tf_lso

    return f"tf-lso {tf_lso.__version__}"


def main(arguments=None):
    """Run the command line; return the exit code.

    Args:
      arguments: list of str, by default those of the process.
    """
    args = _parser().parse_args(arguments)
    try:
        return args.run(args)
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
