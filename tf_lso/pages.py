"""Where a message sends its reader: an entry of «Troubleshooting by message»."""

# The address of the site, ending in a slash. Empty as long as there is no site: then
# nobody is sent to one. With an address here, messages and `tf-lso help` name it too.
SITE = ""


def address(page: str) -> str:
    """Return where a page is to be read.

    Args:
      page: str, its path in compat_docs, such as `how-to/gan.md#two-optimizers`.
    """
    if not SITE:
        return f"compat_docs/{page}"
    path, hash_, anchor = page.partition("#")
    return f"{SITE}{path.removesuffix('.md')}.html{hash_}{anchor}"


def troubleshooting(name: str) -> str:
    """Return the command that prints an entry of the page «Troubleshooting by message».

    Args:
      name: str, the `id` that stands below the entry's heading.
    """
    command = f"`tf-lso help {name}`"
    return f"{command} or {address(f'troubleshooting.md#{name}')}" if SITE else command
