# Sourced by the tools in this folder. Sets what python.sh sets, and environment, the virtual
# environment, which is made or brought up to date where needed. The caller's PYTHON and
# TF_LSO_TENSORFLOW choose it, as tools/run --help says.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

# What the environment was made from; another answer means: install again.
fingerprint() {
  { printf '%s\n' "$root" "$distribution"; cat "$root/setup.cfg" "$root/pyproject.toml"; } |
    cksum
}

is_ready() { [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; }

make_environment() {
  local program wanted
  say "Making or updating $(basename "$environment") (takes a few minutes the first time)"
  # --clear: what an interrupted installation left may be half of a package.
  [ -e "$stamp" ] || "$python" -m venv --clear "$environment" ||
    fail "$python could not make a virtual environment. On Debian and Ubuntu:" \
      "apt-get install python$version-venv"
  # The stamp is the last thing written and the first removed, so that an interrupted
  # installation does not pass for a finished one.
  rm -f "$stamp"
  # uv, where it is, takes a sixth of pip's time. It knows none of pip's settings, so that
  # pip may still find what uv does not. TensorFlow stands first: uv takes the newest of
  # what it meets first.
  wanted=("$distribution" -e "$root[$distribution,tf-keras,benchmark,demo,docs,test]")
  { command -v uv >/dev/null && uv pip install -q --python "$environment/bin/python" "${wanted[@]}"; } \
    >&2 || "$environment/bin/python" -m pip install -q "${wanted[@]}" >&2 ||
    fail "the installation failed; see pip's message above. The next call tries again."
  # tf-keras requires `tensorflow`, which shares its files with tensorflow-cpu.
  program='import sys; from importlib.metadata import version as of
sys.exit(of("tensorflow") != of(sys.argv[1]))'
  "$environment/bin/python" -c "$program" "$distribution" ||
    fail "tensorflow and $distribution have to be of one version."
  fingerprint >"$stamp"
}

# The default is the one that tf-keras requires. Another gets an environment of its own,
# since it cannot be installed cleanly over the first.
distribution=${TF_LSO_TENSORFLOW:-tensorflow}
environment=$root/.venv-$version${TF_LSO_TENSORFLOW:+-$distribution}
stamp=$environment/tf-lso-stamp
case $distribution in
  tensorflow | tensorflow-cpu) ;;
  *) fail "TF_LSO_TENSORFLOW=$distribution: use tensorflow or tensorflow-cpu." ;;
esac
if ! is_ready; then
  # Two first calls at once must not install into each other. Python takes the lock, since
  # not every system has the flock command; the open file, which the shell holds, keeps it.
  exec 9>"$environment.lock"
  "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
  if ! is_ready; then make_environment; fi
  exec 9>&-
fi
