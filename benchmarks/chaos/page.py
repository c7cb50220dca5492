"""docs/reliability.md."""


def write_page() -> None:
    """Write."""
