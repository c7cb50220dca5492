"""pyarrow, which is an extra: imported when the first body or answer needs it."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from service.errors import UnsupportedMediaType


@cache
def pyarrow() -> Any:
    """Import it with its readers and writers; raises ``UnsupportedMediaType`` if the extra is missing."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.ipc")
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UnsupportedMediaType("Arrow and Parquet need the extra: pip install calibrant-server[arrow]") from error
    # The default pool keeps the memory of a large body.
    arrow.set_memory_pool(arrow.system_memory_pool())
    return arrow


@cache
def has_pyarrow() -> bool:
    """Whether the extra is installed; does not import it."""
    return importlib.util.find_spec("pyarrow") is not None
