# The tools in this folder source this file. It sets `root` to the path of the checkout, and
# `python` and `version` to a Python and its version. The Python is the one that the variable
# PYTHON names, or else the first suitable one on the PATH.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Messages go to stderr, since stdout belongs to the program that the tool runs.
say() { printf '%s\n' "$*" >&2; }
fail() { say "$(basename "$0"): $*"; exit 1; }

# Sets python and version. A shim of pyenv may be on the PATH and still refuse to run.
choose_python() {
  local candidates=(python3 python3.13 python3.12 python3.11 python3.10)
  local program='import sys; print("%d.%d" % sys.version_info[:2])'
  if [ -n "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
  for python in "${candidates[@]}"; do
    version=$("$python" -c "$program" 2>/dev/null) || continue
    case $version in 3.10 | 3.11 | 3.12 | 3.13) return ;; esac
  done
  fail "found no Python 3.10 to 3.13 that runs${PYTHON:+; PYTHON=$PYTHON is not one}." \
    "Install one, or name it: PYTHON=/path/to/python3"
}

choose_python
