"""Count the operations and collectives of graphs, and measure the memory of a process."""

import collections
import contextlib
import functools
import pathlib
import re

# Operations that run Python code, or for which the host waits for a value from the device.
_HOST = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "HostCompute", "PrintV2", "Print"}


def operations(graph):
    """Return a Counter of the types of operations in a `tf.Graph` and in its functions.

    The body of a function counts once for each call of the function. Both branches of a
    conditional count, and the body of a loop counts once.
    """
    definition = graph.as_graph_def()
    bodies = {f.signature.name: f.node_def for f in definition.library.function}
    bodies[None] = definition.node  # the key None stands for the graph itself

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


def host_operations(graph):
    """Return the types of operations in a graph that call Python or print."""
    return sorted(_HOST & set(operations(graph)))


def resident_bytes():
    """Return how many bytes of memory this process uses now, or None if that is unknown."""
    with contextlib.suppress(OSError):
        status = pathlib.Path("/proc/self/status").read_text()
        found = re.search(r"^VmRSS:\s*(\d+) kB", status, re.MULTILINE)
        return found and int(found[1]) * 1024
