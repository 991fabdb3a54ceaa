"""The directive `command-help`: what `tf-lso COMMAND --help` prints."""

import os
import subprocess
import sys

from docutils import nodes
from docutils.parsers.rst import Directive


class CommandHelp(Directive):
    """`{command-help} tf-lso run` shows the help of `tf-lso run`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        """Run the command; return its output as one block."""
        _, *command = self.arguments[0].split()
        done = subprocess.run(
            [sys.executable, "-m", "tf_lso", *command, "--help"],
            env={**os.environ, "COLUMNS": "78", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return [nodes.literal_block(done.stdout, done.stdout, language="text")]


def setup(app):
    """Connect to Sphinx."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
