"""Counts what a run has found."""

import collections

from tf_lso.migrate.files import Outcome
from tf_lso.migrate.findings import BREAKS, UNSURE, WORKS, WRONG


def counted(outcome: Outcome) -> dict[str, int]:
    """Return how many findings, files and places there are of each kind."""
    findings = outcome.findings
    status = collections.Counter(one.verdict.status for one in findings)
    fails = collections.Counter(one.verdict.status for one in findings if one.fails)
    return {
        "files": len(outcome.files),
        "findings": len(findings),
        "wrong": fails[WRONG],
        "breaks": fails[BREAKS],
        "guarded": sum(one.guarded for one in findings),
        "works": status[WORKS],
        "unsure": status[UNSURE],
        "changed": len(outcome.changed),
        "places": sum(file.places for file in outcome.changed),
        "left": len(outcome.left),
        "unreadable": len(outcome.unreadable),
    }
