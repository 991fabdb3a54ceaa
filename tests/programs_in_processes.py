"""Small programs that need a process of their own."""

import os
import subprocess
import sys
import textwrap

from tests.processes import HANGS_AFTER, LEAN, QUIET


def start(arguments, **environment):
    """Run Python with `arguments` and variables to its end; return what it did."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": LEAN, **QUIET, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
    )


def run(program, by=start, **environment):
    """Run Python on `program`; return the lines it printed, or fail with its errors.

    `by`: `start`, or `preloaded.run` for a program that imports TensorFlow first.
    """
    done = by(["-c", textwrap.dedent(program)], **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hiding(*packages):
    """Return the start of a program in which those packages cannot be imported."""
    return textwrap.dedent(f"""
        import importlib.abc
        import sys

        class Hidden(importlib.abc.MetaPathFinder):
            '''Finds what the other finders find, but none of the packages.'''

            finders = list(sys.meta_path)

            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {packages!r}:
                    return None
                specs = (f.find_spec(name, path, target) for f in self.finders)
                return next((spec for spec in specs if spec is not None), None)

            def find_distributions(self, *context):
                for finder in self.finders:
                    if hasattr(finder, "find_distributions"):
                        yield from finder.find_distributions(*context)

        sys.meta_path[:] = [Hidden()]
        """)
