"""`tf-lso convert`: its arguments, and what it prints."""

import argparse
import sys

from tf_lso import progress

SUMMARY = "convert checkpoints and models of TensorFlow 2.0-2.15 to Keras 3"

_DESCRIPTION = """\
Convert what a program of TensorFlow 2.0-2.15, or of tf_keras, saved into a file that
Keras 3 reads by itself: weights, the optimizer's slots and step counter, the loss scale.

SOURCE is a checkpoint (its path without .index), a folder with checkpoints, a
SavedModel, or an .h5 or .keras file. It is only read, and no code in it is run.
"""

_EXAMPLES = """\
formats:
  keras        a whole model with its optimizer, for keras.models.load_model
  checkpoint   for tf.train.Checkpoint(model=model, optimizer=optimizer).restore
  weights.h5   for model.load_weights

examples:
  tf-lso convert model.h5 model.keras --format keras
  tf-lso convert ckpt/ckpt-7 model.keras --format keras --model train.py:build_model \\
      --optimizer Adam
  tf-lso convert gan/ckpt-7 new/gen --format checkpoint --model gan.py:generator \\
      --optimizer Adam --name model=generator --name optimizer=generator_optimizer

A checkpoint holds values and does not say what the model is, so it needs --model. A
program that builds its model needs no conversion: there
tf_lso.checkpoints.restore reads the original directly.

The model is built, restored and saved. In addition to what TensorFlow needs, this takes
memory of about three times the size of SOURCE, or five times for the format keras.

The exit code is 0, or 2 if the file cannot be read or does not fit. Then nothing is
written.
"""


def add_arguments(parser):
    """Add the arguments to an `argparse.ArgumentParser`."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("source", metavar="SOURCE", help="what to convert")
    parser.add_argument("dest", metavar="DEST", help="the new file")
    parser.add_argument(
        "--format",
        required=True,
        choices=("keras", "checkpoint", "weights.h5"),
        help="what to write",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="what the model is: a file that describes it (.h5, .keras, a SavedModel, "
        "the .json of model.to_json()), or FILE.py:FUNCTION or MODULE:FUNCTION, which "
        "returns it built, and is run",
    )
    parser.add_argument(
        "--optimizer",
        metavar="OPTIMIZER",
        help="what the optimizer is: its class, such as Adam, or a .json file with its "
        "config",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="a layer or variable in SOURCE, and the one in the model that it is for",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help="the names of the `model` and the `optimizer` in a checkpoint that has "
        "several",
    )
    parser.add_argument(
        "--partial", action="store_true", help="convert what fits if not all does"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace DEST if it exists"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print neither the report nor progress"
    )


def run(args):
    """Run the command; return the exit code."""
    from tf_lso import checkpoints, environment

    try:
        environment.require_tensorflow()
    except ImportError as error:
        print(f"tf-lso convert: {error}", file=sys.stderr)
        return 2
    try:
        report = checkpoints.convert(
            args.source,
            args.dest,
            args.format,
            model=args.model,
            optimizer=args.optimizer,
            partial=args.partial,
            mapping=_pairs("--map", args.map),
            names=_pairs("--name", args.name),
            force=args.force,
            progress=iter if args.quiet else _bar,
        )
    except (checkpoints.CheckpointError, OSError) as error:
        print(f"tf-lso convert: {error}", file=sys.stderr)
        return 2
    if not args.quiet:
        print(report)
    return 0


def _pairs(option, texts):
    from tf_lso.checkpoints import CheckpointError

    for text in texts:
        if "=" not in text:
            raise CheckpointError(f"{option} {text}: should be of the form OLD=NEW.")
    return dict(text.split("=", 1) for text in texts)


def _bar(steps):
    return progress.bar(steps, "tf-lso convert", "tensor")
