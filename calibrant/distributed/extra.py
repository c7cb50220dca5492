"""What says which extra brings a package that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn the failure of an import into one that says how the package is installed."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"this needs an extra: pip install 'calibrant[{extra}]'", name=error.name) from None
