"""Matrices of cases of which the quick suite runs a part, in turns."""

import itertools

import pytest


def in_turns(every, *axes):
    """The product of `axes` for `parametrize`; but for each `every`-th, marked slow.

    Each value of each axis stays, and with a third axis also each pair of values of two
    others, where `every` is not more than the third axis has values.
    """
    for numbered in itertools.product(*map(enumerate, axes)):
        numbers, values = zip(*numbered)
        marks = [pytest.mark.slow] if sum(numbers) % every else []
        yield pytest.param(*values, marks=marks)
