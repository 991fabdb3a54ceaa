"""Count what timings cannot tell: operations, collectives, traces, memory.

The tests of the distributed step and of long runs use this too.
"""

import collections
import pathlib
import resource
import sys

# Python runs in these, or the host waits for a value of the device.
_HOST = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "HostCompute", "PrintV2", "Print"}
_STATUS = pathlib.Path("/proc/self/status")
_MEMORY = pathlib.Path("/proc/meminfo")
_RESET = pathlib.Path("/proc/self/clear_refs")


def operations(graph):
    """How many operations of each type a graph holds, inner functions included.

    The body of a function counts once for each call of it, both branches of a
    conditional count, and the body of a loop counts once.

    Args:
      graph: a `tf.Graph`, for example `function.get_concrete_function(...).graph`.

    Returns:
      A `collections.Counter` of operation types.
    """
    definition = graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in definition.library.function}
    known = {}

    def count(nodes):
        total = collections.Counter()
        for node in nodes:
            total[node.op] += 1
            for name in _called(node, functions):
                if name not in known:
                    known[name] = count(functions[name])
                total += known[name]
        return total

    return count(definition.node)


def _called(node, functions):
    """The names of the functions that a node calls."""
    names = [node.op] if node.op in functions else []
    for value in node.attr.values():
        names += [value.func.name] if value.HasField("func") else []
        names += [function.name for function in value.list.func]
    return [name for name in names if name in functions]


def collectives(graph):
    """How many collective operations a graph holds, over all replicas in it."""
    return sum(
        number
        for kind, number in operations(graph).items()
        if kind.startswith(("Collective", "Nccl")) and "Group" not in kind
    )


def host_operations(graph):
    """The types of operations in a graph that call back to Python or print."""
    return sorted(_HOST & set(operations(graph)))


def traces(function):
    """How often a `tf.function` has been traced."""
    return function.experimental_get_tracing_count()


def resident_bytes():
    """The memory that this process holds now; None where the system does not say."""
    return _status("VmRSS")


def reset_peak():
    """Let `peak_bytes` count from here on; return whether the system can do that."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes():
    """The most memory that this process has held, since `reset_peak` if that worked."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def available_bytes():
    """The memory that programs can still get; None where the system does not say."""
    return _status("MemAvailable", _MEMORY)


def _status(key, path=_STATUS):
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None
