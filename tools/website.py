"""Builds the site from compat_docs by Sphinx, with warnings as errors, and serves it."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_DESCRIPTION = """\
Builds the site from the pages of compat_docs into build/docs. A warning is an error: a
link within the site that leads nowhere, a page that no menu has, a docstring that
cannot be read."""
_EPILOG = """\
examples:
  tools/docs                    build, and print where the site is
  tools/docs --serve            build, and show it at http://127.0.0.1:8000
  tools/docs --serve 9000       the same at another port
  PYTHON=python3.12 tools/docs  with another Python, in its own environment
"""


def main():
    """Run the command line; return the exit code."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "tools/docs", None, _DESCRIPTION, _EPILOG, formatter_class=raw
    )
    add, text = parser.add_argument, "serve the site on this machine (default: 8000)"
    add("--serve", nargs="?", type=int, const=8000, metavar="PORT", help=text)
    text, default = "where to build (default: build/docs)", ROOT / "build" / "docs"
    add("--out", type=Path, default=default, help=text)
    options = parser.parse_args()
    out = options.out.resolve()
    command = [sys.executable, "-m", "sphinx", "-b", "html", "--quiet"]
    command += ["--fail-on-warning", "--keep-going", "--nitpicky"]
    command += ["-d", str(out.parent / f"{out.name}-cache")]
    done = subprocess.run([*command, str(ROOT / "compat_docs"), str(out)])
    if done.returncode:
        return done.returncode
    print(out / "index.html", flush=True)
    if options.serve is not None:
        server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]
        server += ["--directory", str(out), str(options.serve)]
        os.execv(server[0], server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
