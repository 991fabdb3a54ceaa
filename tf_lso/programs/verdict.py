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
    """The verdict on one old name, wherever it is used.

    Attributes:
      name: dotted old name, as the public API spelled it.
      status: WRONG, BREAKS, WORKS or UNSURE.
      today: what happens on the TensorFlow that is asked about.
      tf_lso: what tf_lso does about it.
      error: name of the exception that the very place of use raises, or "".
      current: what today's own API has instead, or "".
      replacement: dotted name in tf_lso, or None.
    """

    name: str
    status: str
    today: str
    tf_lso: str
    error: str = ""
    current: str = ""
    replacement: str | None = None
