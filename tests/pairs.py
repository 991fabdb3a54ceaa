"""Choosing few cases of many that still meet each two values together."""

import itertools


def pairs(case):
    """The pairs of values that a case meets, with their places."""
    return set(itertools.combinations(enumerate(case), 2))


def pairwise(cases, met=(), pairs=pairs):
    """Choose cases that meet all pairs of all cases but those in `met`, many at once."""
    met, chosen = set(met), []
    for least in range(max((len(pairs(case)) for case in cases), default=0), 0, -1):
        for case in cases:
            if len(pairs(case) - met) >= least:
                met |= pairs(case)
                chosen.append(case)
    return chosen
