"""The block of text that people paste into an issue. No TensorFlow here."""

import collections

FORM = ".github/ISSUE_TEMPLATE/gpu.yml"  # of the issue to paste it into
_LAST = 15  # lines of the output of a part that failed


def text(facts, results):
    """The block: machine, what came of each part, and the whole.

    Args:
      facts: what `machine.facts` returns.
      results: list of `parts.Result`.
    """
    versions = ", ".join(f"{name} {of}" for name, of in facts["versions"].items())
    counted = collections.Counter(facts["devices"])
    merging = "merges the replicas" if facts["merges"] else "without merging"
    lines = [
        f"versions: {versions}",
        f"system: Python {facts['python']}, {facts['system']}",
        f"TensorFlow was built for CUDA {facts['cuda']}, cuDNN {facts['cudnn']}",
        "devices: " + ", ".join(f"{count} x {name}" for name, count in counted.items()),
        f"MirroredStrategy: {merging}",
    ]
    for result in results:
        word = "passed" if result.passed else "FAILED"
        several = "\n" in result.said
        lines.append(f"{result.name}: {word}" + ("" if several else f"; {result.said}"))
        lines += [f"  {line}" for line in result.said.splitlines() if several]
        if not result.passed:
            last = result.output.strip().splitlines()[-_LAST:]
            lines += [f"  | {line}" for line in last]
    failed = [result.name for result in results if not result.passed]
    lines.append("whole: " + (f"FAILED: {'; '.join(failed)}" if failed else "passed"))
    return "\n".join(lines)
