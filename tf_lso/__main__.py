"""Let `python -m tf_lso` do the same as the command `tf-lso`."""

import sys

from tf_lso import cli

if __name__ == "__main__":
    sys.exit(cli.main())
