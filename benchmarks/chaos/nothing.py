"""A job that does nothing, in a module that imports nothing."""


def nothing() -> None:
    """Do nothing."""
