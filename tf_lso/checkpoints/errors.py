"""The error that every command on files raises."""


class CheckpointError(ValueError):
    """A file cannot be read, or what is in it does not fit.

    The message names the file, and the key in it if there is one.
    """
