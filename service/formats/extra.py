"""pyarrow, an optional dependency, imported when a request first needs it."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from service.errors import UnsupportedMediaType


@cache
def pyarrow() -> Any:
    """Import pyarrow with its readers and writers; raises ``UnsupportedMediaType`` if it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.ipc")
        importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UnsupportedMediaType("Arrow and Parquet need the extra: pip install calibrant-server[arrow]") from error
    # The default memory pool does not return the memory of a large body.
    arrow.set_memory_pool(arrow.system_memory_pool())
    return arrow


@cache
def has_pyarrow() -> bool:
    """Whether pyarrow is installed; does not import it."""
    return importlib.util.find_spec("pyarrow") is not None
