"""Builds the site from compat_docs by Sphinx, with warnings as errors, and serves it."""

import argparse
import functools
import http.server
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

The first call makes a virtual environment with TensorFlow in the checkout, which takes a
few minutes.
"""


def build(out):
    """Build the site into a folder; return the exit code of Sphinx."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "--quiet"]
    command += ["--fail-on-warning", "--keep-going", "--nitpicky"]
    command += ["-d", str(out.parent / f"{out.name}-cache")]
    command += [str(ROOT / "compat_docs"), str(out)]
    return subprocess.run(command, check=False).returncode


def serve(out, port):
    """Serve a folder on this machine until an interrupt."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=out)
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port} (end with Ctrl-C)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main():
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="tools/docs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("--serve",),
        nargs="?",
        type=int,
        const=8000,
        metavar="PORT",
        help="serve the site on this machine (port 8000 if none is given)",
    )
    parser.add_argument(
        *("--out",),
        type=Path,
        default=ROOT / "build" / "docs",
        metavar="FOLDER",
        help="where to build (default: build/docs)",
    )
    options = parser.parse_args()
    out = options.out.resolve()
    if code := build(out):
        return code
    print(out / "index.html")
    if options.serve is not None:
        serve(out, options.serve)
    return 0


if __name__ == "__main__":
    sys.exit(main())
