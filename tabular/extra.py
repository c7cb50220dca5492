"""pyarrow, which is an extra: imported when the first file needs it."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from tabular.errors import MissingExtra


@cache
def pyarrow(part: str) -> Any | None:
    """Give the module with a part of it (``csv``, ``parquet``, ``ipc``), or None where it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None
    return arrow


def needed_pyarrow(part: str, kind: str) -> Any:
    """The module; raises ``MissingExtra`` where it is not installed, and says how it is."""
    arrow = pyarrow(part)
    if arrow is None:
        raise MissingExtra(f"{kind} files need the extra: pip install 'calibrant[arrow]'; or save it as CSV or NPZ")
    return arrow
