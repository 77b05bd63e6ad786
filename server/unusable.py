"""What ends a command: a file of the data directory that cannot be used."""


class FileUnusable(RuntimeError):
    """A file of the data directory cannot be used; the text says which, and what to do."""
