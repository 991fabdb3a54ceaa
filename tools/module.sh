# Sourced by the tools that are Python modules: module.sh MODULE [ARGUMENTS].

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=$(dirname "$tools")${PYTHONPATH:+:$PYTHONPATH}
case " $* " in
  # Without the environment, which takes minutes to make.
  *" -h "* | *" --help "*) exec python3 -m "$1" --help ;;
esac

source "$tools/environment.sh"
exec "$environment/bin/python" -m "$@"
