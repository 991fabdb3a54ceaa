"""Count what timings cannot tell: operations, collectives, memory.

For the tests of the distributed step and of long runs, and for `tools/benchmark`.
"""

import collections
import contextlib
import functools
import pathlib
import re

# Python runs in these, or the host waits for a value of the device.
_HOST = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "HostCompute", "PrintV2", "Print"}


def operations(graph):
    """How many operations of each type a `tf.Graph` holds, inner functions included.

    The body of a function counts once for each call of it, both branches of a
    conditional count, and the body of a loop counts once.
    """
    definition = graph.as_graph_def()
    bodies = {f.signature.name: f.node_def for f in definition.library.function}
    bodies[None] = definition.node  # of the graph itself

    @functools.cache
    def count(name):
        total = collections.Counter(node.op for node in bodies[name])
        for node in bodies[name]:
            called = [node.op]
            for value in node.attr.values():
                called += [value.func.name, *(f.name for f in value.list.func)]
            for function in filter(bodies.__contains__, called):
                total += count(function)
        return total

    return count(None)


def collectives(graph):
    """How many collective operations a graph holds, over all replicas in it."""
    counted = operations(graph)
    kinds = [k for k in counted if k.startswith(("Collective", "Nccl"))]
    return sum(counted[kind] for kind in kinds if "Group" not in kind)


def host_operations(graph):
    """The types of operations in a graph that call back to Python or print."""
    return sorted(_HOST & set(operations(graph)))


def resident_bytes():
    """The memory that this process holds now; None where the system does not say."""
    return _status("VmRSS")


def reset_peak():
    """Let `peak_bytes` count from here on, where the system can do that."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak_bytes():
    """The most memory that this process has held; None where the system does not say."""
    return _status("VmHWM")


def _status(key):
    with contextlib.suppress(OSError):
        status = pathlib.Path("/proc/self/status").read_text()
        found = re.search(rf"^{key}:\s*(\d+) kB", status, re.MULTILINE)
        return found and int(found[1]) * 1024
