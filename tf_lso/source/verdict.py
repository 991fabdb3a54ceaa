"""The verdict on one old name."""

import dataclasses

WRONG = "wrong"  # silently computes something else
BREAKS = "breaks"  # fails, or does something else
WORKS = "works"  # listed to be complete
UNSURE = "unsure"  # depends on what only a run can tell

# The worst first, in words for people.
LABELS = {
    WRONG: "trains wrong, silently",
    BREAKS: BREAKS,
    UNSURE: UNSURE,
    WORKS: WORKS,
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on one old name, wherever it is used."""

    name: str  # dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, WORKS or UNSURE
    today: str  # what happens on the TensorFlow that is asked about
    tf_lso: str  # what tf_lso does about it
    error: str = ""  # the exception that the very place of use raises
    current: str = ""  # what today's own API has instead
    replacement: str | None = None  # dotted name in tf_lso
