# Sourced by the tools beside it. Sets
#   root         the checkout
#   environment  the virtual environment, made or brought up to date where needed
#
# Read from the caller's environment:
#   PYTHON             the Python to use; otherwise the first suitable one
#   TF_LSO_TENSORFLOW  which distribution of TensorFlow to install: tensorflow or
#                      tensorflow-cpu

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Whatever goes to standard output belongs to the program that the tool runs.
say() { printf '%s\n' "$*" >&2; }
fail() { say "$(basename "$0"): $*"; exit 1; }

# Prints "3.11" for a Python that works, nothing for one that does not. A pyenv shim
# can stand on the PATH and still refuse to run.
python_version() {
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

is_supported() {
  case "$1" in 3.10 | 3.11 | 3.12 | 3.13) true ;; *) false ;; esac
}

# Sets python and version.
choose_python() {
  if [ -n "${PYTHON:-}" ]; then
    python=$PYTHON
    version=$(python_version "$python")
    is_supported "$version" ||
      fail "PYTHON=$PYTHON is ${version:-no Python that runs}; needed is 3.10 to 3.13."
    return
  fi
  for python in python3 python3.13 python3.12 python3.11 python3.10; do
    version=$(python_version "$python")
    if is_supported "$version"; then return; fi
  done
  fail "found no Python 3.10 to 3.13. Install one, or name it: PYTHON=/path/to/python3"
}

# Sets distribution. The default is the one that tf-keras requires: another would stand
# beside it, with the same files.
choose_tensorflow() {
  distribution=${TF_LSO_TENSORFLOW:-tensorflow}
  case "$distribution" in
    tensorflow | tensorflow-cpu) ;;
    *) fail "TF_LSO_TENSORFLOW=$distribution: use tensorflow or tensorflow-cpu." ;;
  esac
}

# What the environment was made from; another answer means: install again.
fingerprint() {
  { printf '%s\n' "$root" "$distribution"; cat "$root/setup.cfg" "$root/pyproject.toml"; } |
    cksum
}

is_ready() {
  [ -x "$environment/bin/python" ] &&
    [ "$(cat "$environment/tf-lso-stamp" 2>/dev/null)" = "$(fingerprint)" ]
}

# uv, where it is, takes a sixth of pip's time. It knows none of pip's settings, so that
# pip may still find what uv does not. TensorFlow stands first: uv takes the newest of
# what it meets first. Progress is of no use here; errors are not silenced.
install_packages() {
  local wanted=("$distribution"
    --editable "$root[$distribution,tf-keras,benchmark,demo,docs,test]")
  if command -v uv >/dev/null &&
    uv pip install --quiet --python "$environment/bin/python" "${wanted[@]}"; then
    return
  fi
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
    "${wanted[@]}"
}

make_environment() {
  local stamp=$environment/tf-lso-stamp wanted
  wanted=$(fingerprint)
  if [ -x "$environment/bin/python" ] && [ -e "$stamp" ]; then
    say "Updating the virtual environment $(basename "$environment") (setup.cfg changed)"
  else
    say "Making the virtual environment $(basename "$environment")" \
      "(first use, takes a few minutes)"
    # --clear: what an interrupted installation left may be half of a package.
    "$python" -m venv --clear "$environment" ||
      fail "$python could not make a virtual environment. On Debian and Ubuntu:" \
        "apt-get install python$version-venv"
  fi
  # The stamp is the last thing written and the first removed, so that an interrupted
  # installation does not pass for a finished one.
  rm -f "$stamp"
  install_packages >&2 ||
    fail "the installation failed; see pip's message above. The next call tries again."
  check_versions
  printf '%s\n' "$wanted" >"$stamp"
}

# TensorFlow is there twice if tensorflow-cpu was asked for, since tf-keras requires the one
# called tensorflow. The two share their files, which goes well only in one version.
check_versions() {
  local found
  found=$("$environment/bin/python" -m pip list --format=freeze --disable-pip-version-check |
    grep -E '^tensorflow(-cpu)?==')
  [ "$(printf '%s\n' "$found" | cut -d= -f3 | sort -u | wc -l)" -eq 1 ] ||
    fail "these have to be of one version:" $found
}

prepare_environment() {
  choose_python
  choose_tensorflow
  environment=$root/.venv-$version
  # Another distribution gets its own: one cannot be installed cleanly over the other.
  if [ -n "${TF_LSO_TENSORFLOW:-}" ]; then environment+=-$distribution; fi
  if is_ready; then return; fi

  # Two first calls at once must not install into each other. Python takes the lock,
  # since not every system has the flock command; it stays with the open file, which
  # the shell holds.
  exec 9>"$environment.lock"
  if ! "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' \
    2>/dev/null; then
    say "Waiting for another call, which is making $(basename "$environment")"
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
  fi
  if ! is_ready; then make_environment; fi
  exec 9>&-
}

prepare_environment
