"""Run the contract in this process, under the strategy that the command line names.

    python -m tests.contract mirrored4
    python -m tests.contract mirrored2 --families keras3 --styles legacy --modes function
    TF_LSO_DEVICES=GPU python -m tests.contract none
    python -m tests.contract multiworker    # with TF_CONFIG set

The program prints lines about each case, and exits with 1 if a case failed. All workers run the
same cases in the same order. If a case fails on one worker, the other workers may wait forever,
so the caller must limit the time.
"""

import argparse
import itertools
import os
import sys
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tests import devices

devices.hide_others()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("strategy", help="none, mirrored2, mirrored4 or multiworker")
    parser.add_argument("--modes", nargs="+", default=["eager", "function"])
    parser.add_argument("--families", nargs="+", help="by default all installed ones")
    parser.add_argument("--styles", nargs="+", default=["legacy", "keras3"])
    parser.add_argument(
        "--only", default="", help="only cases whose name contains this"
    )
    parser.add_argument("--built", action="store_true", help="see `Setting.built`")
    options = parser.parse_args()
    strategy = devices.strategy(options.strategy)

    from tests.contract.cases import CASES, cases_for
    from tests.contract.setting import Setting
    from tests.families import FAMILIES

    families = options.families or FAMILIES
    settings = [
        (name, family, style, mode)
        for mode, family, style in itertools.product(
            options.modes, families, options.styles
        )
        for name in cases_for(strategy, mode, family, style)
        if options.only in name
    ]
    passed = failed = 0
    for name, family, style, mode in settings:
        label = f"{name}-{family}-{style}-{mode}-{options.strategy}"
        print("case", label, flush=True)
        start = time.monotonic()
        try:
            CASES[name](Setting(family, style, mode, strategy, built=options.built))
        except Exception:
            traceback.print_exc()
            failed += 1
            result = "FAILED"
        else:
            passed += 1
            result = "ok"
        print(f"{result} {label} {time.monotonic() - start:.1f}", flush=True)
    print(f"{passed} cases passed, {failed} cases failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
