# The tools in this folder source this file. It makes or updates a virtual environment if
# necessary, and sets `environment` to the path of that environment. It also sets the variables
# of python.sh. The variables PYTHON and TF_LSO_TENSORFLOW choose the environment: see
# tools/run --help.

source "$(dirname "${BASH_SOURCE[0]}")/python.sh"

# Prints a checksum of everything that determines the environment. When the checksum changes,
# everything is installed again.
fingerprint() {
  { printf '%s\n' "$root" "$distribution"; cat "$root/setup.cfg" "$root/pyproject.toml"; } |
    cksum
}

is_ready() { [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; }

make_environment() {
  local program wanted
  say "Making or updating $(basename "$environment") (takes a few minutes the first time)"
  # --clear removes incomplete packages that an interrupted installation may have left.
  [ -e "$stamp" ] || "$python" -m venv --clear "$environment" ||
    fail "$python could not make a virtual environment. On Debian and Ubuntu:" \
      "apt-get install python$version-venv"
  # The stamp is removed first and written last, so that an interrupted installation does not
  # look complete.
  rm -f "$stamp"
  # If uv is installed, it is tried first, because it needs a sixth of pip's time. But uv does
  # not read pip's settings, so pip may find packages that uv does not find. TensorFlow comes
  # first in the list, because uv chooses the newest version of the first package.
  wanted=("$distribution" -e "$root[$distribution,tf-keras,benchmark,demo,docs,test]")
  { command -v uv >/dev/null && uv pip install -q --python "$environment/bin/python" "${wanted[@]}"; } \
    >&2 || "$environment/bin/python" -m pip install -q "${wanted[@]}" >&2 ||
    fail "the installation failed; see pip's message above. The next call tries again."
  # tf-keras also installs `tensorflow`, which has the same files as tensorflow-cpu. So both
  # must have the same version.
  program='import sys; from importlib.metadata import version as of
sys.exit(of("tensorflow") != of(sys.argv[1]))'
  "$environment/bin/python" -c "$program" "$distribution" ||
    fail "tensorflow and $distribution have to be of one version."
  fingerprint >"$stamp"
}

# The default is the distribution that tf-keras requires. The other distribution
# gets its own environment, since it cannot be installed cleanly over the default.
distribution=${TF_LSO_TENSORFLOW:-tensorflow}
environment=$root/.venv-$version${TF_LSO_TENSORFLOW:+-$distribution}
stamp=$environment/tf-lso-stamp
case $distribution in
  tensorflow | tensorflow-cpu) ;;
  *) fail "TF_LSO_TENSORFLOW=$distribution: use tensorflow or tensorflow-cpu." ;;
esac
if ! is_ready; then
  # Two calls at the same time must not install into the same environment. Python locks the
  # file, since some systems lack the flock command. The lock lasts as long as the shell keeps
  # the file open.
  exec 9>"$environment.lock"
  "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
  if ! is_ready; then make_environment; fi
  exec 9>&-
fi
