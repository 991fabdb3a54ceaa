"""`tools/benchmark`: see help.txt, or `tools/benchmark --help`."""

import argparse
import json
import pathlib
import signal
import sys

from tools.benchmarks import about, choices, figures, plan, report, running, workloads

_HELP = pathlib.Path(__file__).with_name("help.txt")
_IMPORTS = 5


def _names(known):
    """What turns `a,b` or `all` into a list of known names."""

    def parse(text):
        names = list(known) if text == "all" else text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}: use {', '.join(known)}")
        return names

    return parse


def _workload_names(text):
    names = list(workloads.WORKLOADS) if text == "all" else text.split(",")
    for name in names:
        try:
            workloads.get(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return names


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be at least 1")
    return number


def parser():
    """The parser. Its help is help.txt, which `tools/benchmark` prints by itself."""
    made = argparse.ArgumentParser(
        "tools/benchmark", add_help=False, allow_abbrev=False
    )
    made.add_argument("-h", "--help", action="store_true")
    made.add_argument("--workloads", type=_workload_names)
    made.add_argument("--modes", type=_names(choices.MODES))
    made.add_argument("--strategies", type=_names(choices.STRATEGIES))
    made.add_argument("--families", type=_names(choices.FAMILIES))
    made.add_argument("--candidates", type=_names(choices.CANDIDATES))
    made.add_argument("--sweep", action="store_true")
    made.add_argument("--memory", action="store_true")
    made.add_argument("--imports", action="store_true")
    made.add_argument("--rounds", type=_positive)
    made.add_argument("--timeout", type=_positive, default=600)
    made.add_argument("--quick", action="store_true")
    made.add_argument("--out", type=pathlib.Path)
    made.add_argument("--markdown", action="store_true")
    made.add_argument("--read", type=pathlib.Path)
    return made


def main(arguments=None):
    """Run the tool; return the exit code."""
    options = parser().parse_args(arguments)
    if options.help:
        print(_HELP.read_text(encoding="utf-8"), end="")
        return 0
    if options.read:
        result = json.loads(options.read.read_text(encoding="utf-8"))
    else:
        result = _measured(options)
    if options.out:
        _write(options.out, result)
        _draw(options.out, result)
    print(report.text(result, options.markdown))
    return 1 if result["failures"] else 0


def _measured(options):
    # So that what ends this process, a time limit for instance, ends its children too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    chosen = _chosen_workloads(options)
    jobs, records = plan.jobs(
        modes=options.modes or list(choices.MODES),
        strategies=options.strategies or ["default"],
        families=options.families or list(choices.FAMILIES),
        workloads=chosen,
        candidates=options.candidates or list(choices.CANDIDATES),
        rounds=options.rounds or (3 if options.quick else 15),
        memory=options.memory,
    )
    result = {
        "environment": about.environment(),
        "workloads": {name: _size(workloads.get(name)) for name in chosen},
        "imports": about.import_seconds(_IMPORTS) if options.imports else None,
        "failures": [],
        "figures": figures.complete(records),
    }
    for job in _with_progress(jobs):
        found, failure = running.run(job, options.timeout)
        records += found
        if failure:
            result["failures"].append(failure)
            print(failure, file=sys.stderr)
        result["figures"] = figures.complete(records)
        if options.out:
            _write(options.out, result)  # what is there stays if the run is ended
    return result


def _chosen_workloads(options):
    small = ["tiny"] if options.quick else list(workloads.WORKLOADS)
    chosen = options.workloads or small
    sweep = workloads.SWEEP if options.sweep else ()
    return [*chosen, *(name for name in sweep if name not in chosen)]


def _size(workload):
    return {
        "title": workload.title,
        "tensors": len(workload.gradients),
        "values": workload.values,
        "bytes": workload.bytes,
    }


def _with_progress(jobs):
    """The jobs, with a bar that names the one at hand, or lines where there is no tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        for number, job in enumerate(jobs, start=1):
            print(f"[{number}/{len(jobs)}] {job.title}", file=sys.stderr)
            yield job
        return
    with tqdm(total=len(jobs), unit="process") as bar:
        for job in jobs:
            bar.set_postfix_str(job.title)
            yield job
            bar.update()


def _write(folder, result):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1) + "\n"
    (folder / "benchmark.json").write_text(text, encoding="utf-8")


def _draw(folder, result):
    try:
        from tools.benchmarks import plots
    except ImportError as error:
        print(f"No plots: {error}. pip install matplotlib", file=sys.stderr)
        return
    for plot in plots.draw(result, folder):
        print(f"plot {plot}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
