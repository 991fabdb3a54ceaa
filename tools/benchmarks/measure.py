"""Time steps against each other: interleaved, round by round. No TensorFlow here."""

import gc
import time


def seconds(function, repeats=1):
    """Seconds that a call takes, the mean of some in a row."""
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    # All devices are CPUs, where a call returns when its work is done.
    return (time.perf_counter() - start) / repeats


def rounds(steps, count, repeats):
    """Time all steps in each of `count` rounds.

    What the machine does meanwhile is about the same for all steps of a round. The
    order is rotated, so that none always runs after the same other one; garbage is
    collected between the steps, and never during one.

    Args:
      steps: dict of name to a function without arguments, warmed up.
      count: number of rounds.
      repeats: how many calls of a step are timed together.

    Returns:
      Dict of name to a list of seconds, one a round.
    """
    names = list(steps)
    times = {name: [] for name in names}
    gc.collect()
    gc.freeze()  # what exists by now need not be looked through again and again
    gc.disable()
    try:
        for number in range(count):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                gc.collect()
                times[name].append(seconds(steps[name], repeats))
    finally:
        gc.enable()
        gc.unfreeze()
    return times
