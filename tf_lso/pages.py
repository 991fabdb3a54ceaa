"""The address of the documentation, for messages of which it has more to say."""

SITE = "https://tf-lso.readthedocs.io/en/latest/"


def troubleshooting(anchor: str) -> str:
    """Return the address of an entry of the page «Troubleshooting by message».

    Args:
      anchor: str, the `id` that stands below the entry's heading.
    """
    return f"{SITE}troubleshooting.html#{anchor}"
